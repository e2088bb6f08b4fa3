//! The server's configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::certificates::{ServerCertificates, ServerCertificatesBuilder};
use super::chooser::ConfigChooser;
use super::error::TlsConfigError;
use super::identity::checked_alpn;
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
pub struct ServerTls(ServerTlsSource);

/// Where the configuration of a connection comes from.
#[derive(Clone, Debug)]
pub(crate) enum ServerTlsSource {
    Fixed(Arc<ServerConfig>),
    /// Chosen for each connection, by its ClientHello.
    Chosen(Arc<ConfigChooser>),
}

impl ServerTls {
    /// Returns a builder: TLS 1.2 and 1.3, no certificates of clients, no early data, no key log.
    pub fn builder() -> ServerTlsBuilder {
        ServerTlsBuilder {
            files: ServerCertificates::builder(),
            certificates: None,
            clients: ClientCertificates::Ignored,
            alpn: Vec::new(),
        }
    }

    /// Returns the configuration in the terms of rustls; `None` if it is [chosen](Self::chosen_by) for each connection.
    pub fn config(&self) -> Option<&Arc<ServerConfig>> {
        match &self.0 {
            ServerTlsSource::Fixed(config) => Some(config),
            ServerTlsSource::Chosen(_) => None,
        }
    }

    pub(super) fn chosen(chooser: ConfigChooser) -> Self {
        Self(ServerTlsSource::Chosen(Arc::new(chooser)))
    }

    pub(crate) fn into_source(self) -> ServerTlsSource {
        self.0
    }
}

/// Takes a configuration that was built with rustls itself.
impl From<ServerConfig> for ServerTls {
    fn from(config: ServerConfig) -> Self {
        Arc::new(config).into()
    }
}

/// Takes a configuration that was built with rustls itself.
impl From<Arc<ServerConfig>> for ServerTls {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self(ServerTlsSource::Fixed(config))
    }
}

/// Builds a [`ServerTls`].
#[must_use]
pub struct ServerTlsBuilder {
    /// The certificates that were given to this builder.
    files: ServerCertificatesBuilder,
    /// The certificates that were built before.
    certificates: Option<ServerCertificates>,
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
    /// Adds the files of a certificate chain, the server's own first, and of its key. Usually called once; with several,
    /// each is presented for the names that are in it, and the first for all others (see [`ServerCertificates`]).
    pub fn certificate_files(
        mut self,
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        self.files = self.files.files(certificates, key);
        self
    }

    /// Adds a certificate chain and its key as PEM text.
    pub fn certificate_pem(mut self, certificates: &[u8], key: &[u8]) -> Self {
        self.files = self.files.pem(certificates, key);
        self
    }

    /// Sets the certificates, which can be replaced while the server runs. Instead of the other methods.
    pub fn certificates(mut self, certificates: &ServerCertificates) -> Self {
        self.certificates = Some(certificates.clone());
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
        let certificates = match self.certificates {
            Some(_) if !self.files.is_empty() => {
                let both = "certificates are given by `certificates` or by the builder, not both";
                return Err(TlsConfigError::Incomplete(both));
            }
            Some(certificates) => certificates,
            None => self.files.build()?,
        };
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
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
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
