//! `WriteTimeout`: when it fires, and what happens to the writes.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{
    ChannelError, ChannelOptions, Ctx, Handler, HandlerResult, Msg, WaterMarks,
};
use waterwheel_executor::Error;
use waterwheel_handlers::{TimeoutError, WriteTimeout};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{MS, NS, built_with, close_cause, stream_with, timeout_of, timeouts, timers};

fn ten_ms() -> WriteTimeout {
    WriteTimeout::new(MS * 10).unwrap()
}

fn bytes(len: usize) -> Bytes {
    Bytes::from(vec![b'x'; len])
}

/// A stream channel whose peer reads nothing.
fn stuck() -> Embedded {
    let mut channel = stream_with(ten_ms());
    channel.set_room(0);
    channel
}

#[test]
fn k07_a_write_that_is_not_done_in_time_fails_and_closes_the_channel() {
    let mut channel = stuck();
    let id = channel.channel().id();
    let write = channel.write_outbound(bytes(3));
    channel.advance(MS * 10 - NS);
    assert!(channel.channel().is_open() && !write.is_done());
    channel.advance(NS);
    let expected = TimeoutError::Write { channel: id, peer: None, limit: MS * 10, late: 1 };
    let failed = write.join().unwrap_err();
    let text = format!("write timeout: 1 write(s) not done within 10ms on channel {id}");
    assert_eq!(failed.to_string(), text, "the error itself, not a close");
    assert_eq!(timeout_of(&failed), Some(expected.clone()));
    assert_eq!(timeouts(&mut channel), [expected]);
    assert_eq!(close_cause(&mut channel).unwrap().to_string(), text);
    assert_eq!(timers(&mut channel), 0);
}

#[test]
fn k07_many_pending_writes_have_one_timer_and_a_channel_without_any_has_none() {
    let mut channel = stuck();
    assert_eq!(timers(&mut channel), 0);
    for _ in 0..100 {
        drop(channel.write_outbound(bytes(1)));
    }
    assert_eq!(timers(&mut channel), 1);
    channel.clear_faults();
    channel.advance(MS * 10);
    assert_eq!(timers(&mut channel), 0);
    assert!(channel.channel().is_open());
    for _ in 0..100 {
        channel.write_outbound(bytes(1)).join().unwrap();
    }
    assert_eq!(timers(&mut channel), 1, "finished writes do not touch the timer");
}

#[test]
fn k07_later_writes_fail_with_the_timeout_as_the_cause_of_the_close() {
    let mut channel = stuck();
    let first = channel.write_outbound(bytes(3));
    channel.advance(MS * 4);
    let second = channel.write_outbound(bytes(3));
    let unflushed = channel.write(bytes(3));
    channel.advance(MS * 6);
    assert!(matches!(
        timeout_of(&first.join().unwrap_err()),
        Some(TimeoutError::Write { late: 1, .. })
    ));
    for later in [second, unflushed] {
        let error = later.join().unwrap_err();
        assert!(matches!(error.find(), Some(ChannelError::Closed { cause: Some(_) })), "{error}");
        assert!(timeout_of(&error).is_some());
    }
}

#[test]
fn k07_all_writes_whose_time_is_over_fail_in_their_order() {
    let mut channel = stuck();
    let log = Log::new();
    channel.with_pipeline(|pipeline| {
        for label in ["a", "b", "c"] {
            pipeline.write_with(bytes(1), log.completion(label));
        }
        pipeline.flush();
    });
    channel.advance(MS * 10);
    let lines = log.take();
    assert_eq!(lines.len(), 3);
    for (line, label) in lines.iter().zip(["a", "b", "c"]) {
        assert!(line.starts_with(&format!("{label} failed: write timeout: 3 write(s)")), "{line}");
    }
}

#[test]
fn k07_progress_does_not_extend_the_time_of_a_write() {
    let mut channel = stuck();
    let write = channel.write_outbound(bytes(100));
    for _ in 0..9 {
        channel.advance(MS);
        channel.set_room(10);
    }
    assert!(!write.is_done());
    channel.advance(MS);
    assert!(timeout_of(&write.join().unwrap_err()).is_some());
}

#[test]
fn k07_an_unflushed_write_has_the_same_limit() {
    let mut channel = stream_with(ten_ms());
    let write = channel.write(bytes(3));
    channel.advance(MS * 10);
    assert!(timeout_of(&write.join().unwrap_err()).is_some());
}

#[test]
fn k07_writes_without_a_waiter_are_watched_too() {
    let mut channel = stuck();
    channel.on_loop(|channel| channel.send(bytes(3)));
    channel.advance(MS * 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
    assert!(!channel.channel().is_open());
}

#[test]
fn k07_a_cancelled_write_is_skipped_and_not_watched() {
    let mut channel = stream_with(ten_ms());
    let write = channel.write(bytes(3));
    assert!(write.cancel());
    channel.flush();
    channel.advance(MS * 50);
    assert!(channel.channel().is_open());
    assert!(channel.read_outbound_any().is_none());
}

#[test]
fn k07_refused_writes_behind_a_pending_one_do_not_fill_the_memory() {
    let water_marks = WaterMarks::new(10, 20).unwrap().with_hard_cap(20).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut channel = built_with(Embedded::builder().stream().options(options), ten_ms());
    channel.set_room(0);
    let pending = channel.write_outbound(bytes(20));
    let mut refused = 0;
    for _ in 0..10_000 {
        let write = channel.write_outbound(bytes(1));
        refused += usize::from(write.join().is_err());
    }
    assert_eq!(refused, 10_000);
    assert!(!pending.is_done() && channel.channel().is_open());
    channel.advance(MS * 10);
    let error = pending.join().unwrap_err();
    assert!(matches!(timeout_of(&error), Some(TimeoutError::Write { late: 1, .. })), "{error}");
}

#[test]
fn k07_a_removed_write_timeout_leaves_pending_writes_as_they_are() {
    let mut channel = stuck();
    let write = channel.write_outbound(bytes(3));
    channel.with_pipeline(|pipeline| pipeline.remove("timeout").unwrap());
    assert_eq!(timers(&mut channel), 0);
    channel.advance(MS * 50);
    assert!(channel.channel().is_open() && !write.is_done());
    channel.clear_faults();
    write.join().unwrap();
}

#[test]
fn k07_a_close_with_writes_pending_is_no_timeout() {
    let mut channel = stuck();
    let write = channel.write_outbound(bytes(3));
    channel.close();
    let error = write.join().unwrap_err();
    assert!(error.is_closed() && timeout_of(&error).is_none());
    channel.advance(MS * 50);
    assert_eq!((timeouts(&mut channel), timers(&mut channel)), (vec![], 0));
}

#[test]
fn k07_writes_of_a_deregistered_channel_have_the_same_limit() {
    let mut channel = stuck();
    channel.on_loop(|channel| drop(channel.deregister()));
    channel.run();
    let write = channel.write_outbound(bytes(3));
    channel.advance(MS * 9);
    assert!(!write.is_done());
    channel.advance(MS);
    assert!(timeout_of(&write.join().unwrap_err()).is_some());
    assert!(!channel.channel().is_open());
}

#[test]
fn k07_the_timeout_ends_a_shutdown_of_the_output_that_waits_for_writes() {
    let mut channel = stuck();
    let write = channel.write_outbound(bytes(3));
    let shut = channel.on_loop(|channel| channel.shutdown_output());
    channel.advance(MS * 10);
    assert!(timeout_of(&write.join().unwrap_err()).is_some());
    assert!(timeout_of(&shut.join().unwrap_err()).is_some());
    assert!(!channel.channel().is_open());
}

#[test]
fn k07_a_write_timeout_does_not_ask_other_handlers_for_the_close() {
    let log = Log::new();
    let holds = log.recorder().holds(RecordedMethod::Close);
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("holds", holds)?;
        edit.add_last("timeout", ten_ms())?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.set_room(0);
    drop(channel.write_outbound(bytes(3)));
    channel.advance(MS * 10);
    assert!(!channel.channel().is_open(), "a peer that does not read is not waited for");
}

/// Holds every write, as a handler does that shapes traffic.
#[derive(Clone, Default)]
struct Holds(Rc<RefCell<Vec<(Msg, waterwheel_channel::Completion)>>>);

impl Handler for Holds {
    fn write(
        &mut self,
        _: &Ctx<'_>,
        msg: Msg,
        done: &mut waterwheel_channel::Completion,
    ) -> HandlerResult {
        self.0.borrow_mut().push((msg, done.take()));
        Ok(())
    }
}

#[test]
fn k07_time_in_a_handler_before_counts_and_its_late_result_is_ignored() {
    let holds = Holds::default();
    let held = holds.0.clone();
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("holds", holds)?;
        edit.add_last("timeout", ten_ms())?;
        Ok(())
    });
    let mut channel = built.unwrap();
    let write = channel.write_outbound(bytes(3));
    channel.advance(MS * 10);
    assert!(timeout_of(&write.join().unwrap_err()).is_some());
    for (_, done) in held.take() {
        done.succeed();
    }
    assert!(!channel.channel().is_open());
}

/// Writes and removes the timeout when it fires.
struct Retries;

impl Handler for Retries {
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        assert!(error.find::<TimeoutError>().is_some());
        ctx.pipeline().remove("timeout")?;
        ctx.write_and_flush(bytes(1));
        Ok(())
    }
}

#[test]
fn k07_a_write_timeout_that_is_removed_in_response_closes_all_the_same() {
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("timeout", ten_ms())?;
        edit.add_last("retries", Retries)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.set_room(0);
    let write = channel.write_outbound(bytes(3));
    channel.advance(MS * 10);
    assert!(write.join().is_err() && !channel.channel().is_open());
}

#[test]
fn k07_a_completion_that_writes_when_its_write_times_out_fails_and_does_not_hang() {
    let mut channel = stuck();
    let handle = channel.channel().clone();
    let retried: Rc<RefCell<Option<waterwheel_channel::ChannelFuture>>> = Rc::default();
    let slot = retried.clone();
    channel.with_pipeline(|pipeline| {
        let retry = move |result: Result<(), Error>| {
            assert!(timeout_of(&result.unwrap_err()).is_some());
            *slot.borrow_mut() = Some(handle.write_and_flush(bytes(1)));
        };
        pipeline.write_with(bytes(3), waterwheel_channel::Completion::local(retry));
        pipeline.flush();
    });
    channel.advance(MS * 10);
    let retried = retried.take().expect("the completion was called");
    assert!(retried.join().unwrap_err().is_closed());
}
