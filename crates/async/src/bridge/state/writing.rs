//! The output of a bridge: writes that wait for room, and their results.

use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{ChannelError, Completion, Ctx, Msg};
use waterwheel_executor::Error;

use super::BridgeState;

impl<In: 'static> BridgeState<In> {
    // Called by the handler.

    pub(in crate::bridge) fn wake_writer(&self) {
        self.writer.wake();
    }

    // Called by the handles.

    /// Waits until the channel is writable.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_with_room(context, |_| ())
    }

    /// Waits until the channel is writable, then calls `f`, which may write. Flushes what fills the channel: nobody else
    /// may.
    pub(crate) fn poll_with_room<R>(
        &self,
        context: &mut Context<'_>,
        f: impl FnOnce(&Ctx<'_>) -> R,
    ) -> Poll<Result<R, Error>> {
        let Some(ctx) = self.ctx.get() else {
            self.writer.wait(context.waker());
            return Poll::Pending;
        };
        let called = ctx.run_now(|ctx| {
            let has_room = ctx.is_writable() || {
                ctx.flush();
                ctx.is_writable()
            };
            if has_room { Ok(f(ctx)) } else { Err(ctx.held_write_error(0)) }
        });
        match called {
            Ok(Some(Ok(result))) => Poll::Ready(Ok(result)),
            Ok(Some(Err(None))) => {
                self.writer.wait(context.waker());
                Poll::Pending
            }
            Ok(Some(Err(Some(error)))) => Poll::Ready(Err(error.into())),
            // The channel cannot be called just now.
            Ok(None) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(_) => Poll::Ready(Err(self.write_refusal())),
        }
    }

    /// Returns the error of a write to a channel that is closed.
    fn write_refusal(&self) -> Error {
        // The completion of the refused write itself says only that it was dropped.
        let is_telling =
            |error: &Error| !matches!(error.find(), Some(ChannelError::CompletionDropped));
        let earlier = self.write_error.take().filter(is_telling);
        let closed = || ChannelError::Closed { cause: self.channel.close_cause() }.into();
        earlier.unwrap_or_else(closed)
    }

    /// Writes a message.
    ///
    /// # Errors
    /// The write has failed at once: the channel is closed, or a handler has refused the message.
    pub(crate) fn write(self: &Rc<Self>, msg: impl Into<Msg>, flush: bool) -> Result<(), Error> {
        let Some(ctx) = self.ctx.get() else { return Err(Error::new(ChannelError::NotConnected)) };
        self.unfinished_writes.set(self.unfinished_writes.get() + 1);
        let state = self.clone();
        let done = Completion::local(move |result| state.on_written(result));
        let msg = msg.into();
        let write = move |ctx: &Ctx<'_>| {
            ctx.write_with(msg, done);
            if flush {
                ctx.flush();
            }
        };
        ctx.run(write).map_err(|_| self.write_refusal())?;
        self.write_error.borrow_mut().take().map_or(Ok(()), Err)
    }

    fn on_written(&self, result: Result<(), Error>) {
        self.unfinished_writes.set(self.unfinished_writes.get() - 1);
        let failed = result.is_err();
        if let Err(error) = result {
            self.write_error.borrow_mut().get_or_insert(error);
        }
        if failed || self.unfinished_writes.get() == 0 {
            self.writer.wake();
        }
    }

    /// Flushes, and waits until every message was handed to the transport.
    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = self.write_error.borrow_mut().take() {
            return Poll::Ready(Err(error));
        }
        if self.unfinished_writes.get() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.flush();
        if self.unfinished_writes.get() == 0 {
            let error = self.write_error.borrow_mut().take();
            return Poll::Ready(error.map_or(Ok(()), Err));
        }
        self.writer.wait(context.waker());
        Poll::Pending
    }

    pub(crate) fn flush(&self) {
        if let Some(ctx) = self.ctx.get() {
            // The writes of a channel that is gone have failed.
            let _ = ctx.run(|ctx| ctx.flush());
        }
    }

    /// True if every message was handed to the transport, and no failure is untold.
    pub(crate) fn has_written_all(&self) -> bool {
        self.unfinished_writes.get() == 0 && self.write_error.borrow().is_none()
    }

    /// True if every written byte was handed to the transport. A channel that is closed may have lost some.
    pub(crate) fn is_flushed(&self) -> bool {
        self.channel.is_open() && self.has_written_all() && self.channel.pending_bytes() == 0
    }

    /// Sends what was written, without waiting for the end of the present call into the channel. Returns true if every
    /// byte was handed to the transport. A failure is told by the next write.
    pub(crate) fn send_now(&self) -> bool {
        let sent = self.ctx.get().map(|ctx| ctx.run_now(|ctx| ctx.flush_now()));
        matches!(sent, Some(Ok(Some(())))) && self.is_flushed()
    }

    /// Flushes and shuts down the output; `poll_flush` waits for it.
    pub(crate) fn shutdown_output(self: &Rc<Self>) {
        self.unfinished_writes.set(self.unfinished_writes.get() + 1);
        let state = self.clone();
        let done = Completion::local(move |result| state.on_written(result));
        let shut_down = move |ctx: &Ctx<'_>| {
            ctx.flush();
            ctx.shutdown_output_with(done);
        };
        let is_requested = self.ctx.get().is_some_and(|ctx| ctx.run(shut_down).is_ok());
        if !is_requested {
            let refusal = self.write_refusal();
            self.write_error.replace(Some(refusal));
        }
    }
}
