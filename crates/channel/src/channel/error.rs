//! What can go wrong with an operation on a channel.

use std::time::Duration;

use waterwheel_executor::Error;

use crate::address::Address;

/// Why an operation on a channel failed. Futures and completions carry it in an [`Error`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The channel is closed.
    #[error("the channel is closed{}", because(.cause.as_ref()))]
    Closed {
        /// What closed it, unless it was asked for.
        #[source]
        cause: Option<Error>,
    },
    /// The channel is not connected yet.
    #[error("the channel is not connected yet")]
    NotConnected,
    /// The channel is connecting already.
    #[error("the channel is connecting already")]
    Connecting,
    /// An ancillary message without bytes was written to a stream: nothing would take what is passed along.
    #[error(
        "an ancillary message on a stream needs at least one byte for what is passed to travel with"
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
        /// What it accepts.
        accepts: String,
    },
    /// The transport cannot do this.
    #[error("the transport `{transport}` cannot {operation}")]
    Unsupported {
        /// The transport.
        transport: &'static str,
        /// What was asked of it.
        operation: &'static str,
    },
    /// The transport has no such option.
    #[error("the transport `{transport}` has no option {option}")]
    UnsupportedOption {
        /// The transport.
        transport: &'static str,
        /// The option.
        option: &'static str,
    },
    /// Nothing more can be written: this direction was shut down.
    #[error("the output of the channel was shut down")]
    OutputShutDown,
    /// It took too long to connect.
    #[error("no connection to {address} after {after:?}")]
    ConnectTimeout {
        /// Whom it was to be connected to.
        address: Address,
        /// How long was waited.
        after: Duration,
    },
    /// It could not be connected.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// Whom it was to be connected to.
        address: Address,
        /// Why not.
        #[source]
        cause: Error,
    },
    /// It could not be connected to any of several addresses.
    #[error("cannot connect: {}", all(.failures))]
    ConnectAll {
        /// What became of each of them.
        failures: Vec<Error>,
    },
    /// More is waiting to be written than may.
    #[error("{pending} bytes wait to be written, and {limit} may: {size} more are refused")]
    BufferFull {
        /// How many bytes wait.
        pending: usize,
        /// How many may.
        limit: usize,
        /// How many the message has.
        size: usize,
    },
    /// A handler kept the operation to itself.
    #[error("the handler `{handler}` neither passed the operation on nor completed it")]
    NotPassedOn {
        /// The handler.
        handler: String,
    },
    /// A handler keeps causing events for itself.
    #[error(
        "the handler `{handler}` does not come to an end: {events} events in a row were caused by its own calls \
         of the channel; use `ctx` to pass an operation on"
    )]
    EndlessBacklog {
        /// The handler.
        handler: String,
        /// How many events it has caused for itself.
        events: usize,
    },
    /// A handler dropped the completion of an operation.
    #[error("the completion was dropped without being told anything")]
    CompletionDropped,
    /// The executor that an offloaded handler runs on does not run it any more.
    #[error("the executor of the offloaded handler `{handler}` is gone: {cause}")]
    ExecutorGone {
        /// The handler.
        handler: String,
        /// Why.
        cause: Error,
    },
    /// The handler or the channel of a kept context is gone.
    #[error("the handler has been removed, or its channel is closed")]
    Gone,
}

fn because(cause: Option<&Error>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

fn all(failures: &[Error]) -> String {
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
