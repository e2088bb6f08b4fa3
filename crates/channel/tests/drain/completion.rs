//! How drains end, and drains that never begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    Completion, Ctx, DrainOptions, Drained, EventLoopGroup, Handler, HandlerResult, LoopShutDown,
    Message, Msg, NewChannel, PendingWriteQueue, Stream, local,
};
use waterwheel_executor::InvalidShutdown;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::loop_suite::panic_quietly;
use waterwheel_testkit::manual::Manual;

use crate::support::{
    DrainFixture, Log, PATIENCE, RecordsDrain, SECOND, drain, embedded_without_room, is,
    outcome_of, ten_seconds,
};

struct NoOpHandler;

impl Handler for NoOpHandler {}

fn payload() -> Bytes {
    Bytes::from_static(&[7; 1000])
}

#[test]
fn l11_a_drain_ends_when_no_bytes_are_pending() {
    let log = Log::default();
    let mut channel = embedded_without_room(RecordsDrain::new(&log));
    channel.on_loop(|channel| channel.send(payload()));
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None);
    channel.set_room(999);
    assert_eq!(outcome_of(&drained), None, "one message is pending");
    assert!(channel.channel().is_open());
    channel.set_room(1);
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert!(!channel.channel().is_open(), "and then the loop shuts down");
    assert_eq!(log.take(), ["draining, 10s left", "inactive"]);
    let sent: usize =
        std::iter::from_fn(|| channel.read_outbound::<Bytes>()).map(|bytes| bytes.len()).sum();
    assert_eq!(sent, 1000, "nothing was lost");
}

/// Holds writes for a second.
#[derive(Default)]
struct DelayHandler(PendingWriteQueue);

impl Handler for DelayHandler {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.0.push(ctx, msg, done.take());
        ctx.schedule(SECOND, 0);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.0.flush();
        self.0.write_flushed(ctx);
        Ok(())
    }
}

#[test]
fn k09_a_drain_waits_for_writes_that_a_handler_holds() {
    for empty in [false, true] {
        let mut channel = embedded_without_room(DelayHandler::default());
        channel.clear_faults();
        channel.on_loop(|channel| channel.send(if empty { Bytes::new() } else { payload() }));
        let drained = drain(&mut channel);
        assert_eq!(outcome_of(&drained), None);
        channel.advance(SECOND);
        assert_eq!(outcome_of(&drained), Some(Drained::Complete));
        assert_eq!(channel.read_outbound::<Bytes>().is_none(), empty, "nothing was lost");
    }
}

#[test]
fn l11_a_drain_waits_for_the_writes_of_a_closed_channel() {
    let manual = Manual::completion();
    let mut fixture = DrainFixture::over(manual.clone());
    let (io, peer) = manual.pair();
    let channel = fixture.register(NewChannel::new(Stream::connected(io, None)), NoOpHandler);
    manual.hold_completions();
    channel.send(payload());
    drop(channel.close());
    fixture.run();
    let drained = fixture.drain();
    fixture.run();
    assert_eq!(outcome_of(&drained), None, "the write is in flight");
    manual.release();
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert_eq!(peer.receive(1000).len(), 1000);
}

#[test]
fn l11_writes_that_were_not_flushed_are_pending_too() {
    let mut channel = embedded_without_room(NoOpHandler);
    channel.clear_faults();
    channel.on_loop(|channel| drop(channel.write(payload())));
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None);
    channel.on_loop(|channel| channel.flush());
    channel.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert_eq!(channel.read_outbound::<Bytes>().unwrap().len(), 1000);
}

/// A message of size zero.
struct ZeroSized;

impl Message for ZeroSized {}

#[test]
fn l11_a_drain_waits_for_a_message_of_size_zero() {
    let made = Embedded::new(|_| Ok(()));
    let mut channel = made.unwrap();
    channel.set_room(0);
    channel.on_loop(|channel| channel.send(ZeroSized));
    let drained = drain(&mut channel);
    assert_eq!((outcome_of(&drained), channel.channel().pending_bytes()), (None, 0));
    channel.set_room(1);
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert!(channel.read_outbound::<ZeroSized>().is_some());
}

#[test]
fn l11_a_message_of_size_zero_submitted_right_after_drain_is_sent() {
    let made = Embedded::new(|_| Ok(()));
    let mut channel = made.unwrap();
    let drained = channel.channel().event_loop().drain(ten_seconds());
    // The message is submitted off the loop after the drain was requested, when nothing is pending yet.
    channel.channel().send(ZeroSized);
    channel.run();
    assert!(channel.read_outbound::<ZeroSized>().is_some());
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_the_deadline_ends_a_drain_and_the_outcome_counts_the_busy_channels() {
    let log = Log::default();
    let mut channel = embedded_without_room(RecordsDrain::new(&log));
    channel.on_loop(|channel| channel.send(payload()));
    let drained = drain(&mut channel);
    channel.advance(10 * SECOND - Duration::from_nanos(1));
    assert_eq!(outcome_of(&drained), None);
    channel.advance(Duration::from_nanos(1));
    assert_eq!(outcome_of(&drained), Some(Drained::DeadlineReached { channels: 1 }));
    assert_eq!(log.take(), ["draining, 10s left", "inactive"]);
    assert!(!channel.channel().is_open());
}

#[test]
fn l11_a_deadline_of_zero_still_notifies_every_channel() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let channel = fixture.connected(RecordsDrain::new(&log));
    let _hold = channel.hold();
    let at_once = DrainOptions::within(Duration::ZERO).shutdown(Duration::ZERO, SECOND).unwrap();
    let drained = fixture.event_loop().drain(at_once);
    fixture.advance(Duration::ZERO);
    assert_eq!(outcome_of(&drained), Some(Drained::DeadlineReached { channels: 1 }));
    assert_eq!(log.take(), ["draining, 0ns left", "inactive"]);
}

#[test]
fn l11_the_shutdown_after_a_drain_uses_the_given_quiet_period_and_timeout() {
    let mut fixture = DrainFixture::new();
    let options = DrainOptions::within(SECOND).shutdown(3 * SECOND, 5 * SECOND).unwrap();
    let drained = fixture.event_loop().drain(options);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert!(
        fixture.event_loop().is_shutting_down() && !fixture.is_terminated(),
        "the quiet period"
    );
    fixture.advance(3 * SECOND - Duration::from_nanos(1));
    assert!(!fixture.is_terminated());
    fixture.advance(Duration::from_nanos(1));
    assert!(fixture.is_terminated());
}

#[test]
fn l11_a_drain_without_pending_work_ends_the_loop_without_the_clock_moving() {
    for options in [DrainOptions::default(), DrainOptions::within(SECOND)] {
        let (mut fixture, log) = (DrainFixture::new(), Log::default());
        let idle = fixture.connected(RecordsDrain::new(&log));
        let drained = fixture.event_loop().drain(options);
        fixture.run();
        assert_eq!(outcome_of(&drained), Some(Drained::Complete));
        assert!(fixture.is_terminated() && !idle.is_open(), "{options:?} has no quiet period");
    }
}

#[test]
fn l11_options_that_contradict_each_other_are_refused() {
    let refused = DrainOptions::default().shutdown(2 * SECOND, SECOND);
    assert_eq!(refused, Err(InvalidShutdown { quiet: 2 * SECOND, timeout: SECOND }));
}

#[test]
fn l11_a_second_drain_joins_the_first() {
    let mut fixture = DrainFixture::new();
    let channel = fixture.connected(NoOpHandler);
    let _hold = channel.hold();
    let first = fixture.drain();
    let shorter = DrainOptions::within(SECOND);
    let second = fixture.event_loop().drain(shorter);
    fixture.advance(5 * SECOND);
    assert_eq!(
        [outcome_of(&first), outcome_of(&second)],
        [None, None],
        "the options of the first drain apply"
    );
    fixture.advance(5 * SECOND);
    let late = fixture.event_loop().drain(shorter);
    let reached = Some(Drained::DeadlineReached { channels: 1 });
    assert_eq!([outcome_of(&first), outcome_of(&second), outcome_of(&late)], [reached; 3]);
    assert!(!late.cancel(), "it belongs to all");
}

#[test]
fn l11_a_shutdown_ends_a_drain_at_once() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let channel = fixture.connected(RecordsDrain::new(&log));
    let _hold = channel.hold();
    let drained = fixture.drain();
    fixture.run();
    fixture.shut_down();
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::CutShort { channels: 1 }));
    assert!(fixture.is_terminated() && !channel.is_open());
    assert_eq!(log.take(), ["draining, 10s left", "inactive"]);
}

#[test]
fn l11_an_immediate_shutdown_and_a_dropped_loop_end_a_drain_too() {
    for at_once in [true, false] {
        let mut fixture = DrainFixture::new();
        let channel = fixture.connected(NoOpHandler);
        let _hold = channel.hold();
        let drained = fixture.drain();
        fixture.run();
        if at_once {
            drop(fixture.event_loop().shutdown());
            fixture.run();
        } else {
            drop(fixture);
        }
        drained.wait_timeout(PATIENCE).unwrap();
        assert_eq!(outcome_of(&drained), Some(Drained::CutShort { channels: 1 }));
    }
}

#[test]
fn l11_a_shutdown_before_the_drain_begins_cuts_it_short() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let channel = fixture.connected(RecordsDrain::new(&log));
    let _hold = channel.hold();
    let drained = fixture.drain();
    fixture.shut_down();
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::CutShort { channels: 1 }));
    assert_eq!(log.take(), ["inactive"], "the drain never began");
}

#[test]
fn l11_a_loop_that_is_shut_down_is_not_drained() {
    let mut fixture = DrainFixture::new();
    fixture.shut_down();
    let refused = |fixture: &DrainFixture| {
        fixture.drain().try_get().expect("the future completes at once").unwrap_err()
    };
    assert!(is::<LoopShutDown>(&refused(&fixture)));
    assert!(!fixture.event_loop().is_draining());
    fixture.run();
    assert!(fixture.is_terminated() && is::<LoopShutDown>(&refused(&fixture)));
}

#[test]
fn l11_draining_a_loop_that_was_never_started_starts_no_thread() {
    let group = EventLoopGroup::builder(TaskOnly).threads(2).build().unwrap();
    let drained = group.drain(ten_seconds());
    group.termination().wait_timeout(PATIENCE).unwrap();
    drained.wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert!(group.children().all(|child| child.thread_properties().is_none()), "no thread");
    assert!(group.register(local::pair().0).join().is_err());
}

#[test]
fn l11_a_handler_that_panics_at_the_drain_event_closes_its_own_channel_only() {
    let (mut fixture, log) = (DrainFixture::new(), Log::default());
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    let boom = fixture.connected(RecordsDrain::with_action(&log, |_| panic_quietly("told")));
    let counting =
        RecordsDrain::with_action(&log, move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
    let other = fixture.connected(counting);
    let hold = other.hold();
    let drained = fixture.drain();
    fixture.run();
    assert!(!boom.is_open() && other.is_open());
    assert_eq!(told.load(Ordering::Relaxed), 1);
    drop(hold);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}
