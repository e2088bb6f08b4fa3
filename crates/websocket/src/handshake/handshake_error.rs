//! Errors of a client's opening handshake, and the answers to them.

use http::header::{ALLOW, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, StatusCode};
use waterwheel_http::{IntoResponse, Response};

/// A request that is no valid opening handshake, or is refused. As a response ([`IntoResponse`]) it is the answer that RFC
/// 6455 asks for, with a text that says why.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The method is not GET: status 405.
    #[error("a WebSocket is opened by GET")]
    Method,
    /// The request does not ask for WebSocket (HTTP/1.1, Connection: Upgrade, Upgrade: websocket): status 426.
    #[error(
        "the request does not ask for WebSocket: Connection: Upgrade and Upgrade: websocket are missing"
    )]
    NoUpgrade,
    /// The version of the protocol is not 13, or is missing: status 426, with the version that is spoken.
    #[error("the version of the WebSocket protocol is not 13")]
    Version,
    /// The key is missing, is not the base64 of 16 bytes, or stands there twice: status 400.
    #[error("Sec-WebSocket-Key is not the base64 of 16 bytes")]
    Key,
    /// The request has a body: status 400.
    #[error("a request for WebSocket has no body")]
    Body,
    /// The list of subprotocols is malformed, or has one twice: status 400.
    #[error("Sec-WebSocket-Protocol is not a list of different tokens")]
    Subprotocols,
    /// The list of extensions is malformed: status 400.
    #[error("Sec-WebSocket-Extensions is malformed")]
    Extensions,
    /// The page that has made the request is of an origin that is not accepted: status 403.
    #[error("the origin {origin:?} is not accepted")]
    Origin {
        /// The value of Origin.
        origin: String,
    },
}

impl HandshakeError {
    /// Returns the status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoUpgrade | Self::Version => StatusCode::UPGRADE_REQUIRED,
            Self::Origin { .. } => StatusCode::FORBIDDEN,
            Self::Key | Self::Body | Self::Subprotocols | Self::Extensions => {
                StatusCode::BAD_REQUEST
            }
        }
    }
}

impl IntoResponse for HandshakeError {
    fn into_response(self) -> Response {
        let mut response = (self.status(), format!("{self}\n")).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Method => {
                headers.insert(ALLOW, HeaderValue::from_static("GET"));
            }
            Self::NoUpgrade | Self::Version => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            _ => {}
        }
        response
    }
}
