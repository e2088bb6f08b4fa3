//! Errors of TLS connections.

use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};
use waterwheel_executor::Error;

use crate::client_hello::error::ClientHelloError;

/// Why a TLS connection failed. Goes to `on_error` of the handlers after the TLS handler, and is the cause of the close.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The peer does not speak TLS: it may be a browser at the wrong port, or a scanner. The peer was sent an alert.
    #[error("the TLS handshake failed: the peer does not speak TLS, it sent \"{began_with}\"")]
    NotTls {
        /// The first bytes, at most 16 of them, with those that are not printable escaped.
        began_with: String,
    },
    /// The handshake failed: the peer offers nothing that is accepted, its certificate is not valid, or it has violated
    /// the protocol. The peer was sent the alert that belongs to the error.
    #[error("the TLS handshake failed: {}", reason(.0))]
    Handshake(#[source] rustls::Error),
    /// The peer violated the protocol after the handshake, or sent a fatal alert.
    #[error("the TLS connection failed: {}", reason(.0))]
    Protocol(#[source] rustls::Error),
    /// The handshake took too long.
    #[error("the TLS handshake was not done within {limit:?}")]
    HandshakeTimeout {
        /// The limit.
        limit: Duration,
    },
    /// The connection ended in the handshake.
    #[error("the connection ended during the TLS handshake")]
    HandshakeCutOff,
    /// The stream ended without close_notify: its end may be the work of an attacker, and data may be missing.
    #[error("the stream ended without a TLS close_notify: data may be missing")]
    Truncated,
    /// The peer read nothing while the connection was being closed, or did not answer close_notify.
    #[error("TLS was not closed in order: the peer neither read nor answered for {limit:?}")]
    CloseTimeout {
        /// The limit.
        limit: Duration,
    },
    /// The handler was removed: messages that it held are not sent, because they would be sent as plain text.
    #[error("the TLS handler was removed")]
    Removed,
    /// A message that cannot be encrypted was written.
    #[error(
        "a message of type {message} cannot be encrypted: TLS takes `Bytes`, `BytesMut` and `Vec<u8>`"
    )]
    UnsupportedMessage {
        /// The message's type.
        message: &'static str,
    },
    /// The peer has not sent a valid ClientHello to a server whose configuration is
    /// [chosen](crate::ServerTls::chosen_by) by it.
    #[error("the TLS handshake failed: {0}")]
    ClientHello(#[source] ClientHelloError),
    /// The chooser has no configuration for the name that the client asks for, or for clients without a name.
    #[error("{}", no_configuration(.name.as_deref()))]
    UnrecognizedName {
        /// The name; `None` if the client gives none.
        name: Option<String>,
    },
    /// The chooser of the configuration failed or panicked.
    #[error("the TLS configuration could not be chosen: {0}")]
    ChoiceFailed(#[source] ChooserError),
    /// The peer sent more than a server waits for, while its configuration was being chosen.
    #[error("more than {limit} bytes arrived while the TLS configuration was being chosen")]
    ChoiceInputTooLong {
        /// The limit.
        limit: usize,
    },
    /// The configuration does not allow a connection.
    #[error("a TLS connection cannot be created: {0}")]
    Configuration(#[source] rustls::Error),
}

fn no_configuration(name: Option<&str>) -> String {
    match name {
        Some(name) => format!("no TLS configuration for the name `{name}`"),
        None => "no TLS configuration for a client that gives no name".to_owned(),
    }
}

/// The error of a chooser of configurations. Equal to another one with the same text.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChooserError(#[source] pub(crate) Error);

impl PartialEq for ChooserError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl TlsError {
    /// Returns the error of a handshake that `rustls` has refused, at these bytes.
    pub(crate) fn of_handshake(error: rustls::Error, bytes: &[u8]) -> Self {
        match error {
            // The type of a record is its first byte.
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                let began_with = bytes[..bytes.len().min(16)].escape_ascii().to_string();
                Self::NotTls { began_with }
            }
            other => Self::Handshake(other),
        }
    }
}

impl From<TlsError> for Error {
    fn from(error: TlsError) -> Self {
        Error::new(error)
    }
}

/// Returns the text of an error of rustls. The reason of a verifier of the program's own is shown as it is; rustls
/// prints its debug form. That of ALPN does not say that it is about ALPN.
fn reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(reason)) => {
            format!("invalid peer certificate: {reason}")
        }
        rustls::Error::NoApplicationProtocol => {
            "the client offers no application protocol (ALPN) that the server names".to_owned()
        }
        other => other.to_string(),
    }
}
