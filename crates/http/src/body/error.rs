//! Why a body that was being received has no end.

use std::time::Duration;

use crate::content::decode_error::ContentDecodeError;
use crate::protocol::error::MessageError;

/// The error of a body that is received.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// The body is malformed or too large. A server has answered, or will answer, in place of the service.
    #[error(transparent)]
    Refused(#[from] MessageError),
    /// The connection ended, or was closed, before the end of the body.
    #[error("the connection ended before the body did")]
    Aborted,
    /// The peer sent too few bytes for too long.
    #[error("the body came more slowly than {rate} bytes per second")]
    TooSlow {
        /// The least rate that is accepted, in bytes per second.
        rate: u64,
    },
    /// A client received no byte of the body for too long, or the time of the whole request is over.
    #[error("the body did not come within {limit:?}")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The body is longer than [`Incoming::collect`](crate::Incoming::collect) was told to accept.
    #[error("the body is longer than {limit} bytes")]
    LongerThan {
        /// The limit of the call.
        limit: usize,
    },
    /// The body was received and cannot be decoded.
    #[error(transparent)]
    Undecodable(#[from] ContentDecodeError),
}
