//! Certificates and keys from PEM files, with errors that say which file and why.

use std::fs;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use webpki::BorrowedCertRevocationList;

use super::error::TlsConfigError;

/// PEM text with the name of its source.
#[derive(Clone)]
pub(crate) struct PemText {
    pub(crate) source: String,
    text: Vec<u8>,
}

impl PemText {
    pub(crate) fn new(source: &str, text: &[u8]) -> Self {
        Self { source: source.into(), text: text.into() }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, TlsConfigError> {
        let source = path.display().to_string();
        match fs::read(path) {
            Ok(text) => Ok(Self { source, text }),
            Err(error) => {
                Err(TlsConfigError::Unreadable { file: source, reason: error.to_string() })
            }
        }
    }

    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
        let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        let certificates = parsed.map_err(|error| self.error(&error, "certificate"))?;
        if certificates.is_empty() {
            return Err(self.error(&pem::Error::NoItemsFound, "certificate"));
        }
        Ok(certificates)
    }

    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| self.error(&error, "private key"))
    }

    /// Adds every certificate to `store`.
    pub(crate) fn add_roots(&self, store: &mut RootCertStore) -> Result<(), TlsConfigError> {
        for (at, certificate) in self.certificates()?.into_iter().enumerate() {
            store.add(certificate).map_err(|reason| TlsConfigError::InvalidRoot {
                file: self.source.clone(),
                number: at + 1,
                reason,
            })?;
        }
        Ok(())
    }

    /// Returns the lists of a PEM text, or the one that the bytes are.
    fn revocation_lists(
        &self,
    ) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsConfigError> {
        // DER begins with the tag of a sequence; authorities publish their lists like this.
        let lists = if self.text.first() == Some(&0x30) {
            vec![self.text.clone().into()]
        } else {
            let parsed: Result<Vec<_>, _> =
                CertificateRevocationListDer::pem_slice_iter(&self.text).collect();
            parsed.map_err(|error| self.error(&error, "revocation list"))?
        };
        if lists.is_empty() {
            return Err(self.error(&pem::Error::NoItemsFound, "revocation list"));
        }
        for (at, list) in lists.iter().enumerate() {
            if let Err(error) = BorrowedCertRevocationList::from_der(list) {
                return Err(TlsConfigError::InvalidRevocationList {
                    file: self.source.clone(),
                    number: at + 1,
                    reason: error.to_string(),
                });
            }
        }
        Ok(lists)
    }

    fn error(&self, error: &pem::Error, wanted: &'static str) -> TlsConfigError {
        let file = self.source.clone();
        match error {
            pem::Error::NoItemsFound => TlsConfigError::Missing { file, wanted },
            other => TlsConfigError::InvalidPem { file, reason: other.to_string() },
        }
    }
}

/// Reads all certificates of a file.
///
/// # Errors
/// [`TlsConfigError`]: the file cannot be read, is not valid PEM, or has no certificate.
pub fn load_certificates(
    path: impl AsRef<Path>,
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    PemText::read(path.as_ref())?.certificates()
}

/// Reads the first private key of a file: PKCS #8, PKCS #1 (RSA) or SEC1 (EC).
///
/// # Errors
/// [`TlsConfigError`]: the file cannot be read, is not valid PEM, or has no private key.
pub fn load_private_key(path: impl AsRef<Path>) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    PemText::read(path.as_ref())?.private_key()
}

/// Reads all certificates of a file as roots of trust.
///
/// # Errors
/// [`TlsConfigError`]: the file cannot be read, is not valid PEM, has no certificate, or one that cannot be a root.
pub fn load_roots(path: impl AsRef<Path>) -> Result<RootCertStore, TlsConfigError> {
    let mut store = RootCertStore::empty();
    PemText::read(path.as_ref())?.add_roots(&mut store)?;
    Ok(store)
}

/// Reads all revocation lists of a file: PEM, or one list in DER.
///
/// # Errors
/// [`TlsConfigError`]: the file cannot be read, is not valid PEM, or has no revocation list.
pub fn load_revocation_lists(
    path: impl AsRef<Path>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsConfigError> {
    PemText::read(path.as_ref())?.revocation_lists()
}
