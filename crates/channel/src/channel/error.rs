//! Errors of operations on a channel.

use std::time::Duration;

use waterwheel_executor::Error;

use crate::address::Address;

/// The reason why an operation on a channel failed. Futures and completions carry it in an [`Error`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The channel is closed.
    #[error("the channel is closed{}", cause_suffix(.cause.as_ref()))]
    Closed {
        /// The cause of the close; `None` if the close was requested.
        #[source]
        cause: Option<Error>,
    },
    /// The channel is not connected yet.
    #[error("the channel is not connected yet")]
    NotConnected,
    /// The channel is connecting already.
    #[error("the channel is connecting already")]
    Connecting,
    /// An ancillary message without bytes was written to a stream: descriptors and credentials need at least one byte.
    #[error(
        "an ancillary message without bytes on a stream: file descriptors and credentials need at least one byte"
    )]
    EmptyAncillaryMessage,
    /// The channel is connected, or bound, already.
    #[error("the channel is active already")]
    AlreadyActive,
    /// The channel is registered with its loop already.
    #[error("the channel is registered with its loop already")]
    AlreadyRegistered,
    /// The channel is not registered with its loop.
    #[error("the channel is not registered with its loop")]
    NotRegistered,
    /// The transport cannot write messages of this type.
    #[error(
        "a message of type {message} cannot be written: the transport `{transport}` accepts {accepts}"
    )]
    UnsupportedMessage {
        /// The message's type.
        message: &'static str,
        /// The transport.
        transport: &'static str,
        /// The types that the transport accepts.
        accepts: String,
    },
    /// The transport does not support the operation.
    #[error("the transport `{transport}` cannot {operation}")]
    Unsupported {
        /// The transport.
        transport: &'static str,
        /// The operation, as in "cannot be bound".
        operation: &'static str,
    },
    /// The transport does not support the option.
    #[error("the transport `{transport}` does not support the option {option}")]
    UnsupportedOption {
        /// The transport.
        transport: &'static str,
        /// The option.
        option: &'static str,
    },
    /// The output of the channel was shut down: nothing more can be written.
    #[error("the output of the channel was shut down")]
    OutputShutDown,
    /// An attempt to connect took too long.
    #[error("connect to {address} timed out after {after:?}")]
    ConnectTimeout {
        /// The remote address.
        address: Address,
        /// How long the attempt has lasted.
        after: Duration,
    },
    /// An attempt to connect failed.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// The remote address.
        address: Address,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// All addresses of the target failed.
    #[error("cannot connect: {}", join_failures(.failures))]
    ConnectAll {
        /// The failure of each address.
        failures: Vec<Error>,
    },
    /// The write would exceed the hard cap on pending bytes.
    #[error("write of {size} bytes refused: {pending} bytes are pending, the hard cap is {limit}")]
    BufferFull {
        /// The bytes that are pending.
        pending: usize,
        /// The hard cap.
        limit: usize,
        /// The size of the refused message.
        size: usize,
    },
    /// A handler neither passed the operation on nor completed it.
    #[error("the handler `{handler}` neither passed the operation on nor completed it")]
    NotPassedOn {
        /// The handler.
        handler: String,
    },
    /// A handler keeps causing events for itself.
    #[error(
        "the handler `{handler}` does not terminate: its own calls of the channel have caused {events} events in a \
         row; use `ctx` to pass an operation on"
    )]
    EndlessBacklog {
        /// The handler.
        handler: String,
        /// The number of events in a row that the handler has caused for itself.
        events: usize,
    },
    /// A handler dropped the completion of an operation without completing it.
    #[error("the completion of the operation was dropped without a result")]
    CompletionDropped,
    /// The executor that an offloaded handler runs on has ended.
    #[error("the executor of the offloaded handler `{handler}` has ended: {cause}")]
    ExecutorGone {
        /// The handler.
        handler: String,
        /// The reason.
        cause: Error,
    },
    /// The handler was removed, or its channel is closed.
    #[error("the handler has been removed, or its channel is closed")]
    Gone,
}

fn cause_suffix(cause: Option<&Error>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

fn join_failures(failures: &[Error]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<ChannelError> for Error {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Closed { .. } => Error::closed(error),
            other => Error::new(other),
        }
    }
}
