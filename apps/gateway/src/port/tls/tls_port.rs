//! TLS on the gateway's port: the files, the handlers, and the reload.
//!
//! ```text
//!   files ──► ServerTls ──► new connections: TlsHandler ⇄ HandshakeMonitor ⇄ AlpnHandler ⇄ …
//!     ▲ SIGHUP: reload, off the loops; replaces the ServerTls, or leaves it as it is
//! ```
//!
//! 1. A connection keeps the configuration with which it began. A reload changes what later connections get: the
//!    certificate, its key and the authorities of clients together, or, if a file is not usable, nothing. Sessions of an
//!    earlier configuration are not resumed: a client that is no longer trusted gains nothing by a ticket.
//! 2. A connection counts against the limits of connections during its handshake too, which has a time limit.
//! 3. close_notify of a client is its end of input, as FIN is without TLS: the client gets its answers. FIN
//!    without close_notify closes the connection: the last line may be incomplete.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel::channel::Edit;
use waterwheel::executor::{Error, Reporter};
use waterwheel::tls::{
    ClientCertificates, OnCloseNotify, ServerCertificates, ServerTls, TlsConfigError, TlsHandler,
    TlsOptions,
};

use crate::port::tls::handshake_monitor::{HandshakeCounters, HandshakeCounts, HandshakeMonitor};

/// The files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the gateway's own certificate first.
    pub certificate: PathBuf,
    /// The key of the first certificate.
    pub key: PathBuf,
    /// The authorities of clients; `Some`: clients must present a certificate of one of them.
    pub client_ca: Option<PathBuf>,
}

/// TLS on a port. Loops take the present configuration for each connection, the thread that reloads replaces it, each
/// under the lock; files are read without it.
pub struct TlsPort {
    files: TlsFiles,
    current: Mutex<LoadedFiles>,
    options: TlsOptions,
    counters: Arc<HandshakeCounters>,
    reporter: Arc<dyn Reporter>,
}

/// The content of the files at one time.
struct LoadedFiles {
    config: ServerTls,
    /// The names in the certificate.
    names: Vec<String>,
}

impl TlsPort {
    /// Reads the files. Failed handshakes go to the reporter.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason.
    pub fn load(files: TlsFiles, reporter: &Arc<dyn Reporter>) -> Result<Self, TlsConfigError> {
        let options = TlsOptions::builder().on_close_notify(OnCloseNotify::HalfClose);
        Ok(Self {
            current: Mutex::new(files.load()?),
            files,
            options: options.build().unwrap_or_default(),
            counters: Arc::default(),
            reporter: reporter.clone(),
        })
    }

    /// Reads the files again. New connections get what they say now.
    ///
    /// # Errors
    /// [`TlsConfigError`] names the file and the reason; new connections get what was read before.
    pub fn reload(&self) -> Result<(), TlsConfigError> {
        let loaded = self.files.load()?;
        let before = std::mem::replace(&mut *self.lock(), loaded);
        drop(before); // Not under the lock.
        Ok(())
    }

    /// Returns for the operator what new connections get: the files, and the names in the certificate.
    #[must_use]
    pub fn description(&self) -> String {
        let names = self.lock().names.join(", ");
        let TlsFiles { certificate, key, client_ca } = &self.files;
        let (certificate, key) = (certificate.display(), key.display());
        let mut text = format!("the certificate of {certificate} ({names}) with the key of {key}");
        if let Some(client_ca) = client_ca {
            text += &format!(", for clients with a certificate of {}", client_ca.display());
        }
        text
    }

    /// Counts the handshakes so far.
    #[must_use]
    pub fn handshakes(&self) -> HandshakeCounts {
        self.counters.counts()
    }

    fn lock(&self) -> MutexGuard<'_, LoadedFiles> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the handlers of TLS to the pipeline of a client, before all others.
    ///
    /// # Errors
    /// The pipeline has handlers of these names.
    pub fn add_handlers(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        let config = self.lock().config.clone();
        edit.add_last("tls", TlsHandler::server(config).with_options(self.options))?;
        let monitor = HandshakeMonitor::new(self.counters.clone(), self.reporter.clone());
        edit.add_last("handshake", monitor)?;
        Ok(())
    }
}

impl TlsFiles {
    fn load(&self) -> Result<LoadedFiles, TlsConfigError> {
        let certificates = ServerCertificates::from_files(&self.certificate, &self.key)?;
        let mut config = ServerTls::builder().certificates(&certificates).alpn(["http/1.1"]);
        if let Some(client_ca) = &self.client_ca {
            config = config.client_certificates(ClientCertificates::required_from_file(client_ca)?);
        }
        Ok(LoadedFiles { config: config.build()?, names: certificates.names() })
    }
}

impl fmt::Debug for TlsPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handshakes = self.handshakes();
        let mut debug = f.debug_struct("TlsPort");
        debug.field("files", &self.files).field("handshakes", &handshakes).finish_non_exhaustive()
    }
}
