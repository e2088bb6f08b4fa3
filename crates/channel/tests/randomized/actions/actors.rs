//! Those who meddle: handlers, messages and completions that act whenever they get to run.

use waterwheel_channel::{
    Completion, Ctx, Handler, HandlerResult, Message, Msg, RemoteCtx, RemoteHandler,
};
use waterwheel_executor::Error;

use super::actions::{act_by_handle, act_in_place};
use super::shared_state::{Count, Counts, world};

/// Counts one more of something; there is a world whenever something is made.
fn count(which: impl FnOnce(&Counts) -> &Count) {
    which(&world().expect("a run is under way").counts).up();
}

/// A message that acts when it is weighed and when it is dropped, and never weighs the same.
pub(crate) struct ActingMessage(());

impl ActingMessage {
    pub(crate) fn new() -> Self {
        count(|counts| &counts.messages);
        Self(())
    }
}

impl Message for ActingMessage {
    fn size_hint(&self) -> usize {
        let Some(world) = world() else { return 1 };
        if world.dice.one_in(40) {
            act_by_handle();
        }
        // The last one is more than the high water mark.
        world.dice.pick(&[0, 1, 100, 70_000])
    }
}

impl Drop for ActingMessage {
    fn drop(&mut self) {
        let Some(world) = world() else { return };
        world.counts.messages.down();
        if world.dice.one_in(20) {
            act_by_handle();
        }
        world.may_panic(400, "a message is dropped");
    }
}

/// A completion that acts when it is told.
pub(crate) fn completion() -> Completion {
    count(|counts| &counts.untold);
    Completion::local(|_| told())
}

/// A listener that acts when it is told.
pub(crate) fn listener() -> impl FnOnce(Result<(), Error>) + Send + 'static {
    count(|counts| &counts.untold);
    |_| told()
}

fn told() {
    let Some(world) = world() else { return };
    world.counts.untold.down();
    if world.dice.one_in(4) {
        act_by_handle();
    }
    world.may_panic(100, "a completion is told");
}

/// A handler that passes everything on, and acts before, after, and when it is dropped.
pub(crate) struct Meddler(());

impl Meddler {
    pub(crate) fn new() -> Self {
        count(|counts| &counts.handlers);
        Self(())
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        let Some(world) = world() else { return };
        world.counts.handlers.down();
        if world.dice.one_in(3) {
            act_by_handle();
        }
        world.may_panic(100, "a handler is dropped");
    }
}

fn meddle(ctx: &Ctx<'_>) {
    let Some(world) = world() else { return };
    match world.dice.below(5) {
        0 => act_in_place(ctx),
        1 => act_by_handle(),
        2 => {
            act_in_place(ctx);
            act_by_handle();
        }
        _ => {}
    }
}

fn fail(odds: u64) -> HandlerResult {
    match world() {
        Some(world) if world.fails(odds) => Err(Error::new("a handler fails")),
        _ => Ok(()),
    }
}

fn meddle_around(ctx: &Ctx<'_>, pass_on: impl FnOnce(&Ctx<'_>)) -> HandlerResult {
    meddle(ctx);
    fail(60)?;
    pass_on(ctx);
    meddle(ctx);
    Ok(())
}

impl Handler for Meddler {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle(ctx);
        fail(30)
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        meddle(ctx);
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_registered())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_unregistered())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_active())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_inactive())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_read(msg))
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_read_complete())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_user_event(event))
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_writability_changed())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.fire_error(error))
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        meddle_around(ctx, |_| ())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.disconnect_with(done.take()))
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.close_with(done.take()))
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.deregister_with(done.take()))
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.read())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.write_with(msg, done.take()))
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        meddle_around(ctx, |ctx| ctx.flush())
    }
}

/// A handler on another executor: passes everything on, now and then fails or panics.
pub(crate) struct RemoteMeddler(());

impl RemoteMeddler {
    pub(crate) fn new() -> Self {
        count(|counts| &counts.handlers);
        Self(())
    }
}

impl Drop for RemoteMeddler {
    fn drop(&mut self) {
        if let Some(world) = world() {
            world.counts.handlers.down();
            world.may_panic(100, "an offloaded handler is dropped");
        }
    }
}

fn stumble(place: &str) -> HandlerResult {
    if let Some(world) = world() {
        world.may_panic(60, place);
    }
    fail(60)
}

impl RemoteHandler for RemoteMeddler {
    fn on_added(&mut self, _: &RemoteCtx) -> HandlerResult {
        stumble("an offloaded handler is added")
    }

    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        stumble("an offloaded handler reads")?;
        ctx.write_and_flush(ActingMessage::new());
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        stumble("an offloaded handler has an event")
    }
}
