//! A certificate chain with its key.

use std::path::Path;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::error::TlsConfigError;
use super::pem::PemText;

/// A certificate chain and its private key, as given to a builder.
#[derive(Clone)]
pub(crate) struct Identity {
    certificates: PemText,
    key: PemText,
}

impl Identity {
    pub(crate) fn read(certificates: &Path, key: &Path) -> Result<Self, TlsConfigError> {
        Ok(Self { certificates: PemText::read(certificates)?, key: PemText::read(key)? })
    }

    pub(crate) fn from_pem(certificates: &[u8], key: &[u8]) -> Self {
        let certificates = PemText::new("the given certificates", certificates);
        Self { certificates, key: PemText::new("the given key", key) }
    }

    pub(crate) fn parse(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsConfigError> {
        Ok((self.certificates.certificates()?, self.key.private_key()?))
    }

    /// Returns the chain with its key, which must belong to the first certificate.
    pub(crate) fn certified_key(&self) -> Result<CertifiedKey, TlsConfigError> {
        let (chain, key) = self.parse()?;
        let certified = CertifiedKey::from_der(chain, key, &*super::provider()?);
        certified.map_err(|reason| self.refused(reason))
    }

    /// Returns the file of the certificates.
    pub(crate) fn source(&self) -> &str {
        &self.certificates.source
    }

    pub(crate) fn refused(&self, reason: rustls::Error) -> TlsConfigError {
        let (certificate, key) = (self.certificates.source.clone(), self.key.source.clone());
        TlsConfigError::InvalidIdentity { certificate, key, reason }
    }
}
