//! Requests that end the encrypted output, held until everything flushed was encrypted.

use waterwheel_channel::{ChannelError, Completion, Ctx};
use waterwheel_executor::Error;

/// The closes that wait until close_notify is written, and perhaps answered.
#[derive(Default)]
pub(super) struct WaitingCloses {
    pub(super) requests: Vec<OutputEnd>,
    /// True from a close_notify, by a close or by the end of the output.
    pub(super) is_sent: bool,
    pub(super) is_written: bool,
    pub(super) awaits_peer: bool,
}

impl WaitingCloses {
    /// True if a close waits.
    pub(super) fn is_begun(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Takes the requests if they need not wait any longer.
    pub(super) fn take_ready(&mut self) -> Vec<OutputEnd> {
        match self.is_written == self.is_sent && !self.awaits_peer {
            true => std::mem::take(&mut self.requests),
            false => Vec::new(),
        }
    }
}

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

    pub(super) fn is_close(&self) -> bool {
        matches!(self, Self::Close(_) | Self::Disconnect(_))
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
