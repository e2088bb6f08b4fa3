//! The demand of a server for certificates of its clients.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::error::TlsConfigError;
use super::pem;

/// The demand of a server for certificates of its clients. A client that does not meet it is refused with an alert; in
/// TLS 1.3 it learns that after its own handshake is over, when it reads.
///
/// A client that resumes a session is not asked again: the certificate of the first handshake counts, and is reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// Clients are not asked.
    Ignored,
    /// Clients may present one; if they do, it must lead to one of these roots.
    Optional(Arc<RootCertStore>),
    /// Clients must present one that leads to one of these roots.
    Required(Arc<RootCertStore>),
    /// The program's own verifier decides. Called on the loop, so it must not block; a panic costs the one connection.
    /// The text of its error is the error of the handshake.
    ///
    /// [`rustls::server::WebPkiClientVerifier`] is the one that the other variants use, and the one to ask first.
    Verified(Arc<dyn ClientCertVerifier>),
}

impl ClientCertificates {
    /// Requires certificates of clients that lead to a root in this file.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn required_from_file(path: impl AsRef<Path>) -> Result<Self, TlsConfigError> {
        Ok(Self::Required(Arc::new(pem::load_roots(path)?)))
    }

    /// Asks clients for certificates; those that are presented must lead to a root in this file.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn optional_from_file(path: impl AsRef<Path>) -> Result<Self, TlsConfigError> {
        Ok(Self::Optional(Arc::new(pem::load_roots(path)?)))
    }

    /// Returns the verifier, `None` if clients are not asked.
    pub(crate) fn verifier(
        self,
        provider: &Arc<CryptoProvider>,
        revoked: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsConfigError> {
        let has_lists = !revoked.is_empty();
        let builder = |roots| {
            WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).with_crls(revoked)
        };
        let built = match self {
            Self::Ignored | Self::Verified(_) if has_lists => {
                let reason = "revocation lists are for `ClientCertificates::{Optional, Required}`";
                return Err(TlsConfigError::Incomplete(reason));
            }
            Self::Ignored => return Ok(None),
            Self::Verified(verifier) => return Ok(Some(verifier)),
            Self::Optional(roots) => builder(roots).allow_unauthenticated().build(),
            Self::Required(roots) => builder(roots).build(),
        };
        built.map(Some).map_err(TlsConfigError::invalid)
    }
}
