//! The settings: the values of all keys, in the form in which the parts of the gateway take them.

use std::path::PathBuf;
use std::time::Duration;

use super::engine_settings::EngineSettings;
use super::key::choice_field;
use crate::access::config::AccessConfig;
use crate::access::keys::key_set::KeySource;
use crate::access::secret::Secret;
use crate::engine::limits::HistoryLimits;
use crate::port::options::PortOptions;
use crate::protocols::{ProtocolOptions, SlowClientPolicy};
use crate::session::limits::GatewayLimits;
use crate::topic::limits::TopicLimits;

/// The values of all keys. The default is a gateway for this machine: port 7000 on loopback, open to its programs.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Address or host name to listen on.
    pub bind: String,
    /// Port to listen on; 0 lets the system choose.
    pub port: u16,
    /// Number of event loops; `None`: one for each core.
    pub loops: Option<usize>,
    /// Time limit of a drain.
    pub drain: Duration,
    /// How long readyz answers 503 before a drain refuses clients.
    pub drain_notice: Duration,
    /// Time limit for a new process to take over.
    pub take_over: Duration,
    /// The files of TLS.
    pub tls: TlsSettings,
    /// The files and texts with keys.
    pub keys: KeySettings,
    /// Permissions; their keys come from [`keys`](Self::keys), their limits of topics from [`topics`](Self::topics).
    pub access: AccessConfig,
    /// The limits of topics and filters.
    pub topics: TopicLimits,
    /// The limits of clients; their limits of topics come from [`topics`](Self::topics).
    pub limits: GatewayLimits,
    /// The limits of histories.
    pub history: HistoryLimits,
    /// The protocols of clients.
    pub protocols: ProtocolOptions,
    /// The port and its connections.
    pub port_options: PortOptions,
    /// The engine.
    pub engine: EngineSettings,
    /// The watchdog reports work that holds a loop for longer than this; `None`: no watchdog.
    pub watchdog: Option<Duration>,
    /// True if the gateway makes demo traffic.
    pub demo: bool,
    /// The log.
    pub log: LogSettings,
}

/// The files of TLS, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate chain; `None`: the port speaks plain text.
    pub certificate: Option<PathBuf>,
    /// The key of the first certificate.
    pub key: Option<PathBuf>,
    /// The authorities of clients; `Some`: clients must present a certificate of one of them.
    pub client_ca: Option<PathBuf>,
}

/// Where the keys of tokens and the admin key come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySettings {
    /// A secret of HS256.
    pub secret: Option<Secret>,
    /// A file with a secret of HS256.
    pub secret_file: Option<PathBuf>,
    /// Files with public keys in PEM.
    pub public_keys: Vec<PathBuf>,
    /// JWKS files.
    pub jwks: Vec<PathBuf>,
    /// The admin key.
    pub admin: Option<Secret>,
}

/// The log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// The form of a line.
    pub format: LogFormat,
    /// The least level that is written.
    pub level: LogLevel,
}

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `time=… level=info message="…"`.
    #[default]
    Logfmt,
    /// An object of JSON.
    Json,
}

/// The level of a line of the log, the most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// A fault: something does not work.
    Error,
    /// A fault that the gateway survives, or a client that was refused.
    Warn,
    /// The life of the gateway: start, reload, take-over, drain.
    #[default]
    Info,
    /// Details that help to find a fault.
    Debug,
}

choice_field!(LogFormat {
    "logfmt" => LogFormat::Logfmt,
    "json" => LogFormat::Json,
});

choice_field!(SlowClientPolicy {
    "drop" => SlowClientPolicy::Drop,
    "disconnect" => SlowClientPolicy::Disconnect,
});

choice_field!(LogLevel {
    "error" => LogLevel::Error,
    "warn" => LogLevel::Warn,
    "info" => LogLevel::Info,
    "debug" => LogLevel::Debug,
});

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            bind: String::from("127.0.0.1"),
            port: 7000,
            loops: None,
            drain: Duration::from_secs(10),
            drain_notice: Duration::ZERO,
            // A new process reads its files and starts its loops: milliseconds, or seconds on a busy machine.
            take_over: Duration::from_secs(30),
            tls: TlsSettings::default(),
            keys: KeySettings::default(),
            access: AccessConfig::default(),
            topics: TopicLimits::default(),
            limits: GatewayLimits::default(),
            history: HistoryLimits::default(),
            protocols: ProtocolOptions::default(),
            port_options: PortOptions::default(),
            engine: EngineSettings::default(),
            watchdog: Some(Duration::from_millis(100)),
            demo: false,
            log: LogSettings::default(),
        }
    }
}

impl GatewaySettings {
    /// Returns the number of event loops.
    #[must_use]
    pub fn loop_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        self.loops.unwrap_or_else(cores)
    }

    /// Fills in what several parts share: the keys of tokens, the limits of topics in tokens.
    pub(super) fn complete(&mut self) {
        let keys = &self.keys;
        let secret = keys.secret.clone().map(KeySource::Secret);
        let secret_file = keys.secret_file.clone().map(KeySource::SecretFile);
        let public_keys = keys.public_keys.iter().cloned().map(KeySource::PemFile);
        let jwks = keys.jwks.iter().cloned().map(KeySource::JwksFile);
        self.access.token_keys =
            secret.into_iter().chain(secret_file).chain(public_keys).chain(jwks).collect();
        self.access.claims.topics = self.topics;
        self.limits.topic = self.topics;
        self.access.admin_key = keys.admin.clone();
    }
}
