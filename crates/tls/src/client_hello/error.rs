//! Why bytes are not a ClientHello.

use rustls::AlertDescription;
use waterwheel_executor::Error;

/// Why the beginning of a stream is not a valid ClientHello.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientHelloError {
    /// The stream does not begin as TLS does.
    #[error("the peer does not speak TLS: byte {at} of a record is {found:#04x}")]
    NotTls {
        /// The position in the record's header.
        at: usize,
        /// The byte.
        found: u8,
    },
    /// A record of another kind than handshake came first, such as an alert.
    #[error("a TLS record of type {content_type} instead of a handshake")]
    UnexpectedRecord {
        /// The type of the record.
        content_type: u8,
    },
    /// The first handshake message is not a ClientHello.
    #[error("a TLS handshake message of type {handshake_type} instead of a ClientHello")]
    UnexpectedMessage {
        /// The type of the message.
        handshake_type: u8,
    },
    /// A record is empty, or longer than TLS allows.
    #[error("a TLS record of {length} bytes; 1 to 18431 are allowed")]
    InvalidRecord {
        /// The length of the record.
        length: usize,
    },
    /// The ClientHello with the headers of its records is longer than the limit.
    #[error("the ClientHello is longer than the limit of {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The structure of the message is not valid.
    #[error("the ClientHello is malformed at byte {at}: {reason}")]
    Malformed {
        /// The position in the message, its header included.
        at: usize,
        /// The violated rule.
        reason: &'static str,
    },
    /// The server name is not a DNS name.
    #[error("the server name of the ClientHello is not a DNS name")]
    InvalidServerName,
}

impl ClientHelloError {
    /// Returns the alert that tells the client.
    #[must_use]
    pub fn alert(&self) -> AlertDescription {
        match self {
            Self::NotTls { .. } | Self::Malformed { .. } | Self::TooLong { .. } => {
                AlertDescription::DecodeError
            }
            Self::UnexpectedRecord { .. } | Self::UnexpectedMessage { .. } => {
                AlertDescription::UnexpectedMessage
            }
            Self::InvalidRecord { length: 0 } => AlertDescription::DecodeError,
            Self::InvalidRecord { .. } => AlertDescription::RecordOverflow,
            Self::InvalidServerName => AlertDescription::IllegalParameter,
        }
    }
}

impl From<ClientHelloError> for Error {
    fn from(error: ClientHelloError) -> Self {
        Error::new(error)
    }
}
