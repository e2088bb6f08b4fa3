//! Closes with a cause, and completions that a handler watches.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel_channel::{
    ChannelError, Completion, Ctx, Handler, HandlerResult, Msg, WatchedCompletion,
};
use waterwheel_executor::ImmediateExecutor;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, bytes, error, fixture_with, text};

/// A stream channel without room whose handler closes it as `close` does when the first user event comes.
fn closing_fixture(close: impl Fn(&Ctx<'_>) + 'static) -> PipelineFixture {
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, log| {
        edit.add_last("outer", log.recorder().interest(waterwheel_channel::Events::CLOSE))?;
        let closes = log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
            close(ctx);
            Ok(())
        });
        edit.add_last("closes", closes)?;
        Ok(())
    });
    fixture.set_room(0);
    drop(fixture.log.take());
    fixture
}

fn cause_of(result: Result<(), waterwheel_executor::Error>) -> String {
    let error = result.unwrap_err();
    match error.find::<ChannelError>() {
        Some(ChannelError::Closed { cause: Some(cause) }) => cause.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn c02_a_close_with_a_cause_passes_the_handlers_and_fails_writes_with_it() {
    let mut fixture = closing_fixture(|ctx| {
        ctx.close_because(error("too slow"));
        ctx.close_because(error("much too slow"));
    });
    let write = fixture.write_outbound(bytes(3));
    fixture.fire_user_event(text("close"));
    assert_eq!(cause_of(write.join()), "too slow");
    assert!(fixture.log.take().iter().any(|line| line.starts_with("outer close")));
    let later = fixture.write_outbound(bytes(3));
    assert_eq!(cause_of(later.join()), "too slow", "the first cause stays");
}

#[test]
fn c02_a_cause_that_comes_after_the_close_is_not_taken() {
    let mut fixture = closing_fixture(|ctx| {
        ctx.close();
        ctx.close_because(error("too late"));
    });
    let write = fixture.write_outbound(bytes(3));
    fixture.fire_user_event(text("close"));
    assert_eq!(cause_of(write.join()), "Some(Closed { cause: None })");
}

#[test]
fn c02_an_abort_closes_without_asking_the_handlers() {
    let mut fixture = closing_fixture(|ctx| ctx.abort(error("gone")));
    let write = fixture.write_outbound(bytes(3));
    fixture.fire_user_event(text("close"));
    assert_eq!(cause_of(write.join()), "gone");
    assert!(!fixture.log.take().iter().any(|line| line.starts_with("outer close")));
    assert!(!fixture.channel().is_open());
}

/// Wraps every write, and shares what it watches with the test.
#[derive(Clone, Default)]
struct Watches(Rc<RefCell<Vec<WatchedCompletion>>>);

impl Handler for Watches {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let mut watch = WatchedCompletion::new();
        let wrapped = watch.wrap(done.take());
        self.0.borrow_mut().push(watch);
        ctx.write_with(msg, wrapped);
        Ok(())
    }
}

fn watching_fixture() -> (PipelineFixture, Watches) {
    let watches = Watches::default();
    let handler = watches.clone();
    let fixture = fixture_with(Embedded::builder().stream(), |edit, _| {
        edit.add_last("watches", handler)?;
        Ok(())
    });
    (fixture, watches)
}

#[test]
fn k07_a_watched_write_completes_its_caller() {
    let (mut fixture, watches) = watching_fixture();
    fixture.set_room(0);
    let write = fixture.write_outbound(bytes(3));
    assert!(!watches.0.borrow()[0].is_done());
    fixture.clear_faults();
    assert!(watches.0.borrow()[0].is_done());
    write.join().unwrap();
}

#[test]
fn k07_a_watched_write_that_fails_early_keeps_its_first_result() {
    let (mut fixture, watches) = watching_fixture();
    fixture.set_room(0);
    let write = fixture.write_outbound(bytes(3));
    watches.0.borrow()[0].fail(error("early"));
    fixture.clear_faults();
    assert_eq!(write.join().unwrap_err().to_string(), "early");
    assert_eq!(fixture.sent(), ["xxx"], "the operation is not stopped");
}

#[test]
fn p02_a_watched_write_is_cancelled_like_any_other() {
    let (mut fixture, watches) = watching_fixture();
    let write = fixture.write(bytes(3));
    assert!(write.cancel());
    fixture.flush();
    assert_eq!((fixture.sent(), fixture.channel().pending_bytes()), (vec![], 0));
    assert!(watches.0.borrow()[0].is_done());
    let flushed = fixture.write(bytes(2));
    fixture.set_room(0);
    fixture.flush();
    assert!(!flushed.cancel(), "a flushed write is not cancelled");
}

#[test]
fn p02_a_cancel_of_a_watched_operation_reaches_its_closure() {
    let (promise, future) = ImmediateExecutor.new_promise::<()>();
    let mut watch = WatchedCompletion::new();
    let mut wrapped = watch.wrap(Completion::from(promise));
    let calls = Arc::new(AtomicUsize::new(0));
    let early = calls.clone();
    wrapped.on_cancel(move || _ = early.fetch_add(1, Ordering::Relaxed));
    assert!(future.cancel());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(wrapped.is_cancelled() && !wrapped.begin());
    let late = calls.clone();
    wrapped.on_cancel(move || _ = late.fetch_add(1, Ordering::Relaxed));
    assert_eq!(calls.load(Ordering::Relaxed), 2, "called at once: it was cancelled before");
    drop(wrapped);
    assert!(watch.is_done());
}

#[test]
fn c07_a_refused_write_that_is_watched_and_has_no_waiter_is_reported() {
    let (mut fixture, _watches) = watching_fixture();
    fixture.on_loop(|channel| channel.send(1_u32));
    fixture.run();
    let reports = fixture.reports.take();
    assert!(reports.iter().any(|line| line.contains("u32 cannot be written")), "{reports:?}");
}

#[test]
fn k11_a_channel_returns_the_cause_of_its_close() {
    let mut fixture = closing_fixture(|ctx| ctx.close_because(error("a good reason")));
    assert!(fixture.channel().close_cause().is_none(), "open");
    fixture.fire_user_event(text("go"));
    assert_eq!(fixture.channel().close_cause().unwrap().to_string(), "a good reason");
    let mut fixture = closing_fixture(|ctx| ctx.close());
    fixture.fire_user_event(text("go"));
    assert!(!fixture.channel().is_open() && fixture.channel().close_cause().is_none(), "requested");
}

#[test]
fn k11_a_cause_is_returned_only_once_the_channel_is_closed() {
    let mut fixture = fixture_with(Embedded::builder().stream(), |edit, log| {
        edit.add_last("holds", log.recorder().holds(RecordedMethod::Close))?;
        let closes = log.recorder().at(RecordedMethod::UserEvent, |ctx| {
            ctx.close_because(error("a good reason"));
            Ok(())
        });
        edit.add_last("closes", closes)?;
        Ok(())
    });
    fixture.fire_user_event(text("close"));
    assert!(fixture.channel().is_open() && fixture.channel().close_cause().is_none(), "held back");
    fixture.with_pipeline(|pipeline| pipeline.remove("holds"));
    fixture.close();
    assert_eq!(fixture.channel().close_cause().unwrap().to_string(), "a good reason");
}

/// Keeps the completion of each write, and counts cancelled ones.
struct Keeps(Vec<Completion>, Arc<AtomicUsize>);

impl Handler for Keeps {
    fn write(&mut self, _: &Ctx<'_>, _: Msg, done: &mut Completion) -> HandlerResult {
        let mut done = done.take();
        let cancelled = self.1.clone();
        done.on_cancel(move || _ = cancelled.fetch_add(1, Ordering::Relaxed));
        self.0.push(done);
        Ok(())
    }
}

#[test]
fn k11_a_handler_that_keeps_a_completion_learns_of_its_cancel() {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let keeps = Keeps(Vec::new(), cancelled.clone());
    let mut channel = Embedded::new(|edit| {
        edit.add_last("keeps", keeps)?;
        Ok(())
    })
    .unwrap();
    let (first, second) = (channel.write(1u32), channel.write(2u32));
    channel.with_pipeline(|pipeline| pipeline.write(3u32));
    second.cancel();
    assert_eq!(cancelled.load(Ordering::Relaxed), 1);
    let states = channel
        .with_pipeline(|pipeline| {
            pipeline.with_handler("keeps", |keeps: &mut Keeps| {
                keeps.0.iter().map(Completion::is_cancelled).collect::<Vec<_>>()
            })
        })
        .flatten();
    assert_eq!(states.unwrap(), [false, true, false]);
    drop(first);
}
