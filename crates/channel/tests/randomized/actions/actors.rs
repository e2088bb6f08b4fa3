//! Handlers, messages and completions that perform random actions whenever they run.

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Handler, HandlerResult, Message, Msg, PendingWriteQueue, RemoteCtx,
    RemoteHandler, WatchedCompletion,
};
use waterwheel_executor::Error;

use super::random_actions::{act_with_context, act_with_handle};
use super::shared_state::{LiveCount, LiveCounts, run_state};

/// Counts one more live object; a run is in progress whenever one is made.
fn count(which: impl FnOnce(&LiveCounts) -> &LiveCount) {
    which(&run_state().expect("a run is under way").counts).up();
}

/// A message that acts in `size_hint` and when it is dropped, and whose size changes.
pub(crate) struct ActingMessage(());

impl ActingMessage {
    pub(crate) fn new() -> Self {
        count(|counts| &counts.messages);
        Self(())
    }
}

impl Message for ActingMessage {
    fn size_hint(&self) -> usize {
        let Some(run_state) = run_state() else { return 1 };
        if run_state.random.one_in(40) {
            act_with_handle();
        }
        // The last size is above the high-water mark.
        run_state.random.pick(&[0, 1, 100, 70_000])
    }
}

impl Drop for ActingMessage {
    fn drop(&mut self) {
        on_message_dropped();
    }
}

/// The owner of bytes, which acts when it is dropped.
struct ActingOwner(Vec<u8>);

impl AsRef<[u8]> for ActingOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for ActingOwner {
    fn drop(&mut self) {
        on_message_dropped();
    }
}

/// Returns bytes whose owner acts when it is dropped. Some are too many for a transport at once.
pub(crate) fn acting_bytes() -> Bytes {
    let run_state = run_state().expect("a run is under way");
    run_state.counts.messages.up();
    let size = run_state.random.pick(&[0, 1, 100, 20_000, 70_000]);
    Bytes::from_owner(ActingOwner(vec![b'o'; size]))
}

fn on_message_dropped() {
    let Some(run_state) = run_state() else { return };
    run_state.counts.messages.down();
    if run_state.random.one_in(20) {
        act_with_handle();
    }
    run_state.may_panic(400, "a message is dropped");
}

/// Returns a completion that acts when it is completed.
pub(crate) fn completion() -> Completion {
    count(|counts| &counts.uncompleted);
    Completion::local(|_| on_completed())
}

/// Returns a listener that acts when it is called.
pub(crate) fn listener() -> impl FnOnce(Result<(), Error>) + Send + 'static {
    count(|counts| &counts.uncompleted);
    |_| on_completed()
}

fn on_completed() {
    let Some(run_state) = run_state() else { return };
    run_state.counts.uncompleted.down();
    if run_state.random.one_in(4) {
        act_with_handle();
    }
    run_state.may_panic(100, "a completion is told");
}

/// A handler that passes everything on, some writes later, and acts before, after, and when it is dropped.
pub(crate) struct ActingHandler {
    held: PendingWriteQueue,
    watch: WatchedCompletion,
}

impl ActingHandler {
    pub(crate) fn new() -> Self {
        count(|counts| &counts.handlers);
        Self { held: PendingWriteQueue::default(), watch: WatchedCompletion::new() }
    }

    /// Does something with the writes that are held back.
    fn use_held(&mut self, ctx: &Ctx<'_>) {
        let Some(run_state) = run_state() else { return self.held.write_all(ctx) };
        match run_state.random.below(8) {
            0 => drop(self.held.write_next(ctx)),
            1 => drop(self.held.write_part(ctx, run_state.random.pick(&[0, 1, 99, 30_000]))),
            2 => self.held.write_flushed(ctx),
            3 => self.held.write_all(ctx),
            4 => self.held.fail_all(ctx, &Error::new("an action")),
            5 => {
                if let Some((msg, done)) = self.held.pop() {
                    ctx.write_with(msg, done);
                }
            }
            6 => self.watch.fail(Error::new("an action")),
            _ => {}
        }
    }
}

impl Drop for ActingHandler {
    fn drop(&mut self) {
        let Some(run_state) = run_state() else { return };
        run_state.counts.handlers.down();
        if run_state.random.one_in(3) {
            act_with_handle();
        }
        run_state.may_panic(100, "a handler is dropped");
    }
}

fn act(ctx: &Ctx<'_>) {
    let Some(run_state) = run_state() else { return };
    match run_state.random.below(5) {
        0 => act_with_context(ctx),
        1 => act_with_handle(),
        2 => {
            act_with_context(ctx);
            act_with_handle();
        }
        _ => {}
    }
}

fn fail(odds: u64) -> HandlerResult {
    match run_state() {
        Some(run_state) if run_state.fails(odds) => Err(Error::new("a handler fails")),
        _ => Ok(()),
    }
}

fn act_around(ctx: &Ctx<'_>, pass_on: impl FnOnce(&Ctx<'_>)) -> HandlerResult {
    act(ctx);
    fail(60)?;
    pass_on(ctx);
    act(ctx);
    Ok(())
}

impl Handler for ActingHandler {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act(ctx);
        fail(30)
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        act(ctx);
        if run_state().is_none_or(|run_state| !run_state.random.one_in(3)) {
            self.held.write_all(ctx); // Otherwise the writes fail.
        }
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_registered())
    }

    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_unregistered())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_active())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_inactive())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_read(msg))
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_read_complete())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_user_event(event))
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_writability_changed())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        act_around(ctx, |ctx| ctx.fire_error(error))
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        act_around(ctx, |ctx| self.use_held(ctx))
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        act_around(ctx, |ctx| ctx.disconnect_with(done.take()))
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        act_around(ctx, |ctx| ctx.close_with(done.take()))
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        act_around(ctx, |ctx| ctx.deregister_with(done.take()))
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        act_around(ctx, |ctx| ctx.read())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let choice = run_state().map_or(0, |run_state| run_state.random.below(6));
        act_around(ctx, |ctx| match choice {
            1 => self.held.push(ctx, msg, done.take()),
            2 => ctx.write_with(msg, self.watch.wrap(done.take())),
            _ => ctx.write_with(msg, done.take()),
        })
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.held.flush();
        act_around(ctx, |ctx| {
            self.use_held(ctx);
            ctx.flush();
        })
    }
}

/// A handler on another executor: passes everything on, and sometimes fails or panics.
pub(crate) struct FailingRemoteHandler(());

impl FailingRemoteHandler {
    pub(crate) fn new() -> Self {
        count(|counts| &counts.handlers);
        Self(())
    }
}

impl Drop for FailingRemoteHandler {
    fn drop(&mut self) {
        if let Some(run_state) = run_state() {
            run_state.counts.handlers.down();
            run_state.may_panic(100, "an offloaded handler is dropped");
        }
    }
}

fn fail_or_panic(place: &str) -> HandlerResult {
    if let Some(run_state) = run_state() {
        run_state.may_panic(60, place);
    }
    fail(60)
}

impl RemoteHandler for FailingRemoteHandler {
    fn on_added(&mut self, _: &RemoteCtx) -> HandlerResult {
        fail_or_panic("an offloaded handler is added")
    }

    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        fail_or_panic("an offloaded handler reads")?;
        ctx.write_and_flush(ActingMessage::new());
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        fail_or_panic("an offloaded handler has an event")
    }
}
