//! The server's configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::error::TlsConfigError;
use super::identity::{Identity, checked_alpn};
use super::pem::PemText;

/// The configuration of a server, for [`TlsHandler::server`](crate::TlsHandler::server). A clone is the same
/// configuration: all connections share it.
///
/// ```no_run
/// use waterwheel_tls::ServerTls;
///
/// let config = ServerTls::builder()
///     .certificate_files("server.crt", "server.key")
///     .alpn(["h2", "http/1.1"])
///     .build()?;
/// # Ok::<(), waterwheel_tls::TlsConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Returns a builder: TLS 1.2 and 1.3, no certificates of clients, no early data, no key log.
    pub fn builder() -> ServerTlsBuilder {
        ServerTlsBuilder { identity: None, clients: ClientCertificates::Ignored, alpn: Vec::new() }
    }

    /// Returns the configuration in the terms of rustls.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.0
    }
}

/// Takes a configuration that was built with rustls itself.
impl From<ServerConfig> for ServerTls {
    fn from(config: ServerConfig) -> Self {
        Self(Arc::new(config))
    }
}

/// Takes a configuration that was built with rustls itself.
impl From<Arc<ServerConfig>> for ServerTls {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self(config)
    }
}

/// Builds a [`ServerTls`].
#[must_use]
pub struct ServerTlsBuilder {
    /// The first error is kept until [`build`](Self::build).
    identity: Option<Result<Identity, TlsConfigError>>,
    clients: ClientCertificates,
    alpn: Vec<Vec<u8>>,
}

/// The demand of a server for certificates of its clients.
#[derive(Clone, Debug)]
pub enum ClientCertificates {
    /// Clients are not asked.
    Ignored,
    /// Clients may present one; if they do, it must lead to one of these roots.
    Optional(Arc<RootCertStore>),
    /// Clients must present one that leads to one of these roots.
    Required(Arc<RootCertStore>),
}

impl ServerTlsBuilder {
    /// Sets the files of the certificate chain, the server's own first, and of its key.
    pub fn certificate_files(
        mut self,
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        self.identity = Some(Identity::read(certificates.as_ref(), key.as_ref()));
        self
    }

    /// Sets the certificate chain and its key as PEM text.
    pub fn certificate_pem(mut self, certificates: &[u8], key: &[u8]) -> Self {
        self.identity = Some(Ok(Identity::from_pem(certificates, key)));
        self
    }

    /// Sets whether clients present certificates. Default: they are not asked.
    pub fn client_certificates(mut self, clients: ClientCertificates) -> Self {
        self.clients = clients;
        self
    }

    /// Sets the application protocols, most preferred first. Default: none. A client that offers only others is
    /// refused.
    pub fn alpn(mut self, names: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.alpn = names.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the configuration.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn build(self) -> Result<ServerTls, TlsConfigError> {
        let missing = TlsConfigError::Incomplete("a TLS server needs a certificate and its key");
        let identity = self.identity.ok_or(missing)??;
        let (chain, key) = identity.parse()?;
        let provider = super::provider()?;
        let invalid = |error: &dyn std::error::Error| TlsConfigError::Invalid(error.to_string());
        let versions = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&error))?;
        let verifier = |roots: Arc<RootCertStore>| {
            WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
        };
        let clients = match self.clients {
            ClientCertificates::Ignored => None,
            ClientCertificates::Optional(roots) => {
                Some(verifier(roots).allow_unauthenticated().build())
            }
            ClientCertificates::Required(roots) => Some(verifier(roots).build()),
        };
        let builder = match clients.transpose().map_err(|error| invalid(&error))? {
            Some(verifier) => versions.with_client_cert_verifier(verifier),
            None => versions.with_no_client_auth(),
        };
        let built = builder.with_single_cert(chain, key);
        let mut config = built.map_err(|reason| identity.refused(reason))?;
        config.alpn_protocols = checked_alpn(&self.alpn)?;
        Ok(config.into())
    }
}

impl ClientCertificates {
    /// Requires certificates of clients that lead to a root in this file.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn required_from_file(path: impl AsRef<Path>) -> Result<Self, TlsConfigError> {
        let mut store = RootCertStore::empty();
        PemText::read(path.as_ref())?.add_roots(&mut store)?;
        Ok(Self::Required(Arc::new(store)))
    }
}

impl std::fmt::Debug for ServerTlsBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTlsBuilder").field("clients", &self.clients).finish_non_exhaustive()
    }
}
