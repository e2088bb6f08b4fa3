//! Requests that end the output, held until everything flushed was sent.

use waterwheel_channel::{ChannelError, Completion, Ctx};
use waterwheel_executor::Error;

/// A request that waits for held messages.
pub(super) enum EndRequest {
    Close(Completion),
    Disconnect(Completion),
    ShutdownOutput(Completion),
}

impl EndRequest {
    /// Marks the request as begun: it can no longer be cancelled, because writes are refused from now on. Returns false
    /// if it was cancelled before.
    pub(super) fn begin(&mut self) -> bool {
        match self {
            EndRequest::Close(done)
            | EndRequest::Disconnect(done)
            | EndRequest::ShutdownOutput(done) => done.begin(),
        }
    }

    pub(super) fn pass_on(self, ctx: &Ctx<'_>) {
        match self {
            EndRequest::Close(done) => ctx.close_with(done),
            EndRequest::Disconnect(done) => ctx.disconnect_with(done),
            EndRequest::ShutdownOutput(done) => ctx.shutdown_output_with(done),
        }
    }

    /// Completes the request because a panic closes the channel.
    pub(super) fn complete_after_panic(self) {
        match self {
            EndRequest::Close(done) | EndRequest::Disconnect(done) => done.succeed(),
            EndRequest::ShutdownOutput(done) => {
                done.fail(ChannelError::Closed { cause: None }.into());
            }
        }
    }

    /// True if the channel will be closed.
    pub(super) fn is_close(&self) -> bool {
        !matches!(self, EndRequest::ShutdownOutput(_))
    }

    /// Returns the error of a write that comes after the request: the one that the channel itself would return.
    pub(super) fn write_error(&self) -> Error {
        match self {
            EndRequest::ShutdownOutput(_) => ChannelError::OutputShutDown.into(),
            _ => ChannelError::Closed { cause: None }.into(),
        }
    }
}
