//! Errors of protocol detection.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::Quoted;
use waterwheel_executor::Error;

/// Why no pipeline was chosen for a connection. The channel is closed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// No probe matches, and there is no fallback.
    #[error("detection: no protocol matches a connection that begins with {first}")]
    NoMatch {
        /// The first bytes.
        first: Quoted,
    },
    /// The protocol is unknown at the limit of bytes.
    #[error(
        "detection: the protocol is unknown after the limit of {limit} bytes, which begin with {first}"
    )]
    TooLong {
        /// The limit in bytes.
        limit: usize,
        /// The first bytes.
        first: Quoted,
    },
    /// The protocol is unknown at the limit of time.
    #[error("detection: the protocol is unknown after {limit:?} and {length} bytes: {first}")]
    TimedOut {
        /// The limit of time.
        limit: Duration,
        /// How many bytes came.
        length: usize,
        /// The first bytes.
        first: Quoted,
    },
    /// The stream ended before the protocol was known.
    #[error("detection: the stream ended after {length} bytes that match no protocol: {first}")]
    Ended {
        /// How many bytes came.
        length: usize,
        /// The first bytes.
        first: Quoted,
    },
    /// The initialiser of the chosen protocol failed.
    #[error("detection: the initialiser of `{protocol}` failed: {cause}")]
    NotInitialised {
        /// The name of the protocol.
        protocol: Arc<str>,
        /// The initialiser's error.
        #[source]
        cause: Error,
    },
}
