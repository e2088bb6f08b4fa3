//! Why a client has no connection.

use http::{HeaderMap, StatusCode};
use waterwheel_executor::Error;
use waterwheel_http::ClientError;

use crate::handshake::opening_response::ResponseViolation;

/// The error of a connection that was not opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL does not name a WebSocket.
    #[error("the URL {url:?} cannot be opened: {reason}")]
    InvalidUrl {
        /// The URL, without user name, password and query, which may be secrets.
        url: String,
        /// The violated rule.
        reason: &'static str,
    },
    /// A header or a subprotocol of the request cannot be sent.
    #[error("the request is invalid: {reason}")]
    InvalidRequest {
        /// The violated rule, with the name of what violates it.
        reason: String,
    },
    /// There is no response: no connection, no TLS, no time left.
    #[error(transparent)]
    Request(#[from] ClientError),
    /// The server has answered with another status than 101.
    #[error("the server refused the WebSocket with status {status}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// The fields of the response, such as Retry-After and Location.
        headers: Box<HeaderMap>,
    },
    /// The server has answered with status 101, but not to this request. The connection is closed.
    #[error("the server's answer is no valid handshake: {0}")]
    InvalidResponse(#[from] ResponseViolation),
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Request(error) => error.into(),
            other => Error::new(other),
        }
    }
}
