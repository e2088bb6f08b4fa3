//! The ClientHello, parsed without a TLS connection: to choose a configuration, or to route a connection by name.
//!
//! ```text
//!   bytes in any pieces ──► ClientHelloReader ──► need more | ClientHello | ClientHelloError
//!                           records → message     name, ALPN, versions, …, and the records as they came
//! ```
//!
//! - The answer does not depend on how the bytes are cut: the first byte that violates a rule decides.
//! - The reader takes no byte behind the record in which the ClientHello ends, and holds no more than its limit.
//! - The structure is checked as strictly as rustls does: lengths, empty lists, duplicate extensions, names. What a
//!   server would accept of the contents is not checked; values that are unknown (GREASE) are kept as they are.

pub(crate) mod alert;
pub(crate) mod error;
mod message;
pub(crate) mod reader;

use std::fmt;

use bytes::Bytes;
use rustls::{CipherSuite, ProtocolVersion, SignatureScheme};

/// The first message of a TLS client: the name it asks for, and what it offers. Read by a
/// [`ClientHelloReader`](crate::ClientHelloReader).
///
/// A clone shares the bytes. Nothing in a ClientHello is authenticated: whoever can change the bytes can change the
/// name.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientHello {
    records: Bytes,
    server_name: Option<String>,
    alpn: Vec<Vec<u8>>,
    versions: Vec<ProtocolVersion>,
    cipher_suites: Vec<CipherSuite>,
    signature_schemes: Vec<SignatureScheme>,
    has_encrypted_hello: bool,
}

impl ClientHello {
    /// Returns the name that the client asks for (SNI), in lower case; `None` if it gives none, or an IP address,
    /// which is not a name. With [`has_encrypted_hello`](Self::has_encrypted_hello) this is the outer name.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Returns the application protocols that the client offers (ALPN), most preferred first.
    pub fn alpn(&self) -> impl Iterator<Item = &[u8]> {
        self.alpn.iter().map(Vec::as_slice)
    }

    /// Returns the versions that the client offers, most preferred first. A client of TLS 1.2 or earlier names only
    /// the highest one.
    #[must_use]
    pub fn versions(&self) -> &[ProtocolVersion] {
        &self.versions
    }

    /// Returns the cipher suites that the client offers, most preferred first.
    #[must_use]
    pub fn cipher_suites(&self) -> &[CipherSuite] {
        &self.cipher_suites
    }

    /// Returns the signature schemes that the client verifies, most preferred first; empty if it names none.
    #[must_use]
    pub fn signature_schemes(&self) -> &[SignatureScheme] {
        &self.signature_schemes
    }

    /// True if the client has encrypted its actual ClientHello (ECH) for another server, or pretends so (GREASE).
    #[must_use]
    pub fn has_encrypted_hello(&self) -> bool {
        self.has_encrypted_hello
    }

    /// Returns the TLS records of the ClientHello as they came, to replay them to a server.
    #[must_use]
    pub fn records(&self) -> &Bytes {
        &self.records
    }
}

impl fmt::Debug for ClientHello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alpn: Vec<_> = self.alpn.iter().map(|name| String::from_utf8_lossy(name)).collect();
        f.debug_struct("ClientHello")
            .field("server_name", &self.server_name)
            .field("alpn", &alpn)
            .field("versions", &self.versions)
            .field("len", &self.records.len())
            .finish_non_exhaustive()
    }
}
