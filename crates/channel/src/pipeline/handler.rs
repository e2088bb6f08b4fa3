//! The `Handler` trait, which a user implements to process the events of a channel.

use std::any::Any;

use bytes::Bytes;
use waterwheel_executor::Error;

use super::completion::Completion;
use super::context::Ctx;
use super::event_set::Events;
use super::message::{Message, Msg};
use super::typed::signature::Signature;
use crate::address::{Address, ConnectTarget};

/// Processes the events of a channel: one handler of its pipeline.
///
/// A handler lives on its channel's event loop and is called on that thread only, so it need not be
/// `Send`. Every method forwards its event to the next handler by default; a handler overrides the
/// methods it is interested in.
///
/// - Inbound methods, named `on_…`, report what happened. Their events travel from the transport
///   inward, to the tail of the pipeline.
/// - Outbound methods, named by a plain verb (`write`, `close`, …), request an operation. Their events
///   travel outward, to the transport.
///
/// While one of its methods runs, the handler is taken out of its slot and nothing of the pipeline is
/// borrowed: the method may write, close, fire events and edit the pipeline. Events that reach the
/// handler meanwhile are queued and delivered when the method returns (rule 2 of `docs/PIPELINE.md`).
///
/// An error returned by an inbound method, by `read`, `flush` or `on_timer`, is passed to the same
/// handler's [`on_error`](Self::on_error). An error returned by an operation that has a completion
/// fails that completion; if the completion ignores the result, the error is reported.
///
/// ```
/// use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg};
///
/// struct Echo;
///
/// impl Handler for Echo {
///     fn interest(&self) -> Events {
///         Events::READ | Events::READ_COMPLETE
///     }
///
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         ctx.write(msg);
///         Ok(())
///     }
///
///     fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         ctx.flush();
///         Ok(())
///     }
/// }
/// ```
#[allow(
    unused_variables,
    reason = "overriding methods need the parameters that the defaults ignore"
)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a type that implements one of the other handler traits is added in a wrapper: \
            `In(inbound_handler)`, `Out(outbound_handler)`, `Decode::new(decoder)`, \
            `Encode::new(encoder)`, `Inbound(stage)`, `Offloaded::new(&group, || remote_handler)`"
)]
pub trait Handler: Any {
    /// Returns the events this handler is called for; all others skip it. Called once, when the handler
    /// is added.
    fn interest(&self) -> Events {
        Events::ALL
    }

    /// Returns the types of the messages this handler accepts and emits, for the check that neighbours
    /// fit. Called once, when the handler is added.
    fn signature(&self) -> Signature {
        Signature::any()
    }

    /// Called when the handler was added to the pipeline, before its first event.
    ///
    /// # Errors
    /// The handler cannot work in this pipeline. It is removed again, and the caller that added it
    /// receives the error.
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Ok(())
    }

    /// Called when the handler was removed from the pipeline. This is the last call; a handler that
    /// panicked is dropped without it.
    fn on_removed(&mut self, ctx: &Ctx<'_>) {}

    /// Called when the channel was registered with its event loop.
    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_registered();
        Ok(())
    }

    /// Called when the channel was deregistered from its event loop, or was closed while it was registered.
    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_unregistered();
        Ok(())
    }

    /// Called when the channel became active: connected, or bound.
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_active();
        Ok(())
    }

    /// Called when the channel became inactive: nothing can be written any more.
    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_inactive();
        Ok(())
    }

    /// Called with a message that was read.
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.fire_read(msg);
        Ok(())
    }

    /// Called at the end of a round of reads (at most
    /// [`reads_per_round`](crate::ChannelOptions::reads_per_round)); more may be readable. The usual place to
    /// flush.
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_read_complete();
        Ok(())
    }

    /// Called with a user event: a message fired by [`Ctx::fire_user_event`], or an event of the channel
    /// such as [`HalfClosed`](crate::HalfClosed).
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        Ok(())
    }

    /// Called when the channel became writable or stopped being writable; [`Ctx::is_writable`] returns the
    /// present state. Also called if the channel was unwritable only for a moment and is writable again, so
    /// that code that saw it unwritable can continue.
    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_writability_changed();
        Ok(())
    }

    /// Called with an error of one of this handler's own methods, or with an error that no handler before it
    /// has handled. An error returned from this method is reported and not passed on.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        Ok(())
    }

    /// Called when a timer set by [`Ctx::schedule`] is due, with the tag given there.
    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        Ok(())
    }

    /// Called when a bind to an address is requested. The default passes the request on.
    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        ctx.bind_with(to, done.take());
        Ok(())
    }

    /// Called when a connect is requested. The default passes the request on.
    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        ctx.connect_with(to, done.take());
        Ok(())
    }

    /// Called when a disconnect is requested. The default passes the request on. A disconnect closes the
    /// channel, whatever its transport is.
    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.disconnect_with(done.take());
        Ok(())
    }

    /// Called when a close is requested. The default passes the request on.
    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.close_with(done.take());
        Ok(())
    }

    /// Called on a request to deregister the channel from its event loop. The default passes the
    /// request on.
    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.deregister_with(done.take());
        Ok(())
    }

    /// Called on a request to shut down the output after everything flushed was written. The
    /// default passes the request on. A handler whose protocol ends with a message writes it here.
    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    /// Called when a round of reads is requested. The default passes the request on.
    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.read();
        Ok(())
    }

    /// Called with a message to write. The default passes it on.
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }

    /// Returns the bytes that this handler would write for a message that several channels share
    /// ([`ChannelGroup::send`](crate::ChannelGroup::send)). `None`, as by default, if it has none that can be shared: then a
    /// clone of the message is written. Called in place of [`write`](Self::write), if this is the only handler that is
    /// interested in writes, and none is interested in flushes. The bytes are written in place of the message, and flushed:
    /// a handler that holds others which go before them returns `None`.
    fn encode_shared(&mut self, ctx: &Ctx<'_>, msg: &dyn Message) -> Option<Bytes> {
        None
    }

    /// Called when a flush is requested: everything written before must be sent. The default passes the
    /// request on.
    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// The result of a handler's method. One machine word.
pub type HandlerResult = Result<(), Error>;
