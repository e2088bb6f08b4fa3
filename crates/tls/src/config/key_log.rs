//! The key log: the secrets of connections, for programs such as Wireshark that decrypt what they have captured.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustls::KeyLog;
use waterwheel_executor::{Fault, LogReporter, Report, Reporter};

use super::error::TlsConfigError;

/// The environment variable that names the file in browsers and in curl.
const VARIABLE: &str = "SSLKEYLOGFILE";

/// Where secrets are logged.
#[derive(Default)]
pub(crate) enum KeyLogChoice {
    #[default]
    Off,
    File(PathBuf),
    /// The file that SSLKEYLOGFILE names, if it is set.
    Environment,
    Custom(Arc<dyn KeyLog>),
}

impl KeyLogChoice {
    /// Returns the log, or `None` for none.
    pub(crate) fn open(self) -> Result<Option<Arc<dyn KeyLog>>, TlsConfigError> {
        let open = |path: &Path| -> Result<Option<Arc<dyn KeyLog>>, TlsConfigError> {
            Ok(Some(Arc::new(KeyLogToFile::open(path)?)))
        };
        match self {
            Self::Off => Ok(None),
            Self::File(path) => open(&path),
            Self::Environment => match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
                Some(value) => open(Path::new(&value)),
                None => Ok(None),
            },
            Self::Custom(log) => Ok(Some(log)),
        }
    }
}

/// A file in the format of NSS: a label, the client's random bytes and the secret, per line.
#[derive(Debug)]
struct KeyLogToFile {
    /// Opened for appending: a line is one write(2), so loops and processes do not mix theirs, and no lock is needed.
    file: File,
    path: String,
    has_failed: AtomicBool,
}

impl KeyLogToFile {
    fn open(path: &Path) -> Result<Self, TlsConfigError> {
        // Readable by its owner alone, whatever the umask says.
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let path = path.display().to_string();
        match opened {
            Ok(file) => Ok(Self { file, path, has_failed: AtomicBool::new(false) }),
            Err(error) => Err(TlsConfigError::Unwritable { file: path, reason: error.to_string() }),
        }
    }
}

impl KeyLog for KeyLogToFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // A log that fails costs no connection, and one report.
        if let Err(error) = (&self.file).write_all(line.as_bytes())
            && !self.has_failed.swap(true, Relaxed)
        {
            let fault =
                Fault::Degraded(format!("cannot write the key log `{}`: {error}", self.path));
            LogReporter.report(&Report { executor: "tls", fault });
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
