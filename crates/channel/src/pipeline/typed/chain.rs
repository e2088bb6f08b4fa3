//! Chains: several stages in one slot, joined at compile time.
//!
//! ```text
//!   slot "in":  Bytes ──► Decode<Lines> ──Line──► Parse ──Request──► App ──► ctx.write(answer)
//!                         └──────── one Inbound(…): static calls, no boxes ───────┘
//! ```
//!
//! Between slots a message is a [`Msg`], which boxes every type but `Bytes`. Between stages it keeps its own type.
//! Stages whose types do not fit do not compile. To its pipeline a chain is one handler: it is added, called and
//! removed as a whole.

use std::any::TypeId;
use std::convert::Infallible;

use super::signature::{Signature, TypeTag, Types};
use crate::channel::lifecycle::half_closure::HalfClosed;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::{Message, Msg};

/// One stage of a chain. Wrap the chain in [`Inbound`] to add it to a pipeline.
///
/// The values between two stages need not be [`Message`]s; only the input of the first stage and the
/// output of the last one must be.
///
/// ```
/// use std::convert::Infallible;
/// use waterwheel_channel::{Emit, HandlerResult, Inbound, Stage, Types};
/// # use waterwheel_channel::Handler;
///
/// struct Length;
///
/// impl Stage for Length {
///     type In = String;
///     type Out = usize;
///
///     fn on<O: Emit<usize>>(&mut self, text: String, out: &mut O) -> HandlerResult {
///         out.emit(text.len())
///     }
/// }
///
/// /// The last stage answers, and emits nothing.
/// struct Answer;
///
/// impl Stage for Answer {
///     type In = usize;
///     type Out = Infallible;
///
///     fn on<O: Emit<Infallible>>(&mut self, len: usize, out: &mut O) -> HandlerResult {
///         out.ctx().write_and_flush(format!("{len} bytes"));
///         Ok(())
///     }
///
///     fn answers(&self) -> Types {
///         Types::of::<String>()
///     }
/// }
///
/// let handler = Inbound(Length.then(Answer));
/// # let _: &dyn Handler = &handler;
/// ```
#[allow(
    unused_variables,
    reason = "overriding methods need the parameters that the defaults ignore"
)]
pub trait Stage: 'static {
    /// The input type.
    type In: 'static;
    /// The output type; [`Infallible`] if the stage emits nothing.
    type Out: 'static;

    /// Called with a message; the results are [emitted](Emit::emit) to `out`.
    ///
    /// # Errors
    /// An error of this stage, or of a later one (`out.emit(…)?`). It is fired inward, to the `on_error`
    /// of the handlers after the chain. A chain that starts with a decoder then continues with the
    /// next message.
    fn on<O: Emit<Self::Out>>(&mut self, msg: Self::In, out: &mut O) -> HandlerResult;

    /// Called at the end of the input: when the peer has finished ([`HalfClosed::Input`]) and when the
    /// channel has become inactive. Both may happen; a stage that has emitted its last messages at the first
    /// must not emit them again at the second.
    ///
    /// # Errors
    /// See [`on`](Self::on).
    fn on_end<O: Emit<Self::Out>>(&mut self, out: &mut O) -> HandlerResult {
        Ok(())
    }

    /// Called at the end of a round of reads: see [`Handler::on_read_complete`].
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) {}

    /// Called when the chain was removed from its pipeline.
    fn on_removed(&mut self, ctx: &Ctx<'_>) {}

    /// Returns the types of the messages that this stage writes. Called for the last stage of a chain only.
    /// Unknown by default.
    fn answers(&self) -> Types {
        Types::Unknown
    }

    /// Returns a chain of this stage and `next`.
    fn then<B: Stage<In = Self::Out>>(self, next: B) -> Then<Self, B>
    where
        Self: Sized,
    {
        Then(self, next)
    }
}

/// The output of a stage: leads to the next stage or, after the last one, to the next handler.
pub trait Emit<T> {
    /// Passes a message to the next stage.
    ///
    /// # Errors
    /// The error of a later stage.
    fn emit(&mut self, msg: T) -> HandlerResult;

    /// Returns the context of the chain, to write, to close, or to look at the channel.
    fn ctx(&self) -> Ctx<'_>;
}

/// Two stages in sequence: see [`Stage::then`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Then<A, B>(A, B);

impl<A: Stage, B: Stage<In = A::Out>> Stage for Then<A, B> {
    type In = A::In;
    type Out = B::Out;

    #[inline]
    fn on<O: Emit<B::Out>>(&mut self, msg: A::In, out: &mut O) -> HandlerResult {
        self.0.on(msg, &mut NextStage { next: &mut self.1, out })
    }

    #[inline]
    fn on_end<O: Emit<B::Out>>(&mut self, out: &mut O) -> HandlerResult {
        let first = self.0.on_end(&mut NextStage { next: &mut self.1, out });
        first.and(self.1.on_end(out))
    }

    #[inline]
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) {
        self.0.on_read_complete(ctx);
        self.1.on_read_complete(ctx);
    }

    #[inline]
    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        // Later stage first: the data it holds arrived before the data the earlier stage holds.
        self.1.on_removed(ctx);
        self.0.on_removed(ctx);
    }

    fn answers(&self) -> Types {
        self.1.answers()
    }
}

/// Emits to the next stage.
struct NextStage<'a, B, O> {
    next: &'a mut B,
    out: &'a mut O,
}

impl<B: Stage, O: Emit<B::Out>> Emit<B::In> for NextStage<'_, B, O> {
    #[inline]
    fn emit(&mut self, msg: B::In) -> HandlerResult {
        self.next.on(msg, self.out)
    }

    #[inline]
    fn ctx(&self) -> Ctx<'_> {
        self.out.ctx()
    }
}

/// Emits to the next handler.
pub(super) struct NextHandler<'a> {
    ctx: Ctx<'a>,
    /// True once something was emitted.
    has_fired: bool,
}

impl<'a> NextHandler<'a> {
    #[inline]
    pub(super) fn new(ctx: &Ctx<'a>) -> Self {
        Self { ctx: *ctx, has_fired: false }
    }

    /// Fires the end of a round of reads, if something was emitted.
    pub(super) fn end_round(self) {
        if self.has_fired {
            self.ctx.fire_read_complete();
        }
    }
}

impl<T: Message> Emit<T> for NextHandler<'_> {
    #[inline]
    fn emit(&mut self, msg: T) -> HandlerResult {
        self.has_fired = true;
        self.ctx.fire_read(msg);
        Ok(())
    }

    #[inline]
    fn ctx(&self) -> Ctx<'_> {
        self.ctx
    }
}

/// Wraps a chain of stages as one [`Handler`]. Messages of other types than the first stage's input are
/// forwarded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inbound<S>(pub S);

impl<S: Stage<In: Message, Out: Message>> Handler for Inbound<S> {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::INACTIVE | Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        let emits_nothing = TypeId::of::<S::Out>() == TypeId::of::<Infallible>();
        let emits = if emits_nothing { Types::NONE } else { Types::of::<S::Out>() };
        Signature::of_inbound(TypeTag::list::<S::In>(), emits, self.0.answers())
    }

    #[inline]
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.take() {
            Ok(msg) => self.0.on(msg, &mut NextHandler::new(ctx)),
            Err(other) => {
                ctx.fire_read(other);
                Ok(())
            }
        }
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0.on_read_complete(ctx);
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.emit_at_end(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.get() == Some(&HalfClosed::Input) {
            self.emit_at_end(ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.0.on_removed(ctx);
    }
}

impl<S: Stage<In: Message, Out: Message>> Inbound<S> {
    /// Lets the stages emit the messages that the end of the input completes, before the event is forwarded.
    fn emit_at_end(&mut self, ctx: &Ctx<'_>) {
        let mut out = NextHandler::new(ctx);
        if let Err(error) = self.0.on_end(&mut out) {
            ctx.fire_error(error);
        }
        out.end_round();
    }
}
