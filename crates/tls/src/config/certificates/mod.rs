//! The certificates of a server, by name, which can be replaced while it runs.
//!
//! A handshake takes the set of the moment under a read lock that is held for one clone of an `Arc`; a reload reads and
//! checks the files first, exchanges the set under the write lock, and frees the old one after it. Connections that
//! exist are not affected.

mod builder;
mod set;

use std::fmt;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use self::builder::CertificateSources;
pub use self::builder::ServerCertificatesBuilder;
use self::set::CertificateSet;
use super::error::TlsConfigError;

/// The certificates that a server presents, by the name that the client asks for (SNI). A clone is the same set: what
/// one replaces is replaced for all, and for every [`ServerTls`](crate::ServerTls) that was built with it.
///
/// ```no_run
/// use waterwheel_tls::{ServerCertificates, ServerTls};
///
/// let certificates = ServerCertificates::from_files("server.crt", "server.key")?;
/// let config = ServerTls::builder().certificates(&certificates).build()?;
/// // Later, when the files have changed:
/// if let Err(error) = certificates.reload() {
///     eprintln!("the certificates stay as they are: {error}");
/// }
/// # Ok::<(), waterwheel_tls::TlsConfigError>(())
/// ```
///
/// Several certificates:
///
/// ```no_run
/// use waterwheel_tls::ServerCertificates;
///
/// let certificates = ServerCertificates::builder()
///     .files("example.org.crt", "example.org.key") // the names that are in it; the default
///     .files("wildcard.crt", "wildcard.key").for_names(["*.example.net"])
///     .build()?;
/// # Ok::<(), waterwheel_tls::TlsConfigError>(())
/// ```
///
/// # The choice
///
/// The certificate of the exact name, else of the wildcard that matches (see
/// [`ServerNameMap`](crate::ServerNameMap)), else the default, which is the first one given; or the client is refused
/// ([`refuse_unknown_names`](ServerCertificatesBuilder::refuse_unknown_names)). A name may have several certificates
/// with keys of different kinds, say ECDSA and RSA: the first one whose signatures the client can check is presented.
///
/// # Sessions
///
/// A client that resumes a session is sent no certificate, so sessions from before a reload are resumed after it, until
/// they expire. After a key was stolen that is not enough: build another `ServerTls`, which knows no earlier session.
#[derive(Clone)]
pub struct ServerCertificates(Arc<SharedCertificates>);

struct SharedCertificates {
    /// Written by `reload` and `replace`, read by handshakes. Nothing is called or freed while it is locked.
    current: RwLock<CertificateState>,
    /// Held by a reload, so that one with older files does not end after one with newer ones. Handshakes do not take it.
    reloading: Mutex<()>,
}

#[derive(Clone)]
struct CertificateState {
    set: Arc<CertificateSet>,
    sources: Arc<CertificateSources>,
}

impl ServerCertificates {
    /// Reads one certificate chain, the server's own certificate first, and its key.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn from_files(
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsConfigError> {
        Self::builder().files(certificates, key).build()
    }

    /// Takes one certificate chain, the server's own certificate first, and its key, as PEM text.
    ///
    /// # Errors
    /// [`TlsConfigError`] says the reason.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsConfigError> {
        Self::builder().pem(certificates, key).build()
    }

    /// Returns a builder for several certificates.
    pub fn builder() -> ServerCertificatesBuilder {
        ServerCertificatesBuilder::new()
    }

    fn new(sources: CertificateSources) -> Result<Self, TlsConfigError> {
        let set = Arc::new(sources.load()?);
        let current = RwLock::new(CertificateState { set, sources: Arc::new(sources) });
        Ok(Self(Arc::new(SharedCertificates { current, reloading: Mutex::new(()) })))
    }

    /// Reads the files again. Handshakes that begin afterwards use them; connections stay. Certificates that were not
    /// given as files stay too.
    ///
    /// Reads files on the calling thread, so a program with much traffic calls it on another thread than a loop's.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason. The certificates are those from before.
    pub fn reload(&self) -> Result<(), TlsConfigError> {
        let reloading = self.0.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = self.current().sources;
        let set = Arc::new(sources.load()?);
        let old = self.exchange(CertificateState { set, sources });
        // Keys of the program's own are freed without a lock.
        drop(reloading);
        drop(old);
        Ok(())
    }

    /// Presents the certificates of `other` from now on, and reads its files in a [`reload`](Self::reload). The two
    /// stay different: what is replaced in `other` afterwards has no effect here.
    pub fn replace(&self, other: &ServerCertificates) {
        let new = other.current();
        let reloading = self.0.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.exchange(new);
        drop(reloading);
        drop(old);
    }

    /// Returns the names and wildcards that have a certificate, in lower case and sorted.
    pub fn names(&self) -> Vec<String> {
        self.current().set.names()
    }

    fn current(&self) -> CertificateState {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the state from before.
    #[must_use]
    fn exchange(&self, new: CertificateState) -> CertificateState {
        let mut current = self.0.current.write().unwrap_or_else(PoisonError::into_inner);
        mem::replace(&mut *current, new)
    }
}

/// Also for a [`rustls::ServerConfig`] of the program's own.
impl ResolvesServerCert for ServerCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let set = self.0.current.read().unwrap_or_else(PoisonError::into_inner).set.clone();
        set.choose(hello.server_name(), hello.signature_schemes())
    }
}

impl fmt::Debug for ServerCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerCertificates").field(&self.names()).finish()
    }
}
