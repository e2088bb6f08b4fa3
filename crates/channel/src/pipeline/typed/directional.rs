//! Handlers of one direction and one message type.
//!
//! ```text
//!   on_read: a message of type In ──► the handler        any other type ──► the next handler, unchanged
//!   write:   a message of type In ──► the handler        any other type ──► the next handler, unchanged
//! ```
//!
//! The type is part of the [signature](Handler::signature), so a handler whose type no neighbour emits is refused
//! when the pipeline is assembled. The wrappers [`In`] and [`Out`] turn these traits into a [`Handler`] that is called
//! for events of its own direction only.

use waterwheel_executor::Error;

use super::signature::{Signature, TypeTag, Types};
use crate::address::{Address, ConnectTarget};
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::{Handler, HandlerResult};
use crate::pipeline::message::{Message, Msg};

/// An inbound handler for messages of one type. Wrap it in [`In`] to add it to a pipeline. Messages of
/// other types, and events whose methods it does not override, are forwarded.
///
/// ```
/// use waterwheel_channel::{Ctx, HandlerResult, In, InboundHandler, Types};
/// # use waterwheel_channel::Handler;
///
/// /// Answers every number with its double.
/// struct Double;
///
/// impl InboundHandler for Double {
///     type In = u32;
///
///     fn answers(&self) -> Types {
///         Types::of::<u32>()
///     }
///
///     fn on_read(&mut self, ctx: &Ctx<'_>, number: u32) -> HandlerResult {
///         ctx.write_and_flush(2 * number);
///         Ok(())
///     }
/// }
///
/// let handler = In(Double);
/// # let _: &dyn Handler = &handler;
/// ```
#[allow(
    unused_variables,
    reason = "overriding methods need the parameters that the defaults ignore"
)]
pub trait InboundHandler: 'static {
    /// The message type this handler reads.
    type In: Message;

    /// Called with a message of type `In`, which the handler owns. It is forwarded only if the handler fires it.
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Self::In) -> HandlerResult;

    /// Returns the events this handler is called for. Outbound events are ignored, and `READ` is always
    /// included.
    fn interest(&self) -> Events {
        Events::INBOUND
    }

    /// Returns the types of the messages that this handler fires inward in place of the messages it reads;
    /// [`Types::NONE`] if it fires none. Unknown by default.
    fn fires(&self) -> Types {
        Types::Unknown
    }

    /// Returns the types of the messages that this handler writes on its own, for example as answers.
    /// Unknown by default.
    fn answers(&self) -> Types {
        Types::Unknown
    }

    /// See [`Handler::on_added`].
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Ok(())
    }

    /// See [`Handler::on_removed`].
    fn on_removed(&mut self, ctx: &Ctx<'_>) {}

    /// See [`Handler::on_timer`].
    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        Ok(())
    }

    /// See [`Handler::on_registered`].
    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_registered();
        Ok(())
    }

    /// See [`Handler::on_unregistered`].
    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_unregistered();
        Ok(())
    }

    /// See [`Handler::on_active`].
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_active();
        Ok(())
    }

    /// See [`Handler::on_inactive`].
    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_inactive();
        Ok(())
    }

    /// See [`Handler::on_read_complete`].
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_read_complete();
        Ok(())
    }

    /// See [`Handler::on_user_event`].
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        Ok(())
    }

    /// See [`Handler::on_writability_changed`].
    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_writability_changed();
        Ok(())
    }

    /// See [`Handler::on_error`].
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        Ok(())
    }
}

/// An outbound handler for messages of one type. Wrap it in [`Out`] to add it to a pipeline. Messages
/// of other types, and operations whose methods it does not override, are forwarded.
///
/// ```
/// use waterwheel_channel::{Completion, Ctx, HandlerResult, Out, OutboundHandler, Types};
/// # use waterwheel_channel::Handler;
///
/// /// Writes numbers as text.
/// struct Digits;
///
/// impl OutboundHandler for Digits {
///     type In = u32;
///
///     fn emits(&self) -> Types {
///         Types::of::<String>()
///     }
///
///     fn write(&mut self, ctx: &Ctx<'_>, number: u32, done: &mut Completion) -> HandlerResult {
///         ctx.write_with(number.to_string(), done.take());
///         Ok(())
///     }
/// }
///
/// let handler = Out(Digits);
/// # let _: &dyn Handler = &handler;
/// ```
#[allow(
    unused_variables,
    reason = "overriding methods need the parameters that the defaults ignore"
)]
pub trait OutboundHandler: 'static {
    /// The message type this handler accepts for writing.
    type In: Message;

    /// Called with a message of type `In` to write. The handler passes the completion to the write that
    /// replaces the message.
    fn write(&mut self, ctx: &Ctx<'_>, msg: Self::In, done: &mut Completion) -> HandlerResult;

    /// Returns the events this handler is called for. Inbound events are ignored, and `WRITE` is always
    /// included.
    fn interest(&self) -> Events {
        Events::OUTBOUND
    }

    /// Returns the types of the messages that this handler writes in place of the messages it accepts;
    /// [`Types::NONE`] if it writes none. Unknown by default.
    fn emits(&self) -> Types {
        Types::Unknown
    }

    /// See [`Handler::on_added`].
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Ok(())
    }

    /// See [`Handler::on_removed`].
    fn on_removed(&mut self, ctx: &Ctx<'_>) {}

    /// See [`Handler::on_timer`].
    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        Ok(())
    }

    /// Called with an error of this handler's own `flush`, `read` or `on_timer`; it receives no other
    /// errors.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        Ok(())
    }

    /// See [`Handler::bind`].
    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        ctx.bind_with(to, done.take());
        Ok(())
    }

    /// See [`Handler::connect`].
    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        ctx.connect_with(to, done.take());
        Ok(())
    }

    /// See [`Handler::disconnect`].
    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.disconnect_with(done.take());
        Ok(())
    }

    /// See [`Handler::close`].
    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.close_with(done.take());
        Ok(())
    }

    /// See [`Handler::deregister`].
    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.deregister_with(done.take());
        Ok(())
    }

    /// See [`Handler::shutdown_output`].
    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    /// See [`Handler::read`].
    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.read();
        Ok(())
    }

    /// See [`Handler::flush`].
    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// Wraps an [`InboundHandler`] as a [`Handler`].
#[derive(Clone, Copy, Debug, Default)]
pub struct In<H>(pub H);

/// Wraps an [`OutboundHandler`] as a [`Handler`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Out<H>(pub H);

/// Implements methods that call the method of the same name of the wrapped handler.
macro_rules! forward_methods {
    ($inner:ident: $($name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)?;)*) => {
        $(fn $name(&mut self, ctx: &Ctx<'_>, $($arg: $ty),*) $(-> $out)? {
            $inner::$name(&mut self.0, ctx, $($arg),*)
        })*
    };
}

impl<H: InboundHandler> Handler for In<H> {
    fn interest(&self) -> Events {
        self.0.interest().without(Events::OUTBOUND) | Events::READ
    }

    fn signature(&self) -> Signature {
        Signature::of_inbound(TypeTag::list::<H::In>(), self.0.fires(), self.0.answers())
    }

    #[inline]
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        match msg.take() {
            Ok(msg) => self.0.on_read(ctx, msg),
            Err(other) => {
                ctx.fire_read(other);
                Ok(())
            }
        }
    }

    forward_methods! { InboundHandler:
        on_added() -> HandlerResult;
        on_removed();
        on_timer(tag: u32) -> HandlerResult;
        on_registered() -> HandlerResult;
        on_unregistered() -> HandlerResult;
        on_active() -> HandlerResult;
        on_inactive() -> HandlerResult;
        on_read_complete() -> HandlerResult;
        on_user_event(event: Msg) -> HandlerResult;
        on_writability_changed() -> HandlerResult;
        on_error(error: Error) -> HandlerResult;
    }
}

impl<H: OutboundHandler> Handler for Out<H> {
    fn interest(&self) -> Events {
        self.0.interest().without(Events::INBOUND) | Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::of_outbound(TypeTag::list::<H::In>(), self.0.emits())
    }

    #[inline]
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.take() {
            Ok(msg) => self.0.write(ctx, msg, done),
            Err(other) => {
                ctx.write_with(other, done.take());
                Ok(())
            }
        }
    }

    forward_methods! { OutboundHandler:
        on_added() -> HandlerResult;
        on_removed();
        on_timer(tag: u32) -> HandlerResult;
        on_error(error: Error) -> HandlerResult;
        bind(to: Address, done: &mut Completion) -> HandlerResult;
        connect(to: ConnectTarget, done: &mut Completion) -> HandlerResult;
        disconnect(done: &mut Completion) -> HandlerResult;
        close(done: &mut Completion) -> HandlerResult;
        deregister(done: &mut Completion) -> HandlerResult;
        shutdown_output(done: &mut Completion) -> HandlerResult;
        read() -> HandlerResult;
        flush() -> HandlerResult;
    }
}
