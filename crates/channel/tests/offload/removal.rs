//! Pipelines that change while something is on its way to an offloaded handler.

use std::sync::mpsc::channel;

use waterwheel_channel::{HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
use waterwheel_testkit::recorder::Log;

use crate::support::{Bench, Inner, Recorder};

fn recorded(log: &Log) -> Bench {
    let mut bench = Bench::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", log))?;
        edit.add_last("inner", Inner(log.clone()))?;
        Ok(())
    });
    bench.settle();
    drop(log.take());
    bench
}

/// What was written down of these.
fn only(log: &Log, what: &[&str]) -> Vec<String> {
    let mut lines = log.take();
    lines.retain(|line| what.iter().any(|what| line.contains(what)));
    lines
}

#[test]
fn c03_a_removed_handler_first_receives_the_events_queued_for_it() {
    let log = Log::new();
    let mut bench = recorded(&log);
    bench.channel.write_inbound(1u32);
    bench.write(2);
    bench.channel.with_pipeline(|pipeline| pipeline.remove("remote").unwrap());
    bench.write(3);
    bench.channel.with_pipeline(|pipeline| pipeline.fire_read(4u32));
    assert_eq!((bench.inbound(), bench.outbound()), (vec![], vec![]), "nothing overtakes");
    assert!(
        !bench
            .channel
            .with_pipeline(|pipeline| pipeline.names())
            .unwrap()
            .contains(&"remote".into())
    );
    bench.settle();
    assert_eq!((bench.inbound(), bench.outbound()), (vec![1, 4], vec![2, 3]), "nothing is lost");
    let seen = only(&log, &["remote"]);
    let (last, before) = (&seen[seen.len() - 2..], &seen[..seen.len() - 2]);
    assert_eq!(last, ["remote removed", "remote dropped"]);
    assert!(before.contains(&"remote read 1".into()) && before.contains(&"remote write 2".into()));
    assert!(!before.iter().any(|line| line.ends_with(" 3") || line.ends_with(" 4")), "{before:?}");
    bench.channel.write_inbound(5u32);
    bench.write(6);
    assert_eq!((bench.inbound(), bench.outbound()), (vec![5], vec![6]), "and is out of the way");
    assert_eq!(bench.handle().pending_bytes(), 0);
}

#[test]
fn c03_the_name_of_a_removed_handler_is_free_at_once() {
    let log = Log::new();
    let mut bench = recorded(&log);
    bench.write(1);
    let executor = bench.remote.executor().clone();
    let again = Recorder::on(&executor, "again", &log);
    bench.channel.with_pipeline(|pipeline| {
        pipeline.remove("remote").unwrap();
        pipeline.add_first("remote", again).unwrap();
    });
    bench.settle();
    assert_eq!(bench.outbound(), [1]);
    assert_eq!(only(&log, &["write 1"]), ["inner write 1", "remote write 1", "again write 1"]);
}

#[test]
fn c03_a_replaced_handlers_events_come_before_its_successors() {
    let log = Log::new();
    let mut bench = recorded(&log);
    bench.channel.write_inbound(1u32);
    bench.write(2);
    let executor = bench.remote.executor().clone();
    let new = Recorder::on(&executor, "new", &log);
    bench.channel.with_pipeline(|pipeline| {
        pipeline.replace("remote", "new", new).unwrap();
        pipeline.fire_read(3u32);
    });
    bench.write(4);
    bench.settle();
    assert_eq!((bench.inbound(), bench.outbound()), (vec![1, 3], vec![2, 4]));
    let seen = only(&log, &["new read", "new write", "remote read 1", "remote write 2", "removed"]);
    let at = |what: &str| seen.iter().position(|line| line == what);
    assert!(at("remote read 1") < at("remote removed"), "{seen:?}");
    assert!(at("new read 1") < at("new read 3"), "what the old one passed on came first: {seen:?}");
    assert!(at("new write 4").is_some() && at("new write 2").is_none(), "{seen:?}");
}

#[test]
fn c03_a_handler_removed_before_it_was_built_is_built_and_removed() {
    let log = Log::new();
    let mut bench = Bench::new(|edit, executor| {
        edit.add_last("remote", Recorder::on(executor, "remote", &log))?;
        Ok(())
    });
    bench.channel.with_pipeline(|pipeline| pipeline.remove("remote").unwrap());
    bench.settle();
    let seen = log.take();
    assert_eq!(seen[..2], ["remote built", "remote added"]);
    assert_eq!(seen[seen.len() - 2..], ["remote removed", "remote dropped"]);
    bench.channel.write_inbound(1u32);
    assert_eq!(bench.inbound(), [1], "reading went on");
}

#[test]
fn c03_an_edit_that_fails_builds_nothing() {
    let log = Log::new();
    let mut bench = recorded(&log);
    let executor = bench.remote.executor().clone();
    let other = Recorder::on(&executor, "other", &log);
    let refused = bench.channel.with_pipeline(|pipeline| {
        pipeline.edit(|edit| {
            edit.add_last("other", other)?;
            edit.remove("nobody")
        })
    });
    assert!(refused.unwrap().is_err());
    bench.settle();
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn c03_a_handler_may_emit_in_on_removed() {
    struct Leaves;
    impl RemoteHandler for Leaves {
        fn on_removed(&mut self, ctx: &RemoteCtx) {
            ctx.fire_read(1u32);
            ctx.write_and_flush(2u32);
        }
    }
    let mut bench = Bench::new(|edit, executor| {
        edit.add_last("leaves", Offloaded::on(executor, || Leaves))?;
        Ok(())
    });
    bench.settle();
    bench.channel.with_pipeline(|pipeline| {
        pipeline.remove("leaves").unwrap();
        pipeline.fire_read(3u32);
    });
    bench.settle();
    assert_eq!((bench.inbound(), bench.outbound()), (vec![1, 3], vec![2]));
}

#[test]
fn c03_the_context_of_a_removed_handler_fails() {
    struct Gives(std::sync::mpsc::Sender<RemoteCtx>);
    impl RemoteHandler for Gives {
        fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
            self.0.send(ctx.clone()).unwrap();
            Ok(())
        }
    }
    let (sender, given) = channel();
    let mut bench = Bench::new(|edit, executor| {
        edit.add_last("gives", Offloaded::on(executor, || Gives(sender)))?;
        Ok(())
    });
    bench.settle();
    let ctx = given.recv().unwrap();
    bench.channel.with_pipeline(|pipeline| pipeline.remove("gives").unwrap());
    bench.settle();
    let gone = "the handler has been removed, or its channel is closed";
    let written = ctx.write_future(1u32);
    ctx.fire_read(2u32);
    ctx.flush();
    bench.settle();
    assert_eq!(written.join().unwrap_err().to_string(), gone);
    assert_eq!((bench.inbound(), bench.outbound()), (vec![], vec![]));
    assert!(bench.handle().is_open());

    bench.channel.close();
    bench.settle();
    let (written, closed) = (ctx.write_future(3u32), ctx.close_future());
    bench.settle();
    let closed_too = "the channel is closed";
    assert_eq!(written.join().unwrap_err().to_string(), closed_too);
    closed.join().unwrap();
    let channel = bench.handle();
    drop(bench);
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
    struct Silent;
    impl RemoteHandler for Silent {}
    let mut bench = Bench::new(|edit, executor| {
        edit.add_last("silent", Offloaded::on(executor, || Silent))?;
        edit.add_last("both", RemovesBoth)?;
        Ok(())
    });
    bench.channel.write_inbound_all((1u32..=3).map(Msg::new));
    bench.settle();
    assert_eq!(bench.inbound(), [1, 2, 3]);
    assert_eq!(bench.channel.with_pipeline(|pipeline| pipeline.names()).unwrap(), [""; 0]);
}
