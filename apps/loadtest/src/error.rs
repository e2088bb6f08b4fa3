//! Why a scenario could not be carried out.

use std::time::Duration;

use waterwheel::executor::Error;
use waterwheel::websocket::ConnectError;

/// The error of a scenario. What a gateway loses is a result, and no error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// A URL is not usable.
    #[error("{url:?} is not the URL of a gateway: {reason}; expected ws://HOST:PORT/ws")]
    Url {
        /// The URL.
        url: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// The process may not have so many descriptors.
    #[error(
        "{connections} connections need {needed} file descriptors, and the hard limit of this process is {hard}: raise it \
         (ulimit -Hn), or open fewer connections from each of several processes"
    )]
    Descriptors {
        /// The connections of the scenario.
        connections: usize,
        /// The descriptors they need.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// The limit of descriptors cannot be raised.
    #[error("the limit of file descriptors cannot be raised to {0}: {1}")]
    RaiseDescriptors(u64, #[source] std::io::Error),
    /// The figures of a process cannot be read.
    #[error("the process {pid} cannot be observed: {reason}")]
    Process {
        /// The id of the process.
        pid: u32,
        /// The reason: a file, or a field of it.
        reason: String,
    },
    /// A connection was not opened.
    #[error("client {client} cannot connect to {url}: {cause}")]
    Connect {
        /// The number of the client.
        client: usize,
        /// The URL.
        url: String,
        /// The reason.
        #[source]
        cause: ConnectError,
    },
    /// A connection was opened, and the subscription not answered in time.
    #[error("client {client} got no answer to its subscription within {limit:?}")]
    NoAnswer {
        /// The number of the client.
        client: usize,
        /// The limit.
        limit: Duration,
    },
    /// A subscription was refused, or its connection ended before the answer.
    #[error("client {client} could not subscribe: {cause}")]
    Subscribe {
        /// The number of the client.
        client: usize,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// The options of connections are invalid, or an event loop cannot be used.
    #[error(transparent)]
    Loop(#[from] Error),
    /// The scenario took too long.
    #[error("the scenario did not end within {0:?}: see --limit")]
    TooLong(Duration),
    /// A file cannot be read or written.
    #[error("{path}: {cause}")]
    File {
        /// The path.
        path: String,
        /// The reason.
        #[source]
        cause: std::io::Error,
    },
}
