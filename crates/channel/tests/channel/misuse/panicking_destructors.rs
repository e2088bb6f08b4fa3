//! Destructors that panic, of messages and of handlers (rule 11).

use std::cell::Cell;
use std::rc::Rc;

use waterwheel_channel::{Channel, Completion, Ctx, Events, Handler, HandlerResult, Message, Msg};

use super::support::{Puppet, Stage, in_the_way, on_event};

/// A message whose destructor panics.
struct Bomb;

impl Message for Bomb {
    fn size_hint(&self) -> usize {
        10
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

#[test]
fn c05_rule_11_a_message_that_panics_when_it_is_dropped_does_not_keep_a_channel_open() {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last(
            "app",
            in_the_way(|ctx| {
                let writes = [(); 3].map(|()| ctx.channel().write(Bomb));
                drop(writes);
                panic!("oh");
            }),
        )?;
        Ok(())
    });
    let other = stage.register(Puppet::default(), |_| Ok(()));
    stage.on(|_| channel.fire_user_event(()));
    stage.run();
    assert!(!channel.is_open());
    assert!(channel.closed().is_done());
    assert_eq!(channel.pending_bytes(), 0, "nothing waits any more");
    assert!(other.is_open());
    assert_eq!(stage.on(|here| here.registered_channels()), [other]);
}

/// Passes events on; when it is dropped, asks its channel for something that panics.
struct LastWish(Option<Channel>);

impl Handler for LastWish {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.0 = Some(ctx.channel());
        ctx.fire_user_event(event);
        Ok(())
    }
}

impl Drop for LastWish {
    fn drop(&mut self) {
        if let Some(channel) = self.0.take() {
            drop(channel.with_pipeline(|_| panic!("the last wish")));
        }
    }
}

#[test]
fn c05_rule_11_a_destructor_that_panics_after_a_panic_leaves_the_other_handlers_in_place() {
    let mut stage = Stage::new();
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last("one", LastWish(None))?;
        edit.add_last("two", LastWish(None))?;
        edit.add_last("three", LastWish(None))?;
        edit.add_last("app", on_event(|_| panic!("oh")))?;
        edit.add_last("last", Leaves(count))?;
        Ok(())
    });
    // From inside of another one, so that nothing is settled between the panics.
    let target = channel.clone();
    let caller = stage.register(Puppet::default(), |edit| {
        edit.add_last("caller", on_event(move |_| target.fire_user_event(())))?;
        Ok(())
    });
    stage.on(|_| caller.fire_user_event(()));
    stage.run();
    assert!(channel.closed().is_done() && caller.is_open());
    assert_eq!(seen.get(), 2, "who was not on the stack takes its leave, and is dropped");
}

/// Counts that it takes its leave, and that it is dropped.
struct Leaves(Rc<Cell<u32>>);

impl Handler for Leaves {
    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.set(self.0.get() + 1);
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

/// Panics at every write.
struct NoWrites;

impl Handler for NoWrites {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, _: &Ctx<'_>, _: Msg, _: &mut Completion) -> HandlerResult {
        panic!("no writes");
    }
}

/// Lets `caught` write to the channel in the middle of a call, where somebody else catches panics.
fn a_panic_is_caught_on_its_way(caught: impl Fn(Channel) + 'static) {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last("writes", NoWrites)?;
        edit.add_last("app", on_event(move |ctx| caught(ctx.channel())))?;
        Ok(())
    });
    stage.on(|_| channel.fire_user_event(()));
    stage.run();
    assert!(!channel.is_open(), "its handler has panicked");
    assert!(channel.closed().is_done());
    assert_eq!(channel.pending_bytes(), 0);
    assert_eq!(stage.on(|here| here.registered_channels()), []);
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
    let mut stage = Stage::new();
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last("app", Passes)?;
        Ok(())
    });
    stage.on(|_| channel.fire_user_event(Bomb));
    stage.run();
    assert!(channel.is_open(), "it passed every handler");
}

struct Passes;

impl Handler for Passes {}
