//! `LocalCtx`: a handler's context that can be kept, on its loop.

use std::fmt;
use std::rc::Rc;

use waterwheel_executor::Error;

use crate::base::token::Token;
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::context::Ctx;
use crate::pipeline::slots::slot_list::SlotId;

/// A [`Ctx`] that can be kept: in a completion, or in a future on the same loop. Not `Send`. It keeps
/// neither the channel nor the handler alive; once one of them is gone, [`run`](Self::run) fails.
///
/// ```
/// # use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
/// struct AnswerLater;
///
/// impl Handler for AnswerLater {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         let later = ctx.to_local();
///         ctx.event_loop().spawn_local(async move {
///             waterwheel_channel::sleep(std::time::Duration::from_millis(5)).await;
///             let _gone = later.run(|ctx| ctx.write_and_flush(msg));
///         });
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone)]
pub struct LocalCtx {
    here: LocalLoop,
    channel: Token,
    slot: SlotId,
}

impl LocalCtx {
    pub(crate) fn new(here: &LocalLoop, channel: Token, slot: SlotId) -> Self {
        Self { here: here.clone(), channel, slot }
    }

    /// Calls `f` with the handler's context, as if the handler itself ran `f`. If calls between channels
    /// are nested too deeply, `f` is called a little later.
    ///
    /// # Errors
    /// The handler was removed, or the channel is closed; `f` is not called.
    pub fn run(&self, f: impl FnOnce(&Ctx<'_>) + 'static) -> Result<(), Error> {
        let core = self.find().ok_or_else(|| Error::new(ChannelError::Gone))?;
        let slot = self.slot;
        core.enter_or_defer(move |core| core.call_with_context(slot, f));
        Ok(())
    }

    /// Calls `f` with the handler's context like [`run`](Self::run), but never later: returns `None`, without a call,
    /// if calls between channels are nested too deeply or calls of `run` are still waiting. `f` may borrow, and returns
    /// a value; a panic of `f` closes the channel, and returns `None` too.
    ///
    /// # Errors
    /// The handler was removed, or the channel is closed; `f` is not called.
    pub fn run_now<R>(&self, f: impl FnOnce(&Ctx<'_>) -> R) -> Result<Option<R>, Error> {
        let core = self.find().ok_or_else(|| Error::new(ChannelError::Gone))?;
        let mut result = None;
        if !core.must_defer() {
            core.enter(|core| core.call_with_context(self.slot, |ctx| result = Some(f(ctx))));
        }
        Ok(result)
    }

    /// True while the handler is in the pipeline and the channel is open.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.find().is_some()
    }

    fn find(&self) -> Option<Rc<ChannelCore>> {
        let core = self.here.channels().find(self.channel)?;
        let found = core.pipeline.slots.borrow().find(self.slot).is_some();
        found.then_some(core)
    }
}

impl ChannelCore {
    /// Calls `f` with the context of a handler, unless the handler is gone.
    fn call_with_context(self: &Rc<Self>, slot: SlotId, f: impl FnOnce(&Ctx<'_>)) {
        let mut slots = self.pipeline.slots.borrow_mut();
        let Some(at) = slots.find(slot) else { return };
        // The handler is taken out, as for any call, so that it keeps its place if `f` removes it.
        let handler = slots.at_mut(at).begin_call();
        drop(slots);
        match handler {
            Some(handler) => self.call(at, handler, |_, ctx| f(ctx)),
            None => f(&Ctx::new(self, at)), // The handler is running, and keeps its slot until it returns.
        }
    }
}

impl fmt::Debug for LocalCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalCtx({:?} of {:?})", self.slot, self.channel)
    }
}
