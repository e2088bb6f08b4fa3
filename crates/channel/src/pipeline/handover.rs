//! Handlers that choose the other handlers of a channel while it runs.

use std::fmt;
use std::mem;
use std::sync::{Mutex, PoisonError};

use waterwheel_executor::Error;

use super::{Ctx, Edit, Msg};

/// The state of a handler that chooses the handlers after it, hands the channel over to them, and leaves: by the first
/// bytes, by the outcome of a handshake, by an answer of another service.
///
/// ```text
///   pending ──hand_over──► released   what was held is fired: on_active, then user events; everything later passes
///      │                      ▲
///      │      release (the handler was removed)
///      └──refuse──► refused           error and close: the handlers after it see neither on_active nor on_inactive
/// ```
///
/// ```
/// use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg, PipelineHandover};
/// use waterwheel_testkit::embedded::Embedded;
///
/// struct Greeter(&'static str);
///
/// impl Handler for Greeter {
///     fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         ctx.write_and_flush(format!("hello from {}", self.0));
///         Ok(())
///     }
/// }
///
/// /// The first message chooses.
/// #[derive(Default)]
/// struct Chooser(PipelineHandover);
///
/// impl Handler for Chooser {
///     fn interest(&self) -> Events {
///         Events::ACTIVE | Events::INACTIVE | Events::READ | Events::READ_COMPLETE | Events::USER_EVENT
///     }
///
///     fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         self.0.on_active(ctx);
///         Ok(())
///     }
///
///     fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         self.0.on_inactive(ctx);
///         Ok(())
///     }
///
///     fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         self.0.on_read_complete(ctx);
///         Ok(())
///     }
///
///     fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
///         self.0.on_user_event(ctx, event);
///         Ok(())
///     }
///
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         if self.0.is_pending() {
///             let name = if msg.get() == Some(&1u32) { "one" } else { "others" };
///             let chosen = self.0.hand_over(ctx, |edit| {
///                 edit.add_last("greeter", Greeter(name))?;
///                 Ok(())
///             });
///             if let Err(error) = chosen {
///                 self.0.refuse(ctx, error);
///             }
///         }
///         if !self.0.is_refused() {
///             ctx.fire_read(msg);
///         }
///         Ok(())
///     }
///
///     fn on_removed(&mut self, ctx: &Ctx<'_>) {
///         if self.0.is_pending() {
///             self.0.release(ctx);
///         }
///     }
/// }
///
/// let mut channel = Embedded::new(|edit| {
///     edit.add_last("chooser", Chooser::default())?;
///     Ok(())
/// })?;
/// channel.write_inbound(1u32);
/// assert_eq!(channel.read_outbound::<String>().unwrap(), "hello from one");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
///
/// 1. *The chosen handlers* see the channel from its beginning, as if they had been there from the start: `on_active`, if
///    it came while the choice was pending, the user events, and then what the owner fires. `on_registered` does not
///    come again.
/// 2. *One edit* adds them and removes the owner: either all changes take effect or none, and the types of the final
///    pipeline are checked before it gets a message. A failed edit leaves the choice pending; `refuse` follows.
/// 3. *Limit.* [`MAX_EVENTS`](Self::MAX_EVENTS) user events are held; more pass at once.
/// 4. *Without an `on_active`* that was announced there are no rounds of reads and no `on_inactive` either.
#[derive(Default)]
pub struct PipelineHandover {
    phase: HandoverPhase,
    /// True while `on_active` is held.
    holds_active: bool,
    /// The mutex is never locked: it makes the owner `Sync`, so that an initialiser on any thread can clone it.
    events: Mutex<Vec<Msg>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HandoverPhase {
    #[default]
    Pending,
    /// Handlers were chosen, or the owner was removed: everything passes.
    Released,
    /// The channel was refused: nothing more passes.
    Refused,
}

impl PipelineHandover {
    /// The number of user events that are held: a PROXY header is one, a handshake, a drain.
    pub const MAX_EVENTS: usize = 16;

    /// True until the choice is made, the channel is refused, or the owner is removed.
    pub fn is_pending(&self) -> bool {
        self.phase == HandoverPhase::Pending
    }

    /// True if the channel was refused: messages are to be dropped.
    pub fn is_refused(&self) -> bool {
        self.phase == HandoverPhase::Refused
    }

    /// Holds `on_active`, or passes it on after the choice.
    pub fn on_active(&mut self, ctx: &Ctx<'_>) {
        match self.phase {
            HandoverPhase::Released => ctx.fire_active(),
            _ => self.holds_active = true,
        }
    }

    /// Passes `on_inactive` on, unless `on_active` is held: a beginning that was not announced has no end.
    pub fn on_inactive(&mut self, ctx: &Ctx<'_>) {
        if !self.holds_active {
            ctx.fire_inactive();
        }
    }

    /// Passes `on_read_complete` on, unless `on_active` is held.
    pub fn on_read_complete(&mut self, ctx: &Ctx<'_>) {
        if !self.holds_active {
            ctx.fire_read_complete();
        }
    }

    /// Holds a user event, passes it on after the choice, or drops it after a refusal.
    pub fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) {
        let has_room = self.events().len() < Self::MAX_EVENTS;
        match self.phase {
            HandoverPhase::Pending if has_room => self.events().push(event),
            HandoverPhase::Refused => {}
            _ => ctx.fire_user_event(event),
        }
    }

    /// Adds the chosen handlers, removes the owner, and fires what was held. The owner fires the messages it has held
    /// itself, and passes on what still comes.
    ///
    /// # Errors
    /// The initialiser or the edit has failed: nothing was fired.
    pub fn hand_over(
        &mut self,
        ctx: &Ctx<'_>,
        initialise: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        ctx.pipeline().edit(|edit| {
            initialise(edit)?;
            edit.remove_if_present(ctx.slot())?;
            Ok::<_, Error>(())
        })?;
        self.release(ctx);
        Ok(())
    }

    /// Fires what was held: the owner was removed while the choice was pending.
    pub fn release(&mut self, ctx: &Ctx<'_>) {
        self.phase = HandoverPhase::Released;
        if mem::take(&mut self.holds_active) {
            ctx.fire_active();
        }
        for event in mem::take(self.events()) {
            ctx.fire_user_event(event);
        }
    }

    /// Fires the error and closes the channel with it, unless a handler removes the owner in response: then releases
    /// what was held, and returns true.
    pub fn refuse(&mut self, ctx: &Ctx<'_>, error: Error) -> bool {
        // A failed edit has removed the owner if only an `on_added` failed.
        let was_removed = ctx.is_removed();
        ctx.fire_error(error.clone());
        if ctx.is_removed() && !was_removed {
            self.release(ctx);
            return true;
        }
        self.abandon();
        ctx.close_because(error);
        false
    }

    /// Refuses the channel without an error; the caller closes it.
    pub fn abandon(&mut self) {
        self.phase = HandoverPhase::Refused;
        drop(mem::take(self.events()));
    }

    fn events(&mut self) -> &mut Vec<Msg> {
        self.events.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PipelineHandover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineHandover").field("phase", &self.phase).finish_non_exhaustive()
    }
}
