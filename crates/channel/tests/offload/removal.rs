//! Edits of a pipeline while events are queued for an offloaded handler.

use std::sync::mpsc::channel;

use waterwheel_channel::{HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
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

/// Takes the log and returns the lines that contain one of these texts.
fn lines_about(log: &Log, what: &[&str]) -> Vec<String> {
    let mut lines = log.take();
    lines.retain(|line| what.iter().any(|what| line.contains(what)));
    lines
}

#[test]
fn c03_a_removed_handler_first_receives_the_events_queued_for_it() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    fixture.channel.write_inbound(1u32);
    fixture.write(2);
    fixture.channel.with_pipeline(|pipeline| pipeline.remove("remote").unwrap());
    fixture.write(3);
    fixture.channel.with_pipeline(|pipeline| pipeline.fire_read(4u32));
    assert_eq!(
        (fixture.inbound(), fixture.outbound()),
        (vec![], vec![]),
        "no event overtakes the queued ones"
    );
    assert!(
        !fixture
            .channel
            .with_pipeline(|pipeline| pipeline.names())
            .unwrap()
            .contains(&"remote".into())
    );
    fixture.run_until_idle();
    assert_eq!(
        (fixture.inbound(), fixture.outbound()),
        (vec![1, 4], vec![2, 3]),
        "nothing is lost"
    );
    let seen = lines_about(&log, &["remote"]);
    let (last, before) = (&seen[seen.len() - 2..], &seen[..seen.len() - 2]);
    assert_eq!(last, ["remote removed", "remote dropped"]);
    assert!(before.contains(&"remote read 1".into()) && before.contains(&"remote write 2".into()));
    assert!(!before.iter().any(|line| line.ends_with(" 3") || line.ends_with(" 4")), "{before:?}");
    fixture.channel.write_inbound(5u32);
    fixture.write(6);
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![5], vec![6]), "and the slot is gone");
    assert_eq!(fixture.handle().pending_bytes(), 0);
}

#[test]
fn c03_the_name_of_a_removed_handler_is_free_at_once() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    fixture.write(1);
    let executor = fixture.remote.executor().clone();
    let again = Recorder::on(&executor, "again", &log);
    fixture.channel.with_pipeline(|pipeline| {
        pipeline.remove("remote").unwrap();
        pipeline.add_first("remote", again).unwrap();
    });
    fixture.run_until_idle();
    assert_eq!(fixture.outbound(), [1]);
    assert_eq!(
        lines_about(&log, &["write 1"]),
        ["inner write 1", "remote write 1", "again write 1"]
    );
}

#[test]
fn c03_a_replaced_handlers_events_come_before_its_successors() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    fixture.channel.write_inbound(1u32);
    fixture.write(2);
    let executor = fixture.remote.executor().clone();
    let new = Recorder::on(&executor, "new", &log);
    fixture.channel.with_pipeline(|pipeline| {
        pipeline.replace("remote", "new", new).unwrap();
        pipeline.fire_read(3u32);
    });
    fixture.write(4);
    fixture.run_until_idle();
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![1, 3], vec![2, 4]));
    let seen =
        lines_about(&log, &["new read", "new write", "remote read 1", "remote write 2", "removed"]);
    let at = |what: &str| seen.iter().position(|line| line == what);
    assert!(at("remote read 1") < at("remote removed"), "{seen:?}");
    assert!(
        at("new read 1") < at("new read 3"),
        "events passed on by the old handler come first: {seen:?}"
    );
    assert!(at("new write 4").is_some() && at("new write 2").is_none(), "{seen:?}");
}

#[test]
fn c03_a_handler_removed_before_it_was_built_is_built_and_removed() {
    let log = Log::new();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", &log))?;
        Ok(())
    });
    fixture.channel.with_pipeline(|pipeline| pipeline.remove("remote").unwrap());
    fixture.run_until_idle();
    let seen = log.take();
    assert_eq!(seen[..2], ["remote built", "remote added"]);
    assert_eq!(seen[seen.len() - 2..], ["remote removed", "remote dropped"]);
    fixture.channel.write_inbound(1u32);
    assert_eq!(fixture.inbound(), [1], "reading went on");
}

#[test]
fn c03_an_edit_that_fails_builds_nothing() {
    let log = Log::new();
    let mut fixture = recorded(&log);
    let executor = fixture.remote.executor().clone();
    let other = Recorder::on(&executor, "other", &log);
    let refused = fixture.channel.with_pipeline(|pipeline| {
        pipeline.edit(|edit| {
            edit.add_last("other", other)?;
            edit.remove("nobody")
        })
    });
    assert!(refused.unwrap().is_err());
    fixture.run_until_idle();
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn c03_a_handler_may_emit_in_on_removed() {
    struct EmitsWhenRemoved;
    impl RemoteHandler for EmitsWhenRemoved {
        fn on_removed(&mut self, ctx: &RemoteCtx) {
            ctx.fire_read(1u32);
            ctx.write_and_flush(2u32);
        }
    }
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("leaves", Offloaded::on(executor, || EmitsWhenRemoved))?;
        Ok(())
    });
    fixture.run_until_idle();
    fixture.channel.with_pipeline(|pipeline| {
        pipeline.remove("leaves").unwrap();
        pipeline.fire_read(3u32);
    });
    fixture.run_until_idle();
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![1, 3], vec![2]));
}

#[test]
fn c03_the_context_of_a_removed_handler_fails() {
    struct ExposesContext(std::sync::mpsc::Sender<RemoteCtx>);
    impl RemoteHandler for ExposesContext {
        fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
            self.0.send(ctx.clone()).unwrap();
            Ok(())
        }
    }
    let (sender, given) = channel();
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("gives", Offloaded::on(executor, || ExposesContext(sender)))?;
        Ok(())
    });
    fixture.run_until_idle();
    let ctx = given.recv().unwrap();
    fixture.channel.with_pipeline(|pipeline| pipeline.remove("gives").unwrap());
    fixture.run_until_idle();
    let gone = "the handler has been removed, or its channel is closed";
    let written = ctx.write_future(1u32);
    ctx.fire_read(2u32);
    ctx.flush();
    fixture.run_until_idle();
    assert_eq!(written.join().unwrap_err().to_string(), gone);
    assert_eq!((fixture.inbound(), fixture.outbound()), (vec![], vec![]));
    assert!(fixture.handle().is_open());

    fixture.channel.close();
    fixture.run_until_idle();
    let (written, closed) = (ctx.write_future(3u32), ctx.close_future());
    fixture.run_until_idle();
    let closed_too = "the channel is closed";
    assert_eq!(written.join().unwrap_err().to_string(), closed_too);
    closed.join().unwrap();
    let channel = fixture.handle();
    drop(fixture);
    let written = ctx.write_future(4u32);
    assert_eq!(written.join().unwrap_err().to_string(), closed_too, "its loop is gone");
    assert_eq!(channel.pending_bytes(), 0);
}

#[test]
fn c03_the_next_handler_may_remove_itself_and_the_offloaded_one() {
    struct RemovesBoth;
    impl waterwheel_channel::Handler for RemovesBoth {
        fn on_read(&mut self, ctx: &waterwheel_channel::Ctx<'_>, msg: Msg) -> HandlerResult {
            ctx.pipeline().remove("silent").map_err(waterwheel_executor::Error::from)?;
            ctx.pipeline().remove("both").map_err(waterwheel_executor::Error::from)?;
            ctx.fire_read(msg);
            Ok(())
        }
    }
    struct PassThrough;
    impl RemoteHandler for PassThrough {}
    let mut fixture = OffloadFixture::new(|edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || PassThrough))?;
        edit.add_last("both", RemovesBoth)?;
        Ok(())
    });
    fixture.channel.write_inbound_all((1u32..=3).map(Msg::new));
    fixture.run_until_idle();
    assert_eq!(fixture.inbound(), [1, 2, 3]);
    assert_eq!(fixture.channel.with_pipeline(|pipeline| pipeline.names()).unwrap(), [""; 0]);
}
