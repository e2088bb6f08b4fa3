//! The options of the engine.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{ClientTls, TlsConfigError};

use super::url::{InvalidNatsUrl, NatsUrl};
use crate::access::secret::Secret;

/// The options of an engine over NATS.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The servers to begin with; they tell of others.
    pub url: NatsUrl,
    /// The user; without one, the password is a token.
    pub user: Option<String>,
    /// The password, or the token.
    pub password: Option<Secret>,
    /// The authorities of the servers' certificates, in PEM; without a file, those of the system.
    pub ca: Option<PathBuf>,
    /// The beginning of all subjects, and the name of the stream. Gateways with the same prefix share their topics.
    pub prefix: String,
    /// The number of servers that hold each publication.
    pub replicas: u8,
    /// The longest time to connect, for the answer to a call, and without a sign of life.
    pub timeout: Duration,
    /// The time after which the clients of a silent gateway count as gone.
    pub presence: Duration,
}

/// Why an engine over NATS cannot be started.
#[derive(Debug, Error)]
pub enum NatsOptionError {
    /// The URL is not valid.
    #[error("engine.url: {0}")]
    Url(#[from] InvalidNatsUrl),
    /// The prefix has a character that subjects or names of streams must not have.
    #[error(
        "engine.prefix: {0:?} is not one to 64 letters, digits, hyphens and underscores, with single dots between them"
    )]
    Prefix(String),
    /// The number of replicas is not one that NATS has.
    #[error("engine.replicas: {0} is not a number from 1 to 5")]
    Replicas(u8),
    /// A user is given without a password.
    #[error("engine.user is set, but engine.password is not")]
    NoPassword,
    /// A file of authorities cannot be used.
    #[error("engine.ca: {0}")]
    Tls(#[from] TlsConfigError),
    /// A host cannot be the name of a certificate.
    #[error("engine.url: a certificate cannot be for the host {0:?}")]
    ServerName(String),
}

impl NatsOptions {
    /// Returns options for a URL, with default values for the rest.
    #[must_use]
    pub fn new(url: NatsUrl) -> Self {
        Self {
            url,
            user: None,
            password: None,
            ca: None,
            prefix: String::from("waterwheel"),
            replicas: 1,
            timeout: Duration::from_secs(5),
            presence: Duration::from_secs(15),
        }
    }

    /// Checks the options, and returns the configuration of TLS if the URL asks for it.
    ///
    /// # Errors
    /// An option cannot be used, or the file of authorities cannot be read.
    pub fn check(&self) -> Result<Option<ClientTls>, NatsOptionError> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_segment = |segment: &str| !segment.is_empty() && segment.chars().all(is_name);
        if self.prefix.len() > 64 || !self.prefix.split('.').all(is_segment) {
            return Err(NatsOptionError::Prefix(self.prefix.clone()));
        }
        if !matches!(self.replicas, 1..=5) {
            return Err(NatsOptionError::Replicas(self.replicas));
        }
        if self.user.is_some() && self.password.is_none() {
            return Err(NatsOptionError::NoPassword);
        }
        if !self.url.is_tls() {
            return Ok(None);
        }
        for server in self.url.servers() {
            server_name(&server.host)?;
        }
        let builder = match &self.ca {
            Some(path) => ClientTls::builder().trust_file(path),
            None => ClientTls::builder().trust_system_roots(),
        };
        Ok(Some(builder.build()?))
    }
}

/// Returns the name that a server's certificate has to be valid for.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, NatsOptionError> {
    ServerName::try_from(host.to_owned()).map_err(|_| NatsOptionError::ServerName(host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_options_of_nats_that_cannot_work_are_refused() {
        let options = |url: &str| NatsOptions::new(url.parse().unwrap());
        assert!(options("nats://one,two").check().is_ok());
        for prefix in ["", "a b", "a.", ".a", "a..b", "a*", ">", "ä", &"x".repeat(65)] {
            let options = NatsOptions { prefix: prefix.to_owned(), ..options("nats://a") };
            assert!(matches!(options.check(), Err(NatsOptionError::Prefix(_))), "{prefix:?}");
        }
        let dots = NatsOptions { prefix: "push.live_1".to_owned(), ..options("nats://a") };
        assert!(dots.check().is_ok());
        for replicas in [0, 6] {
            let options = NatsOptions { replicas, ..options("nats://a") };
            assert!(matches!(options.check(), Err(NatsOptionError::Replicas(_))), "{replicas}");
        }
        let no_password = NatsOptions { user: Some("ann".to_owned()), ..options("nats://a") };
        assert!(matches!(no_password.check(), Err(NatsOptionError::NoPassword)));
        let error = options("tls://a..b").check().unwrap_err();
        assert!(error.to_string().contains("a..b"), "{error}");
        let missing = NatsOptions { ca: Some("/nothing".into()), ..options("tls://a") };
        assert!(missing.check().unwrap_err().to_string().contains("/nothing"));
    }
}
