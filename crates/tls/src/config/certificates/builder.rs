//! The files and texts that the certificates of a server are loaded from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use super::ServerCertificates;
use super::set::{CertificateSet, NamedKey};
use crate::config::error::TlsConfigError;
use crate::config::identity::Identity;

/// Builds [`ServerCertificates`]. The first certificate is the default.
#[must_use]
pub struct ServerCertificatesBuilder {
    sources: CertificateSources,
    has_orphan_names: bool,
}

/// The certificates of a server as they were given, to be loaded again and again.
pub(super) struct CertificateSources {
    certificates: Vec<CertificateSource>,
    refuses_unknown: bool,
}

struct CertificateSource {
    origin: CertificateOrigin,
    /// The names that the certificate is used for; `None` for all that are in it.
    names: Option<Vec<String>>,
}

enum CertificateOrigin {
    Files(PathBuf, PathBuf),
    Pem(Identity),
    Key(Arc<CertifiedKey>),
}

impl ServerCertificatesBuilder {
    pub(super) fn new() -> Self {
        let sources = CertificateSources { certificates: Vec::new(), refuses_unknown: false };
        Self { sources, has_orphan_names: false }
    }

    /// Adds the files of a certificate chain, the server's own certificate first, and of its key. Both are PEM.
    pub fn files(self, certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> Self {
        let (certificates, key) = (certificates.as_ref().into(), key.as_ref().into());
        self.add(CertificateOrigin::Files(certificates, key))
    }

    /// Adds a certificate chain and its key as PEM text.
    pub fn pem(self, certificates: &[u8], key: &[u8]) -> Self {
        self.add(CertificateOrigin::Pem(Identity::from_pem(certificates, key)))
    }

    /// Adds a certificate chain with a key of any kind, such as one that a device holds.
    pub fn certified_key(self, key: Arc<CertifiedKey>) -> Self {
        self.add(CertificateOrigin::Key(key))
    }

    /// Presents the certificate that was added last for these names only. Default: for all DNS names that are in it.
    ///
    /// A name may be a wildcard; the certificate must be valid for every name.
    pub fn for_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        match self.sources.certificates.last_mut() {
            Some(last) => last.names = Some(names.into_iter().map(Into::into).collect()),
            None => self.has_orphan_names = true,
        }
        self
    }

    /// Refuses clients that give no name, or one that no certificate is for. Default: they are presented the first
    /// certificate, and refuse it themselves if its names matter to them.
    ///
    /// The client gets the alert access_denied, the only one that rustls sends here.
    pub fn refuse_unknown_names(mut self) -> Self {
        self.sources.refuses_unknown = true;
        self
    }

    /// Loads the certificates.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file or the name, and the reason: a file cannot be used, a name is given twice for
    /// keys of one kind, is no DNS name or not one of its certificate, or a certificate other than the default has none.
    pub fn build(self) -> Result<ServerCertificates, TlsConfigError> {
        if self.has_orphan_names {
            return Err(TlsConfigError::Incomplete("`for_names` follows a certificate"));
        }
        ServerCertificates::new(self.sources)
    }

    /// True if no certificate was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.certificates.is_empty()
    }

    fn add(mut self, origin: CertificateOrigin) -> Self {
        self.sources.certificates.push(CertificateSource { origin, names: None });
        self
    }
}

impl std::fmt::Debug for ServerCertificatesBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.sources.certificates.len();
        f.debug_struct("ServerCertificatesBuilder").field("certificates", &count).finish()
    }
}

impl CertificateSources {
    pub(super) fn load(&self) -> Result<CertificateSet, TlsConfigError> {
        let keys: Result<Vec<_>, _> =
            self.certificates.iter().map(CertificateSource::load).collect();
        CertificateSet::new(&keys?, self.refuses_unknown)
    }
}

impl CertificateSource {
    fn load(&self) -> Result<NamedKey, TlsConfigError> {
        let certified = |identity: &Identity| {
            Ok((Arc::new(identity.certified_key()?), identity.source().to_owned()))
        };
        let (key, source) = match &self.origin {
            CertificateOrigin::Files(certificates, key) => {
                certified(&Identity::read(certificates, key)?)?
            }
            CertificateOrigin::Pem(identity) => certified(identity)?,
            CertificateOrigin::Key(key) => (key.clone(), "the given certified key".into()),
        };
        Ok(NamedKey { key, source, names: self.names.clone() })
    }
}
