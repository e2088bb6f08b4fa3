//! The client's configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use super::error::TlsConfigError;
use super::identity::{Identity, checked_alpn};
use super::pem::PemText;

/// The configuration of a client, for [`TlsHandler::client`](crate::TlsHandler::client). A clone is the same
/// configuration: all connections share it.
///
/// ```no_run
/// use waterwheel_tls::ClientTls;
///
/// let config = ClientTls::builder().trust_file("/etc/ssl/certs/ca-certificates.crt").build()?;
/// # Ok::<(), waterwheel_tls::TlsConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Returns a builder: TLS 1.2 and 1.3, no early data, no key log. The certificate of the server is always verified;
    /// a client that is not to verify it needs a [`ClientConfig`] of its own.
    pub fn builder() -> ClientTlsBuilder {
        ClientTlsBuilder { roots: Vec::new(), identity: None, alpn: Vec::new() }
    }

    /// Returns the configuration in the terms of rustls.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.0
    }
}

/// Takes a configuration that was built with rustls itself.
impl From<ClientConfig> for ClientTls {
    fn from(config: ClientConfig) -> Self {
        Self(Arc::new(config))
    }
}

/// Takes a configuration that was built with rustls itself.
impl From<Arc<ClientConfig>> for ClientTls {
    fn from(config: Arc<ClientConfig>) -> Self {
        Self(config)
    }
}

/// Builds a [`ClientTls`].
#[must_use]
pub struct ClientTlsBuilder {
    /// Errors are kept until [`build`](Self::build).
    roots: Vec<Result<PemText, TlsConfigError>>,
    identity: Option<Result<Identity, TlsConfigError>>,
    alpn: Vec<Vec<u8>>,
}

impl ClientTlsBuilder {
    /// Trusts the certificates of a file as roots. May be called several times.
    pub fn trust_file(mut self, path: impl AsRef<Path>) -> Self {
        self.roots.push(PemText::read(path.as_ref()));
        self
    }

    /// Trusts certificates as roots, given as PEM text; errors call the text `source`.
    pub fn trust_pem(mut self, source: &str, text: &[u8]) -> Self {
        self.roots.push(Ok(PemText::new(source, text)));
        self
    }

    /// Sets the files of the certificate chain that is presented to servers that ask for one, and of its key.
    pub fn certificate_files(
        mut self,
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        self.identity = Some(Identity::read(certificates.as_ref(), key.as_ref()));
        self
    }

    /// Sets the certificate chain that is presented to servers that ask for one, and its key, as PEM text.
    pub fn certificate_pem(mut self, certificates: &[u8], key: &[u8]) -> Self {
        self.identity = Some(Ok(Identity::from_pem(certificates, key)));
        self
    }

    /// Sets the application protocols, most preferred first. Default: none.
    pub fn alpn(mut self, names: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.alpn = names.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the configuration.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn build(self) -> Result<ClientTls, TlsConfigError> {
        if self.roots.is_empty() {
            return Err(TlsConfigError::Incomplete("a TLS client needs roots to trust"));
        }
        let mut store = RootCertStore::empty();
        for roots in self.roots {
            roots?.add_roots(&mut store)?;
        }
        let versions = ClientConfig::builder_with_provider(super::provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsConfigError::Invalid(error.to_string()))?;
        let builder = versions.with_root_certificates(store);
        let mut config = match self.identity.transpose()? {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.parse()?;
                let built = builder.with_client_auth_cert(chain, key);
                built.map_err(|reason| identity.refused(reason))?
            }
        };
        config.alpn_protocols = checked_alpn(&self.alpn)?;
        Ok(config.into())
    }
}

impl std::fmt::Debug for ClientTlsBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTlsBuilder").field("roots", &self.roots.len()).finish_non_exhaustive()
    }
}
