//! What a user writes: a handler that runs elsewhere.

use waterwheel_executor::Error;

use super::remote_completion::RemoteCompletion;
use super::remote_context::RemoteCtx;
use crate::address::{Address, ConnectTarget};
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::message::Msg;

/// A handler that does not run on its channel's loop but on an executor: it may take its time there. It
/// is put into a pipeline as an [`Offloaded`](super::Offloaded).
///
/// It is built on its executor, called there and nowhere else, and dropped there, so long as that
/// executor runs. Otherwise it is like a [`Handler`](crate::Handler): every method passes its event on
/// by default, an error returned by an `on_…` method goes to its own [`on_error`](Self::on_error), and
/// one returned by an operation to that operation's completion. What it emits goes on from its place in
/// the pipeline, on the loop, a little later and in order.
///
/// ```
/// use waterwheel_channel::{HandlerResult, Msg, Offloaded, RemoteCtx, RemoteHandler};
/// use waterwheel_executor::EventExecutorGroup;
///
/// struct Digest;
///
/// impl RemoteHandler for Digest {
///     fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
///         // Takes long: the loop does other things meanwhile.
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
#[allow(unused_variables, reason = "the defaults do without what an overriding method needs")]
pub trait RemoteHandler: Send + 'static {
    /// It is in the pipeline now, and events will come.
    ///
    /// # Errors
    /// It cannot work here: the error goes inward from its place, it is removed, and the channel is
    /// closed. Whoever added it has long been told that it was.
    fn on_added(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        Ok(())
    }

    /// It has left the pipeline, and has had everything that was on its way to it; this is the last
    /// call. Not after a panic of its own: then it is only dropped.
    fn on_removed(&mut self, ctx: &RemoteCtx) {}

    /// The channel was registered with its loop.
    fn on_registered(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_registered();
        Ok(())
    }

    /// The channel left its loop.
    fn on_unregistered(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_unregistered();
        Ok(())
    }

    /// The channel is connected, or bound.
    fn on_active(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_active();
        Ok(())
    }

    /// The channel is no longer active: nothing can be written any more.
    fn on_inactive(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_inactive();
        Ok(())
    }

    /// A message came in.
    fn on_read(&mut self, ctx: &RemoteCtx, msg: Msg) -> HandlerResult {
        ctx.fire_read(msg);
        Ok(())
    }

    /// That was all that could be read for now.
    fn on_read_complete(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_read_complete();
        Ok(())
    }

    /// Somebody fired an event of the user's own.
    fn on_user_event(&mut self, ctx: &RemoteCtx, event: Msg) -> HandlerResult {
        ctx.fire_user_event(event);
        Ok(())
    }

    /// The channel became writable, or stopped being so: [`RemoteCtx::is_writable`] says which it is
    /// by now.
    fn on_writability_changed(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.fire_writability_changed();
        Ok(())
    }

    /// Something failed: one of this handler's own methods, or something before it that nobody has
    /// dealt with. An error returned from here is reported, and goes no further.
    fn on_error(&mut self, ctx: &RemoteCtx, error: Error) -> HandlerResult {
        ctx.fire_error(error);
        Ok(())
    }

    /// The channel is to be bound.
    fn bind(&mut self, ctx: &RemoteCtx, to: Address, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.bind_with(to, done.take());
        Ok(())
    }

    /// The channel is to be connected.
    fn connect(
        &mut self,
        ctx: &RemoteCtx,
        to: ConnectTarget,
        done: &mut RemoteCompletion,
    ) -> HandlerResult {
        ctx.connect_with(to, done.take());
        Ok(())
    }

    /// The channel is to be disconnected.
    fn disconnect(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.disconnect_with(done.take());
        Ok(())
    }

    /// The channel is to be closed.
    fn close(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.close_with(done.take());
        Ok(())
    }

    /// The channel is to leave its loop.
    fn deregister(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.deregister_with(done.take());
        Ok(())
    }

    /// The output is to be shut down, after what was flushed. A handler that has something to say at the
    /// end says it here.
    fn shutdown_output(&mut self, ctx: &RemoteCtx, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.shutdown_output_with(done.take());
        Ok(())
    }

    /// More is to be read.
    fn read(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.read();
        Ok(())
    }

    /// A message is to go out.
    fn write(&mut self, ctx: &RemoteCtx, msg: Msg, done: &mut RemoteCompletion) -> HandlerResult {
        ctx.write_with(msg, done.take());
        Ok(())
    }

    /// What was written is to be sent.
    fn flush(&mut self, ctx: &RemoteCtx) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}
