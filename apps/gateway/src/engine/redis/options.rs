//! The options of the Redis engine.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use waterwheel::tls::rustls::pki_types::ServerName;
use waterwheel::tls::{ClientTls, TlsConfigError};

use super::connection::address::{InvalidRedisUrl, RedisUrl};
use crate::access::secret::Secret;

/// The options of a Redis engine.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The servers. In a cluster, some of them are enough.
    pub url: RedisUrl,
    /// The user; without one, the password is that of the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The authorities of the server's certificate, in PEM; without a file, those of the system.
    pub ca: Option<PathBuf>,
    /// The beginning of all keys and channels. Gateways with the same prefix share their topics.
    pub prefix: String,
    /// The longest time to connect, and to wait for a sign of life while an answer is due.
    pub timeout: Duration,
    /// The time after which the clients of a silent gateway count as gone.
    pub presence: Duration,
}

/// Why a Redis engine cannot be started.
#[derive(Debug, Error)]
pub enum RedisOptionError {
    /// The URL is not valid.
    #[error("engine.url: {0}")]
    Url(#[from] InvalidRedisUrl),
    /// The prefix has a character that keys must not have.
    #[error(
        "engine.prefix: {0:?} is empty, longer than 64 bytes, or has braces, white space or control characters"
    )]
    Prefix(String),
    /// A file of authorities cannot be used.
    #[error("engine.ca: {0}")]
    Tls(#[from] TlsConfigError),
    /// A host cannot be the name of a certificate.
    #[error("engine.url: a certificate cannot be for the host {0:?}")]
    ServerName(String),
}

impl RedisOptions {
    /// Returns options for a URL, with default values for the rest.
    #[must_use]
    pub fn new(url: RedisUrl) -> Self {
        Self {
            url,
            user: None,
            password: None,
            ca: None,
            prefix: "waterwheel".to_owned(),
            timeout: Duration::from_secs(5),
            presence: Duration::from_secs(15),
        }
    }

    /// Checks the options, and returns the configuration of TLS if the URL asks for it.
    ///
    /// # Errors
    /// An option cannot be used, or the file of authorities cannot be read.
    pub fn check(&self) -> Result<Option<ClientTls>, RedisOptionError> {
        let is_bad = |c: char| c == '{' || c == '}' || c.is_whitespace() || c.is_control();
        if self.prefix.is_empty() || self.prefix.len() > 64 || self.prefix.contains(is_bad) {
            return Err(RedisOptionError::Prefix(self.prefix.clone()));
        }
        if self.url.is_tls {
            for address in &self.url.addresses {
                server_name(&address.host)?;
            }
        }
        if !self.url.is_tls {
            return Ok(None);
        }
        let builder = match &self.ca {
            Some(path) => ClientTls::builder().trust_file(path),
            None => ClientTls::builder().trust_system_roots(),
        };
        Ok(Some(builder.build()?))
    }

    /// Returns the beginning of keys and channels: the braces make it the part that selects the slot of a cluster.
    pub(super) fn key_prefix(&self) -> String {
        format!("{{{}}}:", self.prefix)
    }
}

/// Returns the name that a server's certificate has to be valid for.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, RedisOptionError> {
    ServerName::try_from(host.to_owned()).map_err(|_| RedisOptionError::ServerName(host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_options_that_cannot_work_are_refused() {
        let options = |url: &str| RedisOptions::new(url.parse().unwrap());
        assert!(options("redis://a").check().is_ok());
        for prefix in ["", "a b", "{a}", "a}", "\n", &"x".repeat(65)] {
            let options = RedisOptions { prefix: prefix.to_owned(), ..options("redis://a") };
            assert!(matches!(options.check(), Err(RedisOptionError::Prefix(_))), "{prefix:?}");
        }
        let error = options("rediss://under_score.example,a..b").check().unwrap_err();
        assert!(error.to_string().contains("a..b"), "{error}");
        let missing = RedisOptions { ca: Some("/nothing".into()), ..options("rediss://a") };
        assert!(missing.check().unwrap_err().to_string().contains("/nothing"));
    }
}
