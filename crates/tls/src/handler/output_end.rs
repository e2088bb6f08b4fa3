//! Requests that end the encrypted output, held until everything flushed was encrypted.

use waterwheel_channel::{ChannelError, Completion, Ctx};
use waterwheel_executor::Error;

/// A request that waits for held messages.
pub(super) enum OutputEnd {
    Close(Completion),
    Disconnect(Completion),
    ShutdownOutput(Completion),
    /// TLS ends, the connection stays.
    StopTls,
}

impl OutputEnd {
    /// Marks the request as begun: it can no longer be cancelled. Returns false if it was cancelled before.
    pub(super) fn begin(&mut self) -> bool {
        match self {
            Self::Close(done) | Self::Disconnect(done) | Self::ShutdownOutput(done) => done.begin(),
            Self::StopTls => true,
        }
    }

    /// Passes the request on to the channel.
    pub(super) fn pass_on(self, ctx: &Ctx<'_>) {
        match self {
            Self::Close(done) => ctx.close_with(done),
            Self::Disconnect(done) => ctx.disconnect_with(done),
            Self::ShutdownOutput(done) => ctx.shutdown_output_with(done),
            Self::StopTls => {}
        }
    }

    /// Returns the error of a write that comes after the request; `None` if it is not refused.
    pub(super) fn write_error(&self) -> Option<Error> {
        match self {
            Self::Close(_) | Self::Disconnect(_) => {
                Some(ChannelError::Closed { cause: None }.into())
            }
            Self::ShutdownOutput(_) => Some(ChannelError::OutputShutDown.into()),
            Self::StopTls => None,
        }
    }
}
