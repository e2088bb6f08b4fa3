//! What a user writes: a handler.

use std::any::Any;

use waterwheel_executor::Error;

use super::completion::Completion;
use super::context::Ctx;
use super::event_set::Events;
use super::message::Msg;
use super::typed::signature::Signature;
use crate::address::{Address, ConnectTarget};

/// One station of a pipeline. It lives on the channel's loop, is called by nobody else, and need not
/// be `Send`. Every method passes its event on by default, so a handler writes the ones it is about.
///
/// Methods named `on_…` tell what happened, and come from the transport's side; the others ask for
/// something, and are on their way to the transport. While one of them runs the handler is out of its
/// place and nothing is borrowed: it may write, close, fire and edit the pipeline as it likes. What
/// reaches it meanwhile waits until it returns (rule 2 of `docs/PIPELINE.md`).
///
/// An error returned by an `on_…` method goes to the same handler's [`on_error`](Self::on_error); one
/// returned by an operation with a completion, to that completion.
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
#[allow(unused_variables, reason = "the defaults do without what an overriding method needs")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "what implements another trait goes into a pipeline in a wrapper: \
            `In(inbound_handler)`, `Out(outbound_handler)`, `Decode::new(decoder)`, \
            `Encode::new(encoder)`, `Inbound(stage)`, `Offloaded::new(&group, || remote_handler)`"
)]
pub trait Handler: Any {
    /// The events it is called for. Asked once, when it is added.
    fn interest(&self) -> Events {
        Events::ALL
    }

    /// The types of the messages it takes and gives. Asked once, when it is added.
    fn signature(&self) -> Signature {
        Signature::any()
    }

    /// It is in the pipeline now, and events will come.
    ///
    /// # Errors
    /// It cannot work here: it is removed again, and whoever added it gets the error.
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Ok(())
    }

    /// It has left the pipeline; this is the last call. Not after a panic of its own: then it is only
    /// dropped.
    fn on_removed(&mut self, ctx: &Ctx<'_>) {}

    /// The channel was registered with its loop.
    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_registered();
        Ok(())
    }

    /// The channel left its loop.
    fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_unregistered();
        Ok(())
    }

    /// The channel is connected, or bound.
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_active();
        Ok(())
    }

    /// The channel is no longer active: nothing can be written any more.
    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_inactive();
        Ok(())
    }

    /// A message came in.
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.fire_read(msg);
        Ok(())
    }

    /// That was all that could be read for now.
    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_read_complete();
        Ok(())
    }

    /// Somebody fired an event of the user's own.
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        Ok(())
    }

    /// The channel became writable, or stopped being so: [`Ctx::is_writable`] says which.
    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.fire_writability_changed();
        Ok(())
    }

    /// Something failed: one of this handler's own methods, or something before it that nobody has
    /// dealt with. An error returned from here is reported, and goes no further.
    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        Ok(())
    }

    /// A timer set with [`Ctx::schedule`] is due.
    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        Ok(())
    }

    /// The channel is to be bound.
    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        ctx.bind_with(to, done.take());
        Ok(())
    }

    /// The channel is to be connected.
    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        ctx.connect_with(to, done.take());
        Ok(())
    }

    /// The channel is to be disconnected.
    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.disconnect_with(done.take());
        Ok(())
    }

    /// The channel is to be closed.
    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.close_with(done.take());
        Ok(())
    }

    /// The channel is to leave its loop.
    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.deregister_with(done.take());
        Ok(())
    }

    /// The output is to be shut down, after what was flushed. A handler that has something to say at the
    /// end says it here.
    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    /// More is to be read.
    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.read();
        Ok(())
    }

    /// A message is to go out.
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }

    /// What was written is to be sent.
    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// What a handler's methods return: one word.
pub type HandlerResult = Result<(), Error>;
