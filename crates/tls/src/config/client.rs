//! The client's configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::{CipherSuite, ClientConfig, KeyLog, NamedGroup, RootCertStore};

use super::error::TlsConfigError;
use super::identity::Identity;
use super::pem::{self, PemText};
use super::protocol::TlsProtocolOptions;
use super::resumption::{MAX_SESSIONS, check_limit};
use super::roots;

/// The configuration of a client, for [`TlsHandler::client`](crate::TlsHandler::client). A clone is the same
/// configuration: all connections share it.
///
/// ```no_run
/// use waterwheel_tls::ClientTls;
///
/// let config = ClientTls::builder().trust_system_roots().build()?;
/// # Ok::<(), waterwheel_tls::TlsConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Returns a builder: TLS 1.2 and 1.3, the certificate and the name of the server verified, sessions resumed, no
    /// early data, no key log.
    pub fn builder() -> ClientTlsBuilder {
        ClientTlsBuilder {
            roots: Vec::new(),
            revoked: Vec::new(),
            verifier: None,
            identity: None,
            cached_sessions: ClientTlsBuilder::DEFAULT_SESSIONS,
            protocol: TlsProtocolOptions::default(),
        }
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
    roots: Vec<TrustSource>,
    /// Errors are kept until [`build`](Self::build).
    revoked: Vec<Result<Vec<CertificateRevocationListDer<'static>>, TlsConfigError>>,
    /// Instead of roots.
    verifier: Option<Arc<dyn ServerCertVerifier>>,
    identity: Option<Result<Identity, TlsConfigError>>,
    cached_sessions: usize,
    protocol: TlsProtocolOptions,
}

/// Where roots are taken from.
enum TrustSource {
    Pem(Result<PemText, TlsConfigError>),
    Store(Arc<RootCertStore>),
    System,
    Environment,
}

impl ClientTlsBuilder {
    /// The sessions that rustls keeps by default.
    const DEFAULT_SESSIONS: usize = 256;

    /// Trusts the certificates of a file as roots. Roots may be given several times, in any way.
    pub fn trust_file(mut self, path: impl AsRef<Path>) -> Self {
        self.roots.push(TrustSource::Pem(PemText::read(path.as_ref())));
        self
    }

    /// Trusts certificates as roots, given as PEM text; errors call the text `source`.
    pub fn trust_pem(mut self, source: &str, text: &[u8]) -> Self {
        self.roots.push(TrustSource::Pem(Ok(PemText::new(source, text))));
        self
    }

    /// Trusts these roots, from a crate that has them or from [`pem::load_roots`].
    pub fn trust_roots(mut self, roots: Arc<RootCertStore>) -> Self {
        self.roots.push(TrustSource::Store(roots));
        self
    }

    /// Trusts the roots of the operating system, from the file where the distributions of Linux keep them.
    pub fn trust_system_roots(mut self) -> Self {
        self.roots.push(TrustSource::System);
        self
    }

    /// Trusts the roots of the file that the environment variable SSL_CERT_FILE names, or, if it is not set, those of
    /// the operating system. Without this, the variable has no effect.
    pub fn trust_environment_roots(mut self) -> Self {
        self.roots.push(TrustSource::Environment);
        self
    }

    /// Refuses certificates of servers that are revoked in this file: PEM, or one list in DER. Needed then are the lists
    /// of all authorities of a chain: without one, a certificate counts as revoked. The age of a list is not checked.
    pub fn revocation_list_file(mut self, path: impl AsRef<Path>) -> Self {
        self.revoked.push(pem::load_revocation_lists(path));
        self
    }

    /// Lets `verifier` decide about the certificates of servers, instead of roots. Called on the loop, so it must not
    /// block; a panic costs the one connection. The text of its error is the error of the handshake.
    ///
    /// Dangerous: a verifier that accepts what it should not leaves the connection open to anybody on the way.
    pub fn dangerous_verifier(mut self, verifier: Arc<dyn ServerCertVerifier>) -> Self {
        self.verifier = Some(verifier);
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
        self.protocol.alpn = names.into_iter().map(Into::into).collect();
        self
    }

    /// Speaks TLS 1.3 only. Default: 1.2 too.
    pub fn tls13_only(mut self) -> Self {
        self.protocol.is_tls13_only = true;
        self
    }

    /// Offers these cipher suites only, most preferred first. Default: all of the provider, all of which are sound.
    pub fn cipher_suites(mut self, suites: impl IntoIterator<Item = CipherSuite>) -> Self {
        self.protocol.cipher_suites = Some(suites.into_iter().collect());
        self
    }

    /// Offers these groups for key exchange only, most preferred first. Default: all of the provider.
    pub fn key_exchanges(mut self, groups: impl IntoIterator<Item = NamedGroup>) -> Self {
        self.protocol.key_exchanges = Some(groups.into_iter().collect());
        self
    }

    /// Keeps sessions for connections that resume them, at most this many, and at most 8 per server. Default: 256; at
    /// most 1,048,576; with 0, no session is resumed. Connections of all loops share them.
    pub fn session_cache(mut self, sessions: usize) -> Self {
        self.cached_sessions = sessions;
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
    pub fn build(mut self) -> Result<ClientTls, TlsConfigError> {
        let provider = self.protocol.provider()?;
        let verifier = self.take_verifier(&provider)?;
        // `dangerous` is the way of rustls to any verifier; ours checks everything unless the program brings its own.
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(self.protocol.versions())
            .map_err(TlsConfigError::invalid)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.identity.transpose()? {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.parse()?;
                let built = builder.with_client_auth_cert(chain, key);
                built.map_err(|reason| identity.refused(reason))?
            }
        };
        config.alpn_protocols = self.protocol.checked_alpn()?;
        check_limit("session_cache", self.cached_sessions, MAX_SESSIONS)?;
        config.resumption = match self.cached_sessions {
            0 => Resumption::disabled(),
            sessions => Resumption::in_memory_sessions(sessions),
        };
        if let Some(log) = self.protocol.key_log.open()? {
            config.key_log = log;
        }
        Ok(config.into())
    }

    /// Returns the verifier that was given, or one that checks names, dates, chains up to the roots, and lists of
    /// revoked certificates.
    fn take_verifier(
        &mut self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
        let revoked: Result<Vec<_>, _> = self.revoked.drain(..).collect();
        let revoked = revoked?.concat();
        if let Some(verifier) = self.verifier.take() {
            return match self.roots.is_empty() && revoked.is_empty() {
                true => Ok(verifier),
                false => Err(TlsConfigError::Incomplete(
                    "a verifier of the program's own takes no roots or revocation lists",
                )),
            };
        }
        if self.roots.is_empty() {
            return Err(TlsConfigError::Incomplete("a TLS client needs roots to trust"));
        }
        let mut store = RootCertStore::empty();
        for source in self.roots.drain(..) {
            match source {
                TrustSource::Pem(text) => text?.add_roots(&mut store)?,
                TrustSource::Store(roots) => store.extend(roots.roots.iter().cloned()),
                TrustSource::System => roots::add_system_roots(&mut store)?,
                TrustSource::Environment => roots::add_environment_roots(&mut store)?,
            }
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone());
        let built = verifier.with_crls(revoked).build();
        Ok(built.map_err(TlsConfigError::invalid)?)
    }
}

impl std::fmt::Debug for ClientTlsBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTlsBuilder").field("roots", &self.roots.len()).finish_non_exhaustive()
    }
}
