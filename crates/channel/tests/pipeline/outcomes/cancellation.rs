//! P02: a cancel before an operation begins prevents it; a later cancel has no effect.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{
    Address, Channel, ChannelFuture, Completion, Ctx, Handler, HandlerResult, Msg, NewChannel,
    local,
};
use waterwheel_executor::ImmediateExecutor;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

use crate::support::{PipelineFixture, fixture_with, started_fixture, text};

/// Builds a channel whose only handler records every event.
fn recorded(builder: EmbeddedBuilder) -> PipelineFixture {
    let mut fixture = fixture_with(builder, |edit, log| {
        edit.add_last("app", log.recorder())?;
        Ok(())
    });
    fixture.run();
    drop(fixture.log.take());
    fixture
}

/// Requests an operation as another thread would, while the loop does not run, and cancels it.
#[track_caller]
fn ask_and_cancel(fixture: &mut PipelineFixture, ask: impl FnOnce(&Channel) -> ChannelFuture) {
    let future = ask(fixture.channel());
    assert!(future.cancel(), "the operation has not begun");
    fixture.run();
    assert_eq!(fixture.log.take(), Vec::<String>::new(), "no handler is called");
    assert!(future.join().unwrap_err().is_cancelled());
}

#[test]
fn p02_a_cancelled_close_disconnect_deregister_or_shutdown_is_not_carried_out() {
    let operations: [fn(&Channel) -> ChannelFuture; 5] = [
        Channel::close,
        Channel::disconnect,
        Channel::deregister,
        Channel::shutdown_input,
        Channel::shutdown_output,
    ];
    for ask in operations {
        let mut fixture = recorded(Embedded::builder());
        ask_and_cancel(&mut fixture, ask);
        let channel = fixture.channel();
        assert!(channel.is_active() && channel.is_registered() && channel.is_writable());
        fixture.write_inbound(text("on it goes"));
        assert_eq!(fixture.passed(), ["on it goes"]);
    }
}

#[test]
fn p02_a_cancelled_bind_or_connect_leaves_the_channel_as_it_was() {
    let operations: [fn(&Channel) -> ChannelFuture; 2] = [
        |channel| channel.bind(Address::local("here")),
        |channel| channel.connect(Address::local("there")),
    ];
    for ask in operations {
        let mut fixture = recorded(Embedded::builder().unconnected());
        ask_and_cancel(&mut fixture, ask);
        assert!(fixture.channel().is_open() && !fixture.channel().is_active());
        let again = ask(fixture.channel());
        fixture.run();
        again.join().expect("nothing was begun before");
        assert!(fixture.channel().is_active());
    }
}

#[test]
fn p02_a_channel_whose_registration_was_cancelled_stays_deregistered() {
    let mut fixture = recorded(Embedded::builder());
    let left = fixture.channel().deregister();
    fixture.run();
    left.join().unwrap();
    drop(fixture.log.take());
    ask_and_cancel(&mut fixture, Channel::register);
    assert!(!fixture.channel().is_registered());
}

#[test]
fn p02_a_cancelled_pipeline_access_is_not_carried_out() {
    let mut fixture = recorded(Embedded::builder());
    let called = fixture.channel().with_pipeline(|pipeline| pipeline.remove("app"));
    assert!(called.cancel());
    fixture.run();
    assert_eq!(fixture.names(), ["app"]);
}

#[test]
fn p02_a_cancelled_registration_closes_the_new_channel() {
    let mut fixture = recorded(Embedded::builder());
    let event_loop = fixture.channel().event_loop();
    let (one, _other) = local::pair();
    let registered = event_loop.register(one);
    assert!(registered.cancel());
    let kept = event_loop.register(NewChannel::new(local::Connection::new()));
    fixture.run();
    kept.join().unwrap();
    let there = event_loop.registered_channels();
    fixture.run();
    assert_eq!(there.join().unwrap().len(), 2, "the embedded one, and the one that was kept");
}

/// Holds a close back and passes it on at a user event.
#[derive(Default)]
struct KeepsClose(Completion);

impl Handler for KeepsClose {
    fn close(&mut self, _: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.0 = done.take();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.close_with(self.0.take());
        Ok(())
    }
}

#[test]
fn p02_a_close_that_a_handler_keeps_can_still_be_cancelled() {
    let mut fixture = started_fixture(|edit, log| {
        edit.add_last("before", log.recorder())?;
        edit.add_last("keeps", KeepsClose::default())?;
        Ok(())
    });
    let closed = fixture.channel().close();
    fixture.run();
    assert!(closed.cancel(), "it has not begun");
    fixture.channel().fire_user_event(text("go on"));
    fixture.run();
    assert_eq!(fixture.log.take(), ["before on_user_event go on"], "no close comes that far");
    assert!(fixture.channel().is_active());
}

#[test]
fn p02_an_operation_that_has_begun_cannot_be_cancelled() {
    let mut fixture = recorded(Embedded::builder());
    fixture.set_room(0);
    let shut = fixture.on_loop(|channel| {
        channel.send(text("waits"));
        channel.shutdown_output()
    });
    assert!(!shut.is_done() && !shut.cancel(), "it waits for what was flushed");
    fixture.clear_faults();
    shut.join().expect("the operation was carried out");
}

#[test]
fn p02_an_operation_of_a_context_can_be_cancelled_by_its_promise_too() {
    let mut fixture = recorded(Embedded::builder());
    let futures = Rc::new(RefCell::new(Vec::new()));
    fixture.with_pipeline(|pipeline| {
        let (promise, future) = ImmediateExecutor.new_promise();
        assert!(future.cancel());
        pipeline.close_with(promise);
        futures.borrow_mut().push(future);
    });
    assert!(fixture.channel().is_active());
    assert_eq!(fixture.log.take(), Vec::<String>::new());
}
