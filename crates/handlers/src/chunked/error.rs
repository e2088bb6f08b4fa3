//! Errors of chunked writes.

use std::time::Duration;

use waterwheel_executor::Error;

/// The reason why a chunked write, or a message queued behind one, was not written.
///
/// A write that fails because the channel is closed has the channel's own error,
/// [`ChannelError::Closed`](waterwheel_channel::ChannelError::Closed) with the cause.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkedWriteError {
    /// The source of the chunks failed.
    #[error("the source of a chunked write failed after {chunks} chunks: {cause}")]
    Source {
        /// The number of chunks that were passed on before.
        chunks: u64,
        /// The error of the source.
        #[source]
        cause: Error,
    },
    /// The channel was closed, or its output shut down, before the message was flushed.
    #[error(
        "not written: the message was not flushed when the close or the shutdown of the output was requested"
    )]
    NotFlushed,
    /// A close waited for chunked writes, and none of their bytes were written for too long.
    #[error("not written: nothing was written for {limit:?} while the channel was closing")]
    Stalled {
        /// The longest time without a written chunk: see
        /// [`close_stall_limit`](super::ChunkedWriterBuilder::close_stall_limit).
        limit: Duration,
    },
    /// The handler was removed before the source of the chunks had ended.
    #[error(
        "the handler was removed from the pipeline before the source of the chunked write had ended"
    )]
    Removed,
}

impl From<ChunkedWriteError> for Error {
    fn from(error: ChunkedWriteError) -> Self {
        Error::new(error)
    }
}

/// Why a chunk size, or an option of a [`ChunkedWriter`](super::ChunkedWriter), is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{option}` is zero; a chunked write needs at least 1")]
pub struct InvalidChunkOption {
    /// The name of the option.
    pub option: &'static str,
}

impl From<InvalidChunkOption> for Error {
    fn from(error: InvalidChunkOption) -> Self {
        Error::new(error)
    }
}
