//! A channel frees the memory of a burst after the burst (K14), counted to the byte.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{Detach, ReadPlan, Submit};
use waterwheel_channel::local::Connection;
use waterwheel_channel::transport::{Outbound, Transport, TransportContext, TransportEvent};
use waterwheel_channel::{
    Channel, Completion, Ctx, Edit, EventLoopGroup, Handler, HandlerResult, ManualEventLoop, Msg,
    NewChannel, TypeTag, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::manual::Manual;

use crate::counting_allocator::bytes;

/// Number of messages in a burst.
const BURST: usize = 20_000;

/// Bytes that may stay allocated: a few queues, each with room for some dozens of messages.
const MAX_BYTES_KEPT: isize = 16 * 1024;

/// A transport that accepts every write while open and none while closed, and discards what it accepts.
struct ValveTransport {
    open: Arc<AtomicBool>,
    stream: bool,
}

const BYTES: Types = Types::These(const { &[TypeTag::of::<Bytes>()] });

impl Transport for ValveTransport {
    fn name(&self) -> &'static str {
        "valve"
    }

    fn reads(&self) -> Types {
        BYTES
    }

    fn accepts(&self) -> Types {
        BYTES
    }

    fn writes_stream(&self) -> bool {
        self.stream
    }

    fn register(&mut self, _: &TransportContext) -> Result<bool, Error> {
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, _: &TransportContext, _: Option<ReadPlan>) {}

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        if !self.open.load(Ordering::Relaxed) {
            return Ok(Submit::Full);
        }
        if self.stream {
            outbound.wrote(outbound.bytes().len());
        }
        while !self.stream && outbound.take().is_some() {}
        Ok(Submit::Done(1))
    }

    fn next_event(&mut self, _: &TransportContext) -> Option<TransportEvent> {
        None
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        Detach::Done
    }
}

/// An event loop driven by the test's thread.
struct LoopFixture {
    _manual: Manual,
    event_loop: ManualEventLoop,
}

impl LoopFixture {
    fn new() -> Self {
        let manual = Manual::readiness();
        let event_loop = EventLoopGroup::builder(manual.clone()).build_manual().unwrap();
        Self { _manual: manual, event_loop }
    }

    fn add(
        &mut self,
        transport: impl Transport,
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Channel {
        let new = NewChannel::new(transport);
        let made = self.event_loop.on_loop(|here| here.register_with(new, initialiser));
        let channel = made.unwrap().unwrap();
        self.run();
        channel
    }

    fn run(&mut self) {
        loop {
            self.event_loop.turn(Some(Duration::ZERO));
            if self.event_loop.is_idle() {
                return;
            }
        }
    }

    fn on_loop(&mut self, f: impl FnOnce()) {
        self.event_loop.on_loop(|_| f()).unwrap();
        self.run();
    }
}

/// Returns how many bytes more a channel holds after a burst than after a few messages.
fn kept(
    make: impl Fn(&mut LoopFixture) -> Channel,
    burst: impl Fn(&mut LoopFixture, &Channel, usize),
) -> isize {
    let mut fixture = LoopFixture::new();
    let channel = make(&mut fixture);
    burst(&mut fixture, &channel, 8);
    let before = bytes();
    burst(&mut fixture, &channel, BURST);
    bytes().wrapping_sub(before) as isize
}

/// Returns the bytes kept after a burst of writes that found no room and were sent later.
fn kept_after_stalled_burst(stream: bool, write: impl Fn(&Channel) + Copy) -> isize {
    let open = Arc::new(AtomicBool::new(true));
    let valve = open.clone();
    kept(
        |fixture| fixture.add(ValveTransport { open: valve.clone(), stream }, |_| Ok(())),
        |fixture, channel, messages| {
            open.store(false, Ordering::Relaxed);
            fixture.on_loop(|| {
                (0..messages).for_each(|_| write(channel));
                channel.flush();
            });
            open.store(true, Ordering::Relaxed);
            // A transport learns that there is room when its channel registers again.
            fixture.on_loop(|| drop(channel.deregister()));
            fixture.on_loop(|| drop(channel.register()));
            assert_eq!(channel.pending_bytes(), 0);
        },
    )
}

const SMALL: Bytes = Bytes::from_static(b"x");

#[track_caller]
fn assert_given_back(kept: isize) {
    assert!(kept <= MAX_BYTES_KEPT, "{kept} bytes are kept of a burst");
}

#[test]
fn k14_the_memory_of_many_small_writes_is_given_back() {
    assert_given_back(kept_after_stalled_burst(true, |channel| {
        channel.send(SMALL);
    }));
}

#[test]
fn k14_the_memory_of_many_messages_is_given_back() {
    assert_given_back(kept_after_stalled_burst(false, |channel| {
        channel.send(SMALL);
    }));
}

#[test]
fn k14_the_memory_of_writes_with_futures_is_given_back() {
    for stream in [true, false] {
        assert_given_back(kept_after_stalled_burst(stream, |channel| drop(channel.write(SMALL))));
    }
}

/// Writes to its own channel while it runs: the writes are deferred at its slot (rule 2).
struct WritesWhileRunning(usize);

impl Handler for WritesWhileRunning {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.0 = event.take::<usize>().unwrap_or_default();
        for _ in 0..self.0 {
            ctx.channel().send(SMALL);
        }
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

#[test]
fn k14_the_memory_of_events_deferred_at_a_busy_handler_is_given_back() {
    let open = Arc::new(AtomicBool::new(true));
    assert_given_back(kept(
        |fixture| {
            fixture.add(ValveTransport { open: open.clone(), stream: true }, |edit| {
                edit.add_last("itself", WritesWhileRunning(0))?;
                Ok(())
            })
        },
        |fixture, channel, messages| fixture.on_loop(|| channel.fire_user_event(messages)),
    ));
}

#[test]
fn k14_the_memory_of_a_local_connections_queue_is_given_back() {
    let (one, other) = Connection::pair();
    let ends = RefCell::new(VecDeque::from([one, other]));
    assert_given_back(kept(
        |fixture| {
            let first = fixture.add(ends.borrow_mut().pop_front().unwrap(), |_| Ok(()));
            fixture.add(ends.borrow_mut().pop_front().unwrap(), |edit| {
                edit.add_last("swallows", DiscardsReads)?;
                Ok(())
            });
            first
        },
        |fixture, channel, messages| {
            fixture.on_loop(|| {
                (0..messages).for_each(|_| drop(channel.write(SMALL)));
                channel.flush();
            });
            assert_eq!(channel.pending_bytes(), 0);
        },
    ));
}

struct DiscardsReads;

impl Handler for DiscardsReads {
    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        Ok(())
    }
}
