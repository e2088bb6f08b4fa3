//! Handlers that request from their channel, inside a call, the event they were called for (rule 2).

use std::time::Duration;

use waterwheel_channel::{
    Address, Channel, Completion, ConnectTarget, Ctx, Events, Handler, HandlerResult, Msg,
};
use waterwheel_executor::Error;

use super::support::{LoopFixture, PanicPoint, ScriptedTransport};

/// Requests each event from the channel again, this many times, instead of passing the event on.
struct RepeatsEvent(usize);

impl RepeatsEvent {
    fn ask(&self, channel_with_repeater: impl Fn()) -> HandlerResult {
        (0..self.0).for_each(|_| channel_with_repeater());
        Ok(())
    }
}

impl Handler for RepeatsEvent {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.ask(|| ctx.pipeline().fire_read(1_u8))
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.ask(|| ctx.pipeline().fire_read_complete())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.ask(|| ctx.channel().fire_user_event(1_u8))
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.ask(|| ctx.pipeline().fire_error(error.clone()))
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().bind(to.clone())))
    }

    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().connect(to.remote.clone())))
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().disconnect()))
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().close()))
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().deregister()))
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().shutdown_output()))
    }

    fn write(&mut self, ctx: &Ctx<'_>, _: Msg, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        self.ask(|| drop(ctx.channel().write(1_u8)))
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.ask(|| ctx.channel().flush())
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.ask(|| ctx.channel().read())
    }
}

fn unused_address() -> Address {
    Address::local("nowhere")
}

type Trigger = fn(&Channel);

/// Every event with the call that starts it.
const TRIGGERS: [(&str, Trigger); 13] = [
    ("on_read", |channel| drop(channel.with_pipeline(|pipeline| pipeline.fire_read(1_u8)))),
    ("on_read_complete", |channel| {
        drop(channel.with_pipeline(|pipeline| pipeline.fire_read_complete()));
    }),
    ("on_user_event", |channel| channel.fire_user_event(1_u8)),
    ("on_error", |channel| {
        drop(channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("oh"))));
    }),
    ("bind", |channel| drop(channel.bind(unused_address()))),
    ("connect", |channel| drop(channel.connect(unused_address()))),
    ("disconnect", |channel| drop(channel.disconnect())),
    ("close", |channel| drop(channel.close())),
    ("deregister", |channel| drop(channel.deregister())),
    ("shutdown_output", |channel| drop(channel.shutdown_output())),
    ("write", |channel| drop(channel.write(1_u8))),
    ("flush", |channel| channel.flush()),
    ("read", |channel| channel.read()),
];

/// Registers a channel with a repeating handler, without auto-read.
fn channel_with_repeater(fixture: &mut LoopFixture, times: usize) -> Channel {
    let channel = fixture.register(ScriptedTransport(PanicPoint::None), |_| Ok(()));
    fixture.on(|_| channel.set_auto_read(false));
    let added = fixture.on(|_| {
        channel.with_pipeline(move |pipeline| {
            pipeline.add_last("again", RepeatsEvent(times)).map(drop)
        })
    });
    added.join().expect("the loop runs").expect("the handler is added");
    channel
}

#[test]
fn c05_rule_2_a_handler_that_repeats_its_own_event_does_not_starve_the_loop() {
    for (what, trigger) in TRIGGERS {
        let mut fixture = LoopFixture::new();
        let channel = channel_with_repeater(&mut fixture, 1);
        let other = fixture.register(ScriptedTransport(PanicPoint::None), |_| Ok(()));
        fixture.on(|_| trigger(&channel));
        let event_loop = fixture.event_loop.event_loop();
        let task = event_loop.submit(|| ()).expect("the task is accepted");
        let timer = event_loop.schedule(Duration::ZERO, || ()).expect("a timer");
        let written = other.write_and_flush(1_u8);
        (0..3).for_each(|_| _ = fixture.event_loop.turn(Some(Duration::ZERO)));
        assert!(task.is_done() && timer.is_done(), "{what}");
        assert!(written.is_done(), "{what}");
        assert!(channel.is_open(), "{what} goes on");
    }
}

/// Starts a handler that repeats its event `times` times, and checks that the report names it and that its
/// channel is closed.
fn assert_named_and_closed(what: &str, trigger: Trigger, times: usize) {
    let mut fixture = LoopFixture::new();
    let channel = channel_with_repeater(&mut fixture, times);
    let other = fixture.register(ScriptedTransport(PanicPoint::None), |_| Ok(()));
    fixture.on(|_| trigger(&channel));
    while channel.is_open() {
        fixture.event_loop.turn(Some(Duration::ZERO));
    }
    fixture.run();
    assert!(channel.closed().is_done(), "{what}");
    let late = channel.write(1_u8);
    fixture.run();
    let error = late.join().expect_err("the channel is closed").to_string();
    assert!(error.contains("`again` does not terminate"), "{what}: {error}");
    let reports = fixture.reports.take();
    assert!(reports.iter().any(|it| it.contains("`again`")), "{what}: {reports:?}");
    assert_eq!(channel.pending_bytes(), 0, "{what}");
    assert_eq!(fixture.on(|here| here.registered_channels()), [other], "{what}");
}

#[test]
fn c05_rule_2_a_handler_whose_events_multiply_is_named_and_its_channel_closed() {
    for (what, trigger) in TRIGGERS {
        assert_named_and_closed(what, trigger, 2);
    }
}

#[test]
fn c05_rule_2_a_handler_that_repeats_its_own_event_for_ever_is_named_and_its_channel_closed() {
    assert_named_and_closed("flush", |channel| channel.flush(), 1);
}

/// Answers each user event with this many writes, which are deferred until the call returns.
struct WriteBurst(usize);

impl Handler for WriteBurst {
    fn interest(&self) -> Events {
        Events::USER_EVENT | Events::WRITE
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        (0..self.0).for_each(|_| drop(ctx.channel().write(1_u8)));
        Ok(())
    }
}

#[test]
fn c05_rule_2_all_events_that_one_call_causes_are_delivered() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport(PanicPoint::None), |edit| {
        edit.add_last("burst", WriteBurst(200_000))?;
        Ok(())
    });
    fixture.on(|_| channel.fire_user_event(()));
    let last = fixture.on(|_| channel.write_and_flush(1_u8));
    assert!(last.is_done(), "the writes of one call are not put off");
    assert!(channel.is_open());
}

/// Requests a close from inside `close`, and records its removal.
struct RepeatsClose(std::rc::Rc<std::cell::Cell<bool>>);

impl Handler for RepeatsClose {
    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        drop(done.take());
        drop(ctx.channel().close());
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.set(true);
    }
}

#[test]
fn c05_rule_4_a_handler_can_be_removed_while_its_remaining_events_wait() {
    let mut fixture = LoopFixture::new();
    let removed = std::rc::Rc::new(std::cell::Cell::new(false));
    let told = removed.clone();
    let channel = fixture.register(ScriptedTransport(PanicPoint::None), |edit| {
        edit.add_last("again", RepeatsClose(told))?;
        Ok(())
    });
    fixture.on(|_| drop(channel.close()));
    assert!(channel.is_open());
    let gone = fixture.on(|_| channel.with_pipeline(|pipeline| pipeline.remove("again").map(drop)));
    assert!(gone.join().expect("the loop runs").is_ok());
    fixture.run();
    assert!(removed.get(), "on_removed was called");
    assert!(channel.closed().is_done(), "its last close passes the removed handler");
    let reports = fixture.reports.take();
    assert_eq!(reports, [""; 0], "no event was dropped");
}
