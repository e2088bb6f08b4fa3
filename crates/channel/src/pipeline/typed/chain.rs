//! Several steps in one slot, put together by the compiler.
//!
//! ```text
//!   slot "in":  Bytes ──► Decode<Lines> ──Line──► Parse ──Request──► App ──► ctx.write(answer)
//!                         └──────── one Inbound(…), plain calls, no boxes ────────┘
//! ```
//!
//! Between slots a message is a [`Msg`]: in a box, unless it is bytes. Between stages it is what it is.
//! Stages that do not fit do not compile. A chain is one handler to its pipeline: it is removed as a
//! whole, and runs as a whole.

use std::any::TypeId;
use std::convert::Infallible;

use super::signature::{Signature, TypeTag, Types};
use crate::channel::lifecycle::half_closure::HalfClosed;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::{Message, Msg};

/// One step of a chain. [`Inbound`] puts a chain into a pipeline.
///
/// The messages between two stages need not be [`Message`]s, only what goes in at the front and what
/// comes out at the end.
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
/// /// The last one answers, and emits nothing.
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
#[allow(unused_variables, reason = "the defaults do without what an overriding method needs")]
pub trait Stage: 'static {
    /// What it takes.
    type In: 'static;
    /// What it gives; [`Infallible`] if nothing.
    type Out: 'static;

    /// A message came in; whatever becomes of it is [emitted](Emit::emit).
    ///
    /// # Errors
    /// What a later stage says, passed on with `?`, or its own. It goes inward, to the `on_error` of
    /// the handlers behind the chain; of a chain that begins with a decoder, the next message follows.
    fn on<O: Emit<Self::Out>>(&mut self, msg: Self::In, out: &mut O) -> HandlerResult;

    /// Nothing more comes in: the peer has finished ([`HalfClosed::Input`]), or the channel has become inactive.
    /// Called for each of the two; what was given at the first is not there any more at the second.
    ///
    /// # Errors
    /// As of [`on`](Self::on).
    fn on_end<O: Emit<Self::Out>>(&mut self, out: &mut O) -> HandlerResult {
        Ok(())
    }

    /// That was all that could be read for now.
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) {}

    /// The chain has left the pipeline.
    fn on_removed(&mut self, ctx: &Ctx<'_>) {}

    /// What it writes. Only the last stage of a chain is asked.
    fn answers(&self) -> Types {
        Types::Unknown
    }

    /// This one, then that.
    fn then<B: Stage<In = Self::Out>>(self, next: B) -> Then<Self, B>
    where
        Self: Sized,
    {
        Then(self, next)
    }
}

/// Where a stage gives what it makes: to the next stage or, after the last one, to the next handler.
pub trait Emit<T> {
    /// Passes a message on.
    ///
    /// # Errors
    /// What a later stage says.
    fn emit(&mut self, msg: T) -> HandlerResult;

    /// The place of the chain in its pipeline: to write an answer, to close, to look around.
    fn ctx(&self) -> Ctx<'_>;
}

/// Two stages, one after the other: see [`Stage::then`].
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
        // What the later one holds came before what the earlier one holds.
        self.1.on_removed(ctx);
        self.0.on_removed(ctx);
    }

    fn answers(&self) -> Types {
        self.1.answers()
    }
}

/// Emits into the next stage.
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
    /// Something was emitted.
    has_fired: bool,
}

impl<'a> NextHandler<'a> {
    #[inline]
    pub(super) fn new(ctx: &Ctx<'a>) -> Self {
        Self { ctx: *ctx, has_fired: false }
    }

    /// Ends the round of what the end of the stream has completed, if that was anything.
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

/// Puts a chain into a pipeline, as one handler. Messages of other types than the first stage's pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inbound<S>(pub S);

impl<S: Stage<In: Message, Out: Message>> Handler for Inbound<S> {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE | Events::INACTIVE | Events::USER_EVENT
    }

    fn signature(&self) -> Signature {
        let nothing = TypeId::of::<S::Out>() == TypeId::of::<Infallible>();
        let emits = if nothing { Types::NONE } else { Types::of::<S::Out>() };
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
    /// Gives what the end of the stream completes, before that is passed on.
    fn emit_at_end(&mut self, ctx: &Ctx<'_>) {
        let mut out = NextHandler::new(ctx);
        if let Err(error) = self.0.on_end(&mut out) {
            ctx.fire_error(error);
        }
        out.end_round();
    }
}
