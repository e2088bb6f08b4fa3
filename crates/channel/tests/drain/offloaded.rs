//! Drains of channels with offloaded handlers.

use bytes::Bytes;
use waterwheel_channel::{
    Drained, Draining, HandlerResult, Msg, Offloaded, RemoteCompletion, RemoteCtx, RemoteHandler,
};
use waterwheel_executor::{Clock, EventExecutor, ManualExecutor, VirtualClock};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Log, drain, outcome_of};

/// Echoes reads, swallows writes, and logs the drain event.
struct Answers(Log);

impl RemoteHandler for Answers {
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }

    fn on_user_event(&mut self, _: &RemoteCtx, event: Msg) -> HandlerResult {
        self.0.add(if event.is::<Draining>() { "draining" } else { "something else" });
        Ok(())
    }

    fn write(&mut self, _: &RemoteCtx, _: Msg, done: &mut RemoteCompletion) -> HandlerResult {
        self.0.add("swallowed");
        done.take().succeed();
        Ok(())
    }
}

fn fixture(log: &Log) -> (Embedded, ManualExecutor) {
    let builder = EventExecutor::builder().name("remote");
    let remote = builder.build_manual(Clock::Virtual(VirtualClock::new())).unwrap();
    let (executor, log) = (remote.executor().clone(), log.clone());
    let channel = Embedded::builder().stream().build(move |edit| {
        edit.add_last("answers", Offloaded::on(&executor, move || Answers(log)))?;
        Ok(())
    });
    (channel.unwrap(), remote)
}

fn settle(channel: &mut Embedded, remote: &mut ManualExecutor) {
    channel.run();
    while remote.run_now() > 0 {
        channel.run();
    }
}

#[test]
fn l11_a_drain_waits_for_a_request_at_an_offloaded_handler() {
    let log = Log::default();
    let (mut channel, mut remote) = fixture(&log);
    settle(&mut channel, &mut remote);
    channel.write_inbound(Bytes::from_static(b"request"));
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None, "the handler has not read the request");
    settle(&mut channel, &mut remote);
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "request");
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    assert_eq!(log.take(), ["draining"]);
}

#[test]
fn l11_a_drain_waits_for_a_write_at_an_offloaded_handler_even_if_the_handler_swallows_it() {
    let log = Log::default();
    let (mut channel, mut remote) = fixture(&log);
    settle(&mut channel, &mut remote);
    channel.on_loop(|channel| channel.send(Bytes::from_static(b"kept")));
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None);
    settle(&mut channel, &mut remote);
    assert_eq!(log.take(), ["swallowed", "draining"]);
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_an_executor_that_was_dropped_does_not_hold_a_drain() {
    let log = Log::default();
    let (mut channel, mut remote) = fixture(&log);
    settle(&mut channel, &mut remote);
    channel.write_inbound(Bytes::from_static(b"request"));
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None);
    drop(remote); // Dropping the executor runs the tasks it accepted.
    channel.run();
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "request");
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}
