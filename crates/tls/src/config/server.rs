//! The server's configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateRevocationListDer;
use rustls::{CipherSuite, KeyLog, NamedGroup, ServerConfig};

use super::certificates::{ServerCertificates, ServerCertificatesBuilder};
use super::chooser::ConfigChooser;
use super::client_certificates::ClientCertificates;
use super::error::TlsConfigError;
use super::pem;
use super::protocol::TlsProtocolOptions;
use super::resumption::ServerResumption;

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
    /// Returns a builder: TLS 1.2 and 1.3, no certificates of clients, sessions resumed from a cache of 1,024, no key
    /// log. Early data is never accepted.
    pub fn builder() -> ServerTlsBuilder {
        ServerTlsBuilder {
            files: ServerCertificates::builder(),
            certificates: None,
            clients: ClientCertificates::Ignored,
            revoked: Vec::new(),
            resumption: ServerResumption::default(),
            protocol: TlsProtocolOptions::default(),
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
    /// Errors are kept until [`build`](Self::build).
    revoked: Vec<Result<Vec<CertificateRevocationListDer<'static>>, TlsConfigError>>,
    resumption: ServerResumption,
    protocol: TlsProtocolOptions,
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

    /// Refuses certificates of clients that are revoked in this file: PEM, or one list in DER. Needed then are the lists
    /// of all authorities of a chain: without one, a certificate counts as revoked. The age of a list is not checked.
    pub fn revocation_list_file(mut self, path: impl AsRef<Path>) -> Self {
        self.revoked.push(pem::load_revocation_lists(path));
        self
    }

    /// Sets the application protocols, most preferred first. Default: none. A client that offers only others is
    /// refused.
    pub fn alpn(mut self, names: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        self.protocol.alpn = names.into_iter().map(Into::into).collect();
        self
    }

    /// Speaks TLS 1.3 only. Default: 1.2 too.
    pub fn tls13_only(mut self) -> Self {
        self.protocol.is_tls13_only = true;
        self
    }

    /// Uses these cipher suites only, most preferred first. Default: all of the provider, all of which are sound.
    pub fn cipher_suites(mut self, suites: impl IntoIterator<Item = CipherSuite>) -> Self {
        self.protocol.cipher_suites = Some(suites.into_iter().collect());
        self
    }

    /// Uses these groups for key exchange only, most preferred first. Default: all of the provider.
    pub fn key_exchanges(mut self, groups: impl IntoIterator<Item = NamedGroup>) -> Self {
        self.protocol.key_exchanges = Some(groups.into_iter().collect());
        self
    }

    /// Keeps the sessions of the last clients, at most this many, so that they can be resumed. Default: 1,024; at most
    /// 1,048,576; with 0 and without [stateless tickets](Self::stateless_tickets), no session is resumed.
    ///
    /// A session is some 200 bytes, plus the certificates that the client presented; one of more than 16 KiB is not kept.
    /// A session is resumed within 24 hours; one of TLS 1.3 once, and a handshake makes as many as there are
    /// [tickets](Self::tickets). A resumed connection can be resumed in turn.
    pub fn session_cache(mut self, sessions: usize) -> Self {
        self.resumption.cached_sessions = sessions;
        self
    }

    /// Sets the number of tickets that a client of TLS 1.3 gets after its handshake: how many connections it can resume
    /// at once. Default: 2; at most 16; with 0, no session of TLS 1.3 is resumed.
    pub fn tickets(mut self, count: usize) -> Self {
        self.resumption.tickets = count;
        self
    }

    /// Puts sessions into the tickets, encrypted, instead of into the cache: any number of clients can resume, and the
    /// server stores nothing. The key is made anew every six hours and lives for twelve, in memory: who reads it there
    /// can decrypt the connections that were resumed with it. Default: off.
    pub fn stateless_tickets(mut self) -> Self {
        self.resumption.has_stateless_tickets = true;
        self
    }

    /// Appends the secrets of all connections to a file, in the format of NSS, which Wireshark reads: whoever has the
    /// file can decrypt them. Created with mode 0600. Default: no secret is logged, whatever the environment says.
    pub fn key_log_file(mut self, path: impl AsRef<Path>) -> Self {
        self.protocol.log_keys_to(path.as_ref().into());
        self
    }

    /// Appends the secrets of all connections to the file that the environment variable SSLKEYLOGFILE names, if it is
    /// set: see [`key_log_file`](Self::key_log_file).
    pub fn key_log_from_environment(mut self) -> Self {
        self.protocol.log_keys_as_environment_says();
        self
    }

    /// Gives the secrets of all connections to `log`, which is called on the loops and must not block.
    pub fn key_log(mut self, log: Arc<dyn KeyLog>) -> Self {
        self.protocol.log_keys_with(log);
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
        let provider = self.protocol.provider()?;
        let revoked: Result<Vec<_>, _> = self.revoked.into_iter().collect();
        let verifier = self.clients.verifier(&provider, revoked?.concat())?;
        let versions = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(self.protocol.versions())
            .map_err(TlsConfigError::invalid)?;
        let builder = match verifier {
            Some(verifier) => versions.with_client_cert_verifier(verifier),
            None => versions.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = self.protocol.checked_alpn()?;
        self.resumption.apply(&mut config)?;
        if let Some(log) = self.protocol.key_log.open()? {
            config.key_log = log;
        }
        Ok(config.into())
    }
}

impl std::fmt::Debug for ServerTlsBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTlsBuilder").field("clients", &self.clients).finish_non_exhaustive()
    }
}
