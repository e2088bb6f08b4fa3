//! Destructors of messages and handlers that panic (rule 11).

use std::cell::Cell;
use std::rc::Rc;

use waterwheel_channel::{Channel, Completion, Ctx, Events, Handler, HandlerResult, Message, Msg};

use super::support::{LoopFixture, ScriptedTransport, on_event, on_event_in_the_path_of_writes};

/// A message whose destructor panics.
struct PanicsWhenDropped;

impl Message for PanicsWhenDropped {
    fn size_hint(&self) -> usize {
        10
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("destructor panics");
    }
}

#[test]
fn c05_rule_11_a_message_that_panics_when_it_is_dropped_does_not_keep_a_channel_open() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last(
            "app",
            on_event_in_the_path_of_writes(|ctx| {
                let writes = [(); 3].map(|()| ctx.channel().write(PanicsWhenDropped));
                drop(writes);
                panic!("oh");
            }),
        )?;
        Ok(())
    });
    let other = fixture.register(ScriptedTransport::default(), |_| Ok(()));
    fixture.on(|_| channel.fire_user_event(()));
    fixture.run();
    assert!(!channel.is_open());
    assert!(channel.closed().is_done());
    assert_eq!(channel.pending_bytes(), 0, "nothing is pending");
    assert!(other.is_open());
    assert_eq!(fixture.on(|here| here.registered_channels()), [other]);
}

/// Passes events on; its destructor runs a panicking closure in its channel's pipeline.
struct PanicsInPipelineWhenDropped(Option<Channel>);

impl Handler for PanicsInPipelineWhenDropped {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.0 = Some(ctx.channel());
        ctx.fire_user_event(event);
        Ok(())
    }
}

impl Drop for PanicsInPipelineWhenDropped {
    fn drop(&mut self) {
        if let Some(channel) = self.0.take() {
            drop(channel.with_pipeline(|_| panic!("the last wish")));
        }
    }
}

#[test]
fn c05_rule_11_a_destructor_that_panics_after_a_panic_leaves_the_other_handlers_in_place() {
    let mut fixture = LoopFixture::new();
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last("one", PanicsInPipelineWhenDropped(None))?;
        edit.add_last("two", PanicsInPipelineWhenDropped(None))?;
        edit.add_last("three", PanicsInPipelineWhenDropped(None))?;
        edit.add_last("app", on_event(|_| panic!("oh")))?;
        edit.add_last("last", CountsRemovalAndDrop(count))?;
        Ok(())
    });
    // The event is fired inside a call of another channel, so that no deferred work runs between the panics.
    let target = channel.clone();
    let caller = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last("caller", on_event(move |_| target.fire_user_event(())))?;
        Ok(())
    });
    fixture.on(|_| caller.fire_user_event(()));
    fixture.run();
    assert!(channel.closed().is_done() && caller.is_open());
    assert_eq!(seen.get(), 2, "a handler that was not on the stack is removed and dropped");
}

/// Counts its `on_removed` and its drop.
struct CountsRemovalAndDrop(Rc<Cell<u32>>);

impl Handler for CountsRemovalAndDrop {
    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.set(self.0.get() + 1);
    }
}

impl Drop for CountsRemovalAndDrop {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Panics in `write`.
struct PanicsOnWrite;

impl Handler for PanicsOnWrite {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, _: &Ctx<'_>, _: Msg, _: &mut Completion) -> HandlerResult {
        panic!("write panics");
    }
}

/// Calls `caught` with the channel inside a call that catches panics, and checks that the channel is closed.
fn a_panic_is_caught_on_its_way(caught: impl Fn(Channel) + 'static) {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last("writes", PanicsOnWrite)?;
        edit.add_last("app", on_event(move |ctx| caught(ctx.channel())))?;
        Ok(())
    });
    fixture.on(|_| channel.fire_user_event(()));
    fixture.run();
    assert!(!channel.is_open(), "its handler has panicked");
    assert!(channel.closed().is_done());
    assert_eq!(channel.pending_bytes(), 0);
    assert_eq!(fixture.on(|here| here.registered_channels()), []);
}

#[test]
fn c05_rule_11_a_panic_that_a_completion_catches_closes_the_channel() {
    a_panic_is_caught_on_its_way(|channel| {
        Completion::local(move |_| channel.send(())).succeed();
    });
}

#[test]
fn c05_rule_11_a_panic_that_a_listener_catches_closes_the_channel() {
    a_panic_is_caught_on_its_way(|channel| {
        let (promise, mut future) = channel.event_loop().new_promise();
        future.add_listener(move |_| channel.send(()));
        promise.set_success(());
    });
}

#[test]
fn c05_rule_11_an_event_that_panics_when_it_is_dropped_at_the_tail_does_not_close_the_channel() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last("app", PassThrough)?;
        Ok(())
    });
    fixture.on(|_| channel.fire_user_event(PanicsWhenDropped));
    fixture.run();
    assert!(channel.is_open(), "it passed every handler");
}

struct PassThrough;

impl Handler for PassThrough {}
