//! Errors of the choice.

use waterwheel_channel::Quoted;
use waterwheel_executor::Error;

/// Why no pipeline was chosen for a connection. The channel is closed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlpnError {
    /// No protocol was negotiated, and there is no fallback.
    #[error("ALPN: the peer has negotiated no application protocol; accepted are {accepted}")]
    NotNegotiated {
        /// The names of the protocols that have a pipeline.
        accepted: String,
    },
    /// The protocol that was negotiated has no pipeline: the configuration of TLS offers more than the handler has.
    #[error(
        "ALPN: there is no pipeline for the negotiated protocol {protocol}, only for {accepted}"
    )]
    UnknownProtocol {
        /// The protocol.
        protocol: Quoted,
        /// The names of the protocols that have a pipeline.
        accepted: String,
    },
    /// Bytes came before a handshake: there is no TLS handler before this one, or its handshake was over when this one
    /// was added.
    #[error(
        "ALPN: {length} bytes came before a TLS handshake, which begin with {first}: is a TlsHandler before this handler?"
    )]
    NotTls {
        /// How many bytes came.
        length: usize,
        /// The first bytes.
        first: Quoted,
    },
    /// The stream ended before a handshake, and no TLS handler has reported it.
    #[error("ALPN: the stream ended before a TLS handshake: is a TlsHandler before this handler?")]
    Ended,
    /// The initialiser of the chosen protocol failed.
    #[error("ALPN: the initialiser of {protocol} failed: {cause}")]
    NotInitialised {
        /// The protocol, or `otherwise`.
        protocol: Quoted,
        /// The initialiser's error.
        #[source]
        cause: Error,
    },
}
