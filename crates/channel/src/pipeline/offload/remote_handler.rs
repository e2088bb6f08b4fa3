//! The `RemoteHandler` trait, which a user implements for a handler on another executor.

use waterwheel_executor::Error;

use super::remote_completion::RemoteCompletion;
use super::remote_context::RemoteCtx;
use crate::address::{Address, ConnectTarget};
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::message::Msg;

/// A handler that runs on another executor than its channel's loop, where it may block or compute for
/// long. Wrap it in [`Offloaded`](super::Offloaded) to add it to a pipeline.
///
/// A remote handler is built, called and dropped on its executor only, as long as that executor runs.
/// In other respects it is like a [`Handler`](crate::Handler): every method forwards its event by
/// default; an error returned by an `on_…` method is passed to its own [`on_error`](Self::on_error),
/// and one returned by an operation fails that operation's completion. Its emissions continue from its
/// slot in the pipeline, on the loop, a little later and in order.
///
/// ```
/// use waterwheel_channel::{HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
/// use waterwheel_executor::EventExecutorGroup;
///
/// struct Digest;
///
/// impl RemoteHandler for Digest {
///     fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
///         // A long computation: the loop serves other channels meanwhile.
///         ctx.write_and_flush(msg);
///         Ok(())
///     }
/// }
///
/// let workers = EventExecutorGroup::builder().threads(2).build()?;
/// let digest = Offloaded::new(&workers, || Digest);
/// # drop(digest);
/// # Ok::<(), waterwheel_executor::BuildError>(())
/// ```
#[allow(
    unused_variables,
    reason = "overriding methods need the parameters that the defaults ignore"
)]
pub trait RemoteHandler: Send + 'static {
    /// Called when the handler was added to the pipeline, before its first event.
    ///
    /// # Errors
    /// The handler cannot work in this pipeline. The error is fired to the handlers after it, the handler is
    /// removed, and the channel is closed. The call that added the handler has already returned success.
    fn on_added(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        Ok(())
    }

    /// Called when the handler was removed from the pipeline and has received everything that was queued
    /// for it. This is the last call; a handler that panicked is dropped without it.
    fn on_removed(&mut self, ctx: &RemoteCtx) {}

    /// Called when the channel was registered with its event loop.
    fn on_registered(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_registered();
        Ok(())
    }

    /// Called when the channel was deregistered from its event loop, or was closed while it was registered.
    fn on_unregistered(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_unregistered();
        Ok(())
    }

    /// Called when the channel became active: connected, or bound.
    fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_active();
        Ok(())
    }

    /// Called when the channel became inactive: nothing can be written any more.
    fn on_inactive(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_inactive();
        Ok(())
    }

    /// Called with a message that was read.
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        ctx.fire_read(msg);
        Ok(())
    }

    /// Called at the end of a round of reads: see [`Handler::on_read_complete`](crate::Handler::on_read_complete).
    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_read_complete();
        Ok(())
    }

    /// Called with a user event: a message fired by `fire_user_event`, or an event of the channel such
    /// as [`HalfClosed`](crate::HalfClosed).
    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        Ok(())
    }

    /// Called when the channel became writable or stopped being writable; [`RemoteCtx::is_writable`]
    /// returns the present state. Also called if the channel was unwritable only for a moment and is
    /// writable again.
    fn on_writability_changed(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_writability_changed();
        Ok(())
    }

    /// Called with an error of one of this handler's own methods, or with an error that no handler before it
    /// has handled. An error returned from this method is reported and not passed on.
    fn on_error(&mut self, ctx: &RemoteCtx, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        Ok(())
    }

    /// Called when a bind to an address is requested. The default passes the request on.
    fn bind(&mut self, ctx: &RemoteCtx, to: Address, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.bind_with(to, done.take());
        Ok(())
    }

    /// Called when a connect is requested. The default passes the request on.
    fn connect(
        &mut self,
        ctx: &RemoteCtx,
        to: ConnectTarget,
        done: &mut RemoteCompletion,
    ) -> HandlerResult {
        ctx.connect_with(to, done.take());
        Ok(())
    }

    /// Called when a disconnect is requested. The default passes the request on. A disconnect closes the
    /// channel, whatever its transport is.
    fn disconnect(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.disconnect_with(done.take());
        Ok(())
    }

    /// Called when a close is requested. The default passes the request on.
    fn close(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.close_with(done.take());
        Ok(())
    }

    /// Called on a request to deregister the channel from its event loop. The default passes the
    /// request on.
    fn deregister(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.deregister_with(done.take());
        Ok(())
    }

    /// Called on a request to shut down the output after everything flushed was written. The
    /// default passes the request on. A handler whose protocol ends with a message writes it here.
    fn shutdown_output(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    /// Called when a round of reads is requested. The default passes the request on.
    fn read(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.read();
        Ok(())
    }

    /// Called with a message to write. The default passes it on.
    fn write(&mut self, ctx: &RemoteCtx, msg: Msg, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }

    /// Called when a flush is requested: everything written before must be sent. The default passes the
    /// request on.
    fn flush(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}
