//! Errors of writes to a codec, and of connections.

use http::StatusCode;
use waterwheel_executor::Error;

/// The error of a part that does not fit what was written before, or of a connection that ended too early.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum HttpCodecError {
    /// An answer without a request.
    #[error("status {status} was written, and no request waits for an answer")]
    NoRequest {
        /// The status of the answer.
        status: StatusCode,
    },
    /// An answer that would change the protocol, without a whole request that asks for that.
    #[error(
        "status {status} would change the protocol: the request does not ask for that, or its body has not come"
    )]
    UnexpectedUpgrade {
        /// The status of the answer.
        status: StatusCode,
    },
    /// A part of a body, or its end, without a head before it.
    #[error("a part of a body was written, and no head before it")]
    NoHead,
    /// A head while the message before it has not ended: the channel is closed.
    #[error("a head was written before the end of the message before it: write BodyEnd")]
    UnfinishedMessage,
    /// A body longer than its head says: the channel is closed.
    #[error("the body has more bytes than the {length} of its Content-Length")]
    BodyTooLong {
        /// The length in the head.
        length: u64,
    },
    /// A body shorter than its head says: the channel is closed.
    #[error("the body ended {missing} bytes before its Content-Length")]
    BodyTooShort {
        /// The number of bytes that are missing.
        missing: u64,
    },
    /// A message after the last one of the connection.
    #[error("the connection carries no more messages: the last one said so, or was refused")]
    ConnectionEnding,
    /// A request without Host whose URI has no authority either.
    #[error("the request has neither a Host field nor a host in its URI")]
    MissingHost,
    /// A request of CONNECT whose URI is no authority.
    #[error("the URI of a CONNECT request is not \"host:port\"")]
    ConnectTarget,
    /// Bytes of a response that no request asked for: the channel is closed.
    #[error("{bytes} bytes came that answer no request")]
    UnexpectedBytes {
        /// The number of bytes.
        bytes: usize,
    },
    /// The server has ended the connection before it has answered everything.
    #[error("the connection ended, and {requests} requests have no answer")]
    MissingResponses {
        /// The number of requests without an answer.
        requests: usize,
    },
}

impl HttpCodecError {
    /// Returns the failure of a write.
    #[cold]
    pub(super) fn refuse<T>(self) -> Result<T, Error> {
        Err(Error::new(self))
    }
}
