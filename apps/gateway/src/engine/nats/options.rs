//! The options of the engine, and its URL.

use std::time::Duration;

use thiserror::Error;
use waterwheel::tls::ClientTls;
use waterwheel::tls::rustls::pki_types::ServerName;

use crate::access::secret::Secret;

/// The port of NATS.
const DEFAULT_PORT: u16 = 4222;

/// How to reach NATS, and how to use it.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The servers to begin with; they tell of others.
    pub servers: Vec<NatsServer>,
    /// The credentials.
    pub credentials: NatsCredentials,
    /// The configuration of TLS; `None`: connections are in the clear, and a server that requires TLS is refused.
    pub tls: Option<ClientTls>,
    /// The name that the servers' certificates have to have; `None`: the host of the URL.
    pub tls_name: Option<String>,
    /// The beginning of all subjects, and the name of the stream. Gateways with the same prefix share their topics.
    pub prefix: String,
    /// The number of servers that hold each publication.
    pub replicas: u8,
    /// Time limit of a call, and of making a connection.
    pub request_timeout: Duration,
    /// Time without a byte of the server after which it is asked for one; after twice this time it counts as lost.
    pub ping_interval: Duration,
    /// The first time between two attempts to connect; it doubles.
    pub first_back_off: Duration,
    /// The longest time between two attempts to connect.
    pub longest_back_off: Duration,
}

impl NatsOptions {
    /// Returns the options of a URL, with default times.
    ///
    /// ```
    /// use waterwheel_gateway::engine::nats::options::NatsOptions;
    ///
    /// let options = NatsOptions::from_url("nats://ann:secret@one:4222,two").unwrap();
    /// let servers: Vec<_> = options.servers.iter().map(ToString::to_string).collect();
    /// assert_eq!(servers, ["one:4222", "two:4222"]);
    /// ```
    ///
    /// # Errors
    /// The URL is not of the form `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT][,…]`.
    pub fn from_url(url: &str) -> Result<Self, InvalidNatsUrl> {
        let rest = url.strip_prefix("nats://").ok_or(InvalidNatsUrl::Scheme)?;
        let (credentials, hosts) = match rest.rsplit_once('@') {
            None => (NatsCredentials::None, rest),
            Some((credentials, hosts)) => (NatsCredentials::parse(credentials)?, hosts),
        };
        let servers: Option<Vec<_>> =
            hosts.trim_end_matches('/').split(',').map(NatsServer::parse).collect();
        Ok(Self {
            servers: servers.ok_or(InvalidNatsUrl::Host)?,
            credentials,
            tls: None,
            tls_name: None,
            prefix: String::from("waterwheel"),
            replicas: 1,
            request_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(5),
            first_back_off: Duration::from_millis(100),
            longest_back_off: Duration::from_secs(5),
        })
    }
}

impl NatsOptions {
    /// Checks that the options can work.
    pub(super) fn check(&self) -> Result<(), InvalidNatsOption> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let is_segment = |segment: &str| !segment.is_empty() && segment.chars().all(is_name);
        if self.prefix.len() > 64 || !self.prefix.split('.').all(is_segment) {
            return Err(InvalidNatsOption::Prefix(self.prefix.clone()));
        }
        if !matches!(self.replicas, 1..=5) {
            return Err(InvalidNatsOption::Replicas(self.replicas));
        }
        if self.servers.is_empty() {
            return Err(InvalidNatsOption::NoServer);
        }
        let hosts = self.servers.iter().map(|server| &server.host);
        for name in hosts.chain(&self.tls_name).filter(|_| self.tls.is_some()) {
            let is_name = ServerName::try_from(name.as_str()).is_ok();
            if !is_name {
                return Err(InvalidNatsOption::ServerName(name.clone()));
            }
        }
        Ok(())
    }
}

/// Why an engine cannot be started with its options.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidNatsOption {
    /// The prefix has a character that subjects or names of streams must not have.
    #[error(
        "engine.prefix: {0:?} is not one to 64 letters, digits, hyphens and underscores, with single dots between them"
    )]
    Prefix(String),
    /// The number of replicas is not one that NATS has.
    #[error("engine.replicas: {0} is not a number from 1 to 5")]
    Replicas(u8),
    /// No server is given.
    #[error("engine.url: it has no server")]
    NoServer,
    /// A host cannot be the name of a certificate.
    #[error("engine.url: a certificate cannot be for the host {0:?}")]
    ServerName(String),
}

/// The credentials of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsCredentials {
    /// No credentials.
    None,
    /// A token.
    Token(Secret),
    /// A user and a password.
    User {
        /// The name of the user.
        user: String,
        /// The password.
        password: Secret,
    },
}

impl NatsCredentials {
    fn parse(text: &str) -> Result<Self, InvalidNatsUrl> {
        match text.split_once(':') {
            None => Ok(Self::Token(Secret::new(percent_decoded(text)?))),
            Some((user, password)) => Ok(Self::User {
                user: percent_decoded(user)?,
                password: Secret::new(percent_decoded(password)?),
            }),
        }
    }
}

/// Why a text is not the URL of an engine. The text is not quoted: it may have a password.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidNatsUrl {
    /// Another scheme.
    #[error("a URL of NATS begins with nats://")]
    Scheme,
    /// A host is empty, or a port is not a number.
    #[error(
        "a URL of NATS has hosts with commas between them, each with a port or without: nats://one:4222,two"
    )]
    Host,
    /// An escape is not `%` and two hexadecimal digits of UTF-8.
    #[error("the credentials in the URL of NATS have an invalid escape; a % is written as %25")]
    Escape,
}

/// A server of NATS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsServer {
    /// The host name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl NatsServer {
    /// Reads `HOST[:PORT]`, with brackets around an address of IPv6.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                rest.split_once(']').map(|(host, port)| (host, port.strip_prefix(':')))?
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).ok()?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }
}

impl std::fmt::Display for NatsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

fn percent_decoded(text: &str) -> Result<String, InvalidNatsUrl> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.ok_or(InvalidNatsUrl::Escape)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| InvalidNatsUrl::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_a_url_of_nats_has_credentials_and_servers() {
        let of = |url| {
            let options = NatsOptions::from_url(url).unwrap();
            let servers: Vec<_> = options.servers.iter().map(ToString::to_string).collect();
            (options.credentials, servers.join(" "))
        };
        assert_eq!(of("nats://a"), (NatsCredentials::None, "a:4222".to_owned()));
        assert_eq!(of("nats://a:1,[::1]:2,[::2]/").1, "a:1 [::1]:2 [::2]:4222");
        let token = NatsCredentials::Token(Secret::new("s3c:ret"));
        assert_eq!(of("nats://s3c%3aret@a").0, token);
        let user = NatsCredentials::User { user: "a@b".to_owned(), password: Secret::new("x%") };
        assert_eq!(of("nats://a%40b:x%25@a").0, user);
    }

    #[test]
    fn g08_options_of_nats_that_cannot_work_are_refused() {
        let options = || NatsOptions::from_url("nats://one,two").unwrap();
        assert_eq!(options().check(), Ok(()));
        for prefix in ["", "a b", "a.", ".a", "a..b", "a*", ">", "ä", &"x".repeat(65)] {
            let options = NatsOptions { prefix: prefix.to_owned(), ..options() };
            assert_eq!(options.check(), Err(InvalidNatsOption::Prefix(prefix.to_owned())));
        }
        let options = NatsOptions { prefix: "push.live_1".to_owned(), replicas: 6, ..options() };
        assert_eq!(options.check(), Err(InvalidNatsOption::Replicas(6)));
    }

    #[test]
    fn g08_an_invalid_url_of_nats_is_refused_without_quoting_its_password() {
        for (url, error) in [
            ("redis://a", InvalidNatsUrl::Scheme),
            ("nats://", InvalidNatsUrl::Host),
            ("nats://a,,b", InvalidNatsUrl::Host),
            ("nats://a:port", InvalidNatsUrl::Host),
            ("nats://a:1:2", InvalidNatsUrl::Host),
            ("nats://[::1", InvalidNatsUrl::Host),
            ("nats://secret%4@a", InvalidNatsUrl::Escape),
            ("nats://u:%ff@a", InvalidNatsUrl::Escape),
        ] {
            let refused = NatsOptions::from_url(url).unwrap_err();
            assert_eq!(refused, error, "{url}");
            assert!(!refused.to_string().contains("secret"));
        }
    }
}
