//! Channels, offloaded handlers, executors and loops that close, panic or shut down.

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
use waterwheel_executor::{Error, EventExecutor};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{Inner, OffloadFixture, Recorder};

fn recorded(log: &Log) -> OffloadFixture {
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", log))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    drop(log.take());
    fixture
}

#[test]
fn c03_an_offloaded_handler_receives_the_events_of_a_close_in_order() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    fixture.channel.write_inbound(1u32);
    let written = fixture.channel.on_loop(|channel| channel.write_and_flush(2u32));
    fixture.channel.fail(Error::new("cut"));
    fixture.channel.run();
    assert!(fixture.handle().closed().is_done(), "the future does not wait for the handler");
    drop(log.take());
    fixture.run_until_idle();
    let expected = [
        "remote read 1",
        "remote read complete",
        "remote begin read",
        "remote write 2",
        "remote flush",
        "remote error cut",
        "remote inactive",
        "remote unregistered",
        "inner read 1",
        "inner error cut",
        "inner inactive",
        "inner unregistered",
        "inner removed",
        "remote removed",
        "remote dropped",
    ];
    assert_eq!(log.take(), expected);
    assert!(written.join().unwrap_err().to_string().contains("closed"));
    assert_eq!((fixture.inbound(), fixture.handle().pending_bytes()), (vec![1], 0));
}

/// Logs its removal.
struct LogsRemoval(&'static str, Log);

impl Handler for LogsRemoval {
    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.1.push(format!("{} removed", self.0));
    }
}

#[test]
fn c02_handlers_are_removed_from_the_tail_to_the_head_across_executors() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("outer", LogsRemoval("outer", log.clone()))?;
        edit.add_last("one", Recorder::on(executor, "one", &log))?;
        edit.add_last("middle", LogsRemoval("middle", log.clone()))?;
        edit.add_last("two", Recorder::on(executor, "two", &log))?;
        edit.add_last("inner", LogsRemoval("inner", log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    fixture.channel.fail(Error::new("cut"));
    fixture.run_until_idle();
    let leaves = |line: &String| line.ends_with("removed") || line.ends_with("dropped");
    let left: Vec<String> = log.take().into_iter().filter(leaves).collect();
    let expected = [
        "inner removed",
        "two removed",
        "two dropped",
        "middle removed",
        "one removed",
        "one dropped",
        "outer removed",
    ];
    assert_eq!(left, expected);
    assert!(fixture.channel.with_pipeline(|_| ()).is_none(), "and the loop has forgotten it");
}

#[test]
fn c03_a_close_passes_the_handler_after_earlier_writes() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    let (written, closed) = fixture.channel.on_loop(|channel| {
        let written = channel.write_and_flush(1u32);
        (written, channel.close())
    });
    fixture.run_until_idle();
    written.join().unwrap();
    closed.join().unwrap();
    assert_eq!(fixture.outbound(), [1]);
}

/// Panics in `on_read`; logs its other calls.
struct PanicsOnRead(Log);

impl RemoteHandler for PanicsOnRead {
    fn on_read(&mut self, _: &RemoteCtx, _: Msg) -> HandlerResult {
        panic!("on purpose");
    }

    fn on_inactive(&mut self, _: &RemoteCtx) -> HandlerResult {
        self.0.push("fragile inactive");
        Ok(())
    }

    fn on_removed(&mut self, _: &RemoteCtx) {
        self.0.push("fragile removed");
    }
}

impl Drop for PanicsOnRead {
    fn drop(&mut self) {
        let here = EventExecutor::current().map(|executor| executor.name().to_owned());
        self.0.push(format!("fragile dropped on {}", here.unwrap_or_default()));
    }
}

#[test]
fn c03_a_panic_closes_the_channel_and_names_the_handler() {
    let log = Log::new();
    let fragile = log.clone();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("fragile", Offloaded::on(executor, || PanicsOnRead(fragile)))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    drop(log.take());
    fixture.channel.write_inbound(1u32);
    let written = fixture.handle().write_and_flush(2u32);
    fixture.run_until_idle();
    let seen = log.take();
    let expected = [
        "inner write 2",
        "fragile dropped on remote",
        "inner inactive",
        "inner unregistered",
        "inner removed",
    ];
    assert_eq!(seen, expected, "the handler is only dropped, on its executor");
    let reports = fixture.reports.take();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("`fragile`") && reports[0].contains("on purpose"), "{reports:?}");
    assert!(!fixture.handle().is_open() && fixture.handle().closed().is_done());
    let error = written.join().unwrap_err().to_string();
    assert!(error.contains("panicked: on purpose"), "{error}");
    assert_eq!(fixture.handle().pending_bytes(), 0);
}

#[test]
fn c03_writes_flushed_before_a_panic_are_sent() {
    struct AnswersOnce(bool);
    impl RemoteHandler for AnswersOnce {
        fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
            assert!(!self.0, "on purpose");
            self.0 = true;
            ctx.write_and_flush(msg);
            Ok(())
        }
    }
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("once", Offloaded::on(executor, || AnswersOnce(false)))?;
        Ok(())
    });
    fixture.channel.write_inbound_all((1u32..=2).map(Msg::new));
    fixture.run_until_idle();
    assert_eq!(fixture.outbound(), [1]);
    assert!(!fixture.handle().is_open());
}

#[test]
fn c03_a_panic_while_the_handler_is_built_closes_the_channel() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        let build = || -> Recorder { panic!("no plan") };
        edit.add_last("unbuilt", Offloaded::on(executor, build))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    assert!(!fixture.handle().is_open());
    let reports = fixture.reports.take();
    assert!(reports.len() == 1 && reports[0].contains("`unbuilt`"), "{reports:?}");
    let expected = ["inner active", "inner inactive", "inner unregistered", "inner removed"];
    assert_eq!(log.take(), expected, "lifecycle events pass the handler that was never built");
}

#[test]
fn c03_a_handler_that_cannot_be_added_closes_the_channel_with_an_error() {
    struct Refuses(Log);
    impl RemoteHandler for Refuses {
        fn on_added(&mut self, _: &RemoteCtx) -> HandlerResult {
            Err(Error::new("not here"))
        }

        fn on_removed(&mut self, _: &RemoteCtx) {
            self.0.push("refuses removed");
        }
    }
    let log = Log::new();
    let refuses = log.clone();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("refuses", Offloaded::on(executor, || Refuses(refuses)))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    let expected = [
        "refuses removed",
        "inner active",
        "inner error `refuses` could not be added: not here",
        "inner inactive",
        "inner unregistered",
        "inner removed",
    ];
    assert_eq!(log.take(), expected);
    assert!(!fixture.handle().is_open());
}

#[test]
fn c03_an_executor_that_is_shut_down_refuses_the_handler() {
    let executor = EventExecutor::builder().build().unwrap();
    executor.shutdown().wait().unwrap();
    let log = Log::new();
    let refused = Embedded::new(|edit| {
        edit.add_last("remote", Recorder::on(&executor, "remote", &log))?;
        Ok(())
    });
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains("`remote` could not be added") && error.contains("shut down"),
        "{error}"
    );
    assert_eq!(log.take(), [""; 0], "never built");
}

#[test]
fn c03_an_executor_that_shuts_down_closes_the_channel_with_an_error() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    drop(fixture.remote.executor().shutdown());
    fixture.remote.run_now();
    assert!(fixture.remote.executor().is_shut_down());
    let written = fixture.handle().write_and_flush(2u32);
    fixture.run_until_idle();
    let error = written.join().unwrap_err().to_string();
    let gone = "the executor of the offloaded handler `remote` has ended: task rejected";
    assert!(error.starts_with(gone), "{error}");
    let seen = log.take();
    assert_eq!(
        seen[..2],
        ["inner write 2", "remote dropped"],
        "no method of it is called any more"
    );
    assert!(seen[2].contains(gone), "{seen:?}");
    assert_eq!(seen[3..], ["inner inactive", "inner unregistered", "inner removed"]);
    assert!(!fixture.handle().is_open());
}

#[test]
fn c03_an_executor_that_shuts_down_finishes_its_queued_events() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    for n in 0..500 {
        fixture.write(n);
    }
    drop(fixture.remote.executor().shutdown());
    fixture.remote.run_now();
    fixture.channel.run();
    let out = fixture.outbound();
    assert!(out.iter().copied().eq(0..500), "although no new task is accepted: {out:?}");
}

#[test]
fn c03_a_handler_whose_executor_does_not_run_does_not_keep_the_loop_from_ending() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    fixture.channel.write_inbound(1u32);
    let channel = fixture.handle();
    let OffloadFixture { channel: embedded, mut remote, .. } = fixture;
    // The channel's loop ends here, before the executor of the handler has run.
    drop(embedded);
    assert!(channel.closed().is_done());
    assert_eq!(log.take(), ["inner removed"]);
    remote.run_now();
    let seen = log.take();
    let expected = ["remote inactive", "remote unregistered", "remote removed", "remote dropped"];
    assert_eq!(seen[seen.len() - 4..], expected, "it is told all the same: {seen:?}");
    assert_eq!(seen[0], "remote read 1");
    assert_eq!(channel.pending_bytes(), 0);
}

#[test]
fn c03_loop_and_executor_may_be_dropped_in_any_order() {
    let log = Log::new();
    let fixture = recorded(&log);
    let channel = fixture.handle();
    drop(channel.write_and_flush(1u32));
    let OffloadFixture { channel: embedded, remote, .. } = fixture;
    drop(remote);
    drop(embedded);
    assert!(channel.closed().is_done());
    assert!(log.take().contains(&String::from("remote dropped")));
    assert_eq!(channel.pending_bytes(), 0);
}

/// A handler on the loop that panics in `on_read`.
struct PanicsOnLoopRead;

impl Handler for PanicsOnLoopRead {
    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        panic!("behind");
    }
}

fn fixture_before_panicking_handler(log: &Log) -> OffloadFixture {
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", log))?;
        edit.add_last("panics", PanicsOnLoopRead)?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    fixture.run_until_idle();
    drop(log.take());
    fixture
}

const AFTER_THE_PANIC: [&str; 4] =
    ["inner read 2", "inner inactive", "inner unregistered", "inner removed"];

#[test]
fn c03_after_a_panic_of_the_next_handler_the_lifecycle_events_are_complete() {
    let log = Log::new();
    let mut fixture = fixture_before_panicking_handler(&log);
    fixture.channel.write_inbound_all((1u32..=2).map(Msg::new));
    fixture.run_until_idle();
    assert!(!fixture.handle().is_open());
    let mut seen = log.take();
    seen.retain(|line| line.starts_with("inner"));
    assert_eq!(seen, AFTER_THE_PANIC, "events queued with the first are delivered after the panic");
}

#[test]
fn c03_a_panic_of_the_next_handler_does_not_keep_the_slot_of_a_removed_one() {
    let log = Log::new();
    let mut fixture = fixture_before_panicking_handler(&log);
    fixture.channel.with_pipeline(|pipeline| {
        pipeline.remove("remote").unwrap();
        pipeline.fire_read(1u32);
        pipeline.fire_read(2u32);
    });
    fixture.run_until_idle();
    let mut seen = log.take();
    seen.retain(|line| line.starts_with("inner"));
    assert_eq!(seen, AFTER_THE_PANIC, "events behind the removed handler pass its slot");
}
