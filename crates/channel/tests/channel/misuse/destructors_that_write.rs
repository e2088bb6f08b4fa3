//! Buffers whose owners write to their channel when they are dropped (rule 1).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{Detach, ReadPlan, Submit, TaskOnly};
use waterwheel_channel::local::Connection;
use waterwheel_channel::transport::{Outbound, STREAM_TYPES, Transport, TransportContext};
use waterwheel_channel::{
    Channel, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::{self, Embedded};

use super::support::{Puppet, Stage, Trouble};

/// Owns a buffer. Dropped, it sends the next one to the same channel.
struct Chain {
    bytes: Vec<u8>,
    left: usize,
    channel: Channel,
    dropped: Arc<AtomicUsize>,
}

impl Chain {
    fn start(channel: &Channel, size: usize, pieces: usize) -> (Bytes, Arc<AtomicUsize>) {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (bytes, channel) = (vec![b'x'; size], channel.clone());
        let first = Chain { bytes, left: pieces - 1, channel, dropped: dropped.clone() };
        (Bytes::from_owner(first), dropped)
    }
}

impl AsRef<[u8]> for Chain {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(left) = self.left.checked_sub(1) {
            let (bytes, channel) = (std::mem::take(&mut self.bytes), self.channel.clone());
            let next = Chain { bytes, left, channel, dropped: self.dropped.clone() };
            self.channel.send(Bytes::from_owner(next));
        }
    }
}

/// A stream that takes all bytes at once, as a socket does whose peer is fast.
struct Sink;

impl Transport for Sink {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn reads(&self) -> Types {
        Types::of::<Bytes>()
    }

    fn accepts(&self) -> Types {
        STREAM_TYPES
    }

    fn writes_stream(&self) -> bool {
        true
    }

    fn register(&mut self, _: &TransportContext) -> Result<bool, Error> {
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, _: &TransportContext, _: Option<ReadPlan>) {}

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let all = outbound.bytes().len();
        outbound.wrote(all);
        Ok(Submit::Done(all))
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        Detach::Done
    }
}

fn sink(stage: &mut Stage) -> Channel {
    let made = stage.on(|here| here.register_with(NewChannel::new(Sink), |_| Ok(())));
    made.expect("it can be registered")
}

#[test]
fn c05_rule_1_a_buffer_may_write_the_next_one_to_its_channel_when_it_is_dropped() {
    for size in [0, 10, 100_000] {
        let mut stage = Stage::new();
        let channel = sink(&mut stage);
        let (first, dropped) = Chain::start(&channel, size, 100);
        stage.on(|_| channel.send(first));
        stage.run();
        assert_eq!(dropped.load(Ordering::Relaxed), 100, "of {size} bytes each");
        assert_eq!(stage.reports.take(), [""; 0]);
        assert!(channel.is_open());
        assert_eq!(channel.pending_bytes(), 0);
    }
}

#[test]
fn c05_rule_1_a_buffer_may_write_the_next_one_over_a_transport_of_messages() {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet(Trouble::None), |_| Ok(()));
    let (first, dropped) = Chain::start(&channel, 10, 100);
    stage.on(|_| channel.send(first));
    stage.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
    assert_eq!(stage.reports.take(), [""; 0]);
}

#[test]
fn c05_rule_1_a_chain_of_large_buffers_neither_overflows_the_stack_nor_starves_the_loop() {
    let mut stage = Stage::new();
    let (channel, other) = (sink(&mut stage), sink(&mut stage));
    // Above the high water mark every flush is written at once.
    let (first, dropped) = Chain::start(&channel, 100_000, 100_000);
    stage.on(|_| channel.send(first));
    let seen = dropped.load(Ordering::Relaxed);
    assert!(seen < 1000, "{seen} in one call");
    let served = stage.event_loop.event_loop().submit(|| ()).expect("a task");
    stage.event_loop.turn(Some(Duration::ZERO));
    assert!(served.is_done(), "tasks have their turn");
    stage.on(|_| other.send(Bytes::from_static(b"others too")));
    stage.run();
    assert!(dropped.load(Ordering::Relaxed) > seen, "and it goes on");
    // Nor is the stack needed for those that are refused, one by the destructor of the other.
    stage.on(|_| drop(channel.close()));
    stage.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 100_000);
    assert_eq!(stage.reports.take(), [""; 0]);
}

#[test]
fn c05_rule_1_a_write_from_the_destructor_of_an_unsent_buffer_fails() {
    let mut stage = Stage::new();
    let channel = sink(&mut stage);
    let (first, dropped) = Chain::start(&channel, 10, 3);
    let written = stage.on(|_| channel.write(first));
    stage.on(|_| drop(channel.close()));
    stage.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    assert!(written.join().unwrap_err().to_string().contains("closed"));
    assert!(channel.closed().is_done());
    assert_eq!(stage.reports.take(), [""; 0]);
}

/// Counts the bytes it reads, and drops them there.
struct Count(Arc<AtomicUsize>);

impl Handler for Count {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.fetch_add(msg.into_bytes().expect("bytes").len(), Ordering::Relaxed);
        Ok(())
    }
}

/// Two channels on one loop: one sends a chain, the other reads it; then the other is closed while the
/// chain goes on.
fn between(one: NewChannel, other: NewChannel) {
    let mut hand = EventLoopGroup::builder(TaskOnly).build_manual().expect("a loop");
    let read = Arc::new(AtomicUsize::new(0));
    let count = read.clone();
    let (sender, reader) = hand
        .on_loop(|here| {
            let sender = here.register_with(one, |_| Ok(())).expect("one");
            let reader = here.register_with(other, |edit| {
                edit.add_last("count", Count(count))?;
                Ok(())
            });
            (sender, reader.expect("the other"))
        })
        .expect("a new loop");
    let (first, dropped) = Chain::start(&sender, 1000, 50);
    hand.on_loop(|_| sender.send(first));
    (0..100).for_each(|_| _ = hand.turn(Some(Duration::ZERO)));
    assert_eq!((read.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (50_000, 50));
    // Nobody reads what is sent now: the writer drops it itself, or learns that its peer is gone.
    let (first, dropped) = Chain::start(&sender, 1000, 50);
    hand.on_loop(|_| {
        drop(reader.close());
        sender.send(first);
    });
    (0..100).for_each(|_| _ = hand.turn(Some(Duration::ZERO)));
    assert_eq!(dropped.load(Ordering::Relaxed), 50);
    assert!(sender.closed().is_done() && reader.closed().is_done());
}

#[test]
fn c05_rule_1_a_chain_of_buffers_through_a_local_connection() {
    let (one, other) = Connection::pair();
    between(NewChannel::new(one), NewChannel::new(other));
}

#[test]
fn c05_rule_1_a_chain_of_buffers_between_embedded_channels() {
    let (one, other) = embedded::connected_pair();
    between(one, other);
}

#[test]
fn c05_rule_1_a_chain_of_buffers_out_of_an_embedded_channel() {
    for builder in [Embedded::builder(), Embedded::builder().stream()] {
        let mut channel = builder.build(|_| Ok(())).expect("a channel");
        let (first, dropped) = Chain::start(channel.channel(), 10, 5);
        channel.on_loop(|channel| channel.send(first));
        for piece in 1..=5 {
            assert_eq!(channel.read_outbound::<Bytes>().expect("the next one").len(), 10);
            channel.run();
            assert_eq!(dropped.load(Ordering::Relaxed), piece);
        }
        assert!(channel.read_outbound::<Bytes>().is_none());
    }
}
