//! Buffers whose destructors write to their channel (rule 1).

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

use super::support::{LoopFixture, PanicPoint, ScriptedTransport};

/// A buffer whose destructor sends the next one to the same channel.
struct ChainedBuffer {
    bytes: Vec<u8>,
    left: usize,
    channel: Channel,
    dropped: Arc<AtomicUsize>,
}

impl ChainedBuffer {
    fn start(channel: &Channel, size: usize, pieces: usize) -> (Bytes, Arc<AtomicUsize>) {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (bytes, channel) = (vec![b'x'; size], channel.clone());
        let first = ChainedBuffer { bytes, left: pieces - 1, channel, dropped: dropped.clone() };
        (Bytes::from_owner(first), dropped)
    }
}

impl AsRef<[u8]> for ChainedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ChainedBuffer {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if let Some(left) = self.left.checked_sub(1) {
            let (bytes, channel) = (std::mem::take(&mut self.bytes), self.channel.clone());
            let next = ChainedBuffer { bytes, left, channel, dropped: self.dropped.clone() };
            self.channel.send(Bytes::from_owner(next));
        }
    }
}

/// A stream that accepts all bytes at once, like a socket with a fast peer.
struct DiscardingStream;

impl Transport for DiscardingStream {
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

fn register_stream(fixture: &mut LoopFixture) -> Channel {
    let made = fixture.on(|here| here.register_with(NewChannel::new(DiscardingStream), |_| Ok(())));
    made.expect("the channel can be registered")
}

#[test]
fn c05_rule_1_a_buffer_may_write_the_next_one_to_its_channel_when_it_is_dropped() {
    for size in [0, 10, 100_000] {
        let mut fixture = LoopFixture::new();
        let channel = register_stream(&mut fixture);
        let (first, dropped) = ChainedBuffer::start(&channel, size, 100);
        fixture.on(|_| channel.send(first));
        fixture.run();
        assert_eq!(dropped.load(Ordering::Relaxed), 100, "of {size} bytes each");
        assert_eq!(fixture.reports.take(), [""; 0]);
        assert!(channel.is_open());
        assert_eq!(channel.pending_bytes(), 0);
    }
}

#[test]
fn c05_rule_1_a_buffer_may_write_the_next_one_over_a_transport_of_messages() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport(PanicPoint::None), |_| Ok(()));
    let (first, dropped) = ChainedBuffer::start(&channel, 10, 100);
    fixture.on(|_| channel.send(first));
    fixture.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
    assert_eq!(fixture.reports.take(), [""; 0]);
}

#[test]
fn c05_rule_1_a_chain_of_large_buffers_neither_overflows_the_stack_nor_starves_the_loop() {
    let mut fixture = LoopFixture::new();
    let (channel, other) = (register_stream(&mut fixture), register_stream(&mut fixture));
    // Above the high-water mark every flush is written at once.
    let (first, dropped) = ChainedBuffer::start(&channel, 100_000, 100_000);
    fixture.on(|_| channel.send(first));
    let seen = dropped.load(Ordering::Relaxed);
    assert!(seen < 1000, "{seen} in one call");
    let served = fixture.event_loop.event_loop().submit(|| ()).expect("the task is accepted");
    fixture.event_loop.turn(Some(Duration::ZERO));
    assert!(served.is_done(), "tasks have their turn");
    fixture.on(|_| other.send(Bytes::from_static(b"others too")));
    fixture.run();
    assert!(dropped.load(Ordering::Relaxed) > seen, "and it goes on");
    // Refused writes, each made by the destructor of the one before, do not nest on the stack either.
    fixture.on(|_| drop(channel.close()));
    fixture.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 100_000);
    assert_eq!(fixture.reports.take(), [""; 0]);
}

#[test]
fn c05_rule_1_a_write_from_the_destructor_of_an_unsent_buffer_fails() {
    let mut fixture = LoopFixture::new();
    let channel = register_stream(&mut fixture);
    let (first, dropped) = ChainedBuffer::start(&channel, 10, 3);
    let written = fixture.on(|_| channel.write(first));
    fixture.on(|_| drop(channel.close()));
    fixture.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    assert!(written.join().unwrap_err().to_string().contains("closed"));
    assert!(channel.closed().is_done());
    assert_eq!(fixture.reports.take(), [""; 0]);
}

/// Counts the bytes it reads and drops them.
struct CountsBytesRead(Arc<AtomicUsize>);

impl Handler for CountsBytesRead {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.fetch_add(msg.into_bytes().expect("the message is bytes").len(), Ordering::Relaxed);
        Ok(())
    }
}

/// Sends a chain of buffers between two channels on one loop; the reader is closed while the chain continues.
fn send_chain_between(one: NewChannel, other: NewChannel) {
    let mut event_loop =
        EventLoopGroup::builder(TaskOnly).build_manual().expect("the loop can be built");
    let read = Arc::new(AtomicUsize::new(0));
    let count = read.clone();
    let (sender, reader) = event_loop
        .on_loop(|here| {
            let sender = here.register_with(one, |_| Ok(())).expect("one");
            let reader = here.register_with(other, |edit| {
                edit.add_last("count", CountsBytesRead(count))?;
                Ok(())
            });
            (sender, reader.expect("the other"))
        })
        .expect("a new loop");
    let (first, dropped) = ChainedBuffer::start(&sender, 1000, 50);
    event_loop.on_loop(|_| sender.send(first));
    (0..100).for_each(|_| _ = event_loop.turn(Some(Duration::ZERO)));
    assert_eq!((read.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (50_000, 50));
    // No channel reads the bytes sent from here on: the writer drops them or learns that its peer is closed.
    let (first, dropped) = ChainedBuffer::start(&sender, 1000, 50);
    event_loop.on_loop(|_| {
        drop(reader.close());
        sender.send(first);
    });
    (0..100).for_each(|_| _ = event_loop.turn(Some(Duration::ZERO)));
    assert_eq!(dropped.load(Ordering::Relaxed), 50);
    assert!(sender.closed().is_done() && reader.closed().is_done());
}

#[test]
fn c05_rule_1_a_chain_of_buffers_through_a_local_connection() {
    let (one, other) = Connection::pair();
    send_chain_between(NewChannel::new(one), NewChannel::new(other));
}

#[test]
fn c05_rule_1_a_chain_of_buffers_between_embedded_channels() {
    let (one, other) = embedded::connected_pair();
    send_chain_between(one, other);
}

#[test]
fn c05_rule_1_a_chain_of_buffers_out_of_an_embedded_channel() {
    for builder in [Embedded::builder(), Embedded::builder().stream()] {
        let mut channel = builder.build(|_| Ok(())).expect("the message is a channel");
        let (first, dropped) = ChainedBuffer::start(channel.channel(), 10, 5);
        channel.on_loop(|channel| channel.send(first));
        for piece in 1..=5 {
            assert_eq!(channel.read_outbound::<Bytes>().expect("the next one").len(), 10);
            channel.run();
            assert_eq!(dropped.load(Ordering::Relaxed), piece);
        }
        assert!(channel.read_outbound::<Bytes>().is_none());
    }
}
