//! The URL of NATS.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The port of NATS.
const DEFAULT_PORT: u16 = 4222;

/// Maximum number of servers in a URL.
const MAX_SERVERS: usize = 64;

/// A URL of NATS: `nats://host:port`, with TLS `tls://…`; several hosts have commas between them.
///
/// ```
/// use waterwheel_gateway::engine::nats::url::NatsUrl;
///
/// let url: NatsUrl = "tls://one.example:4333,two.example".parse().unwrap();
/// assert!(url.is_tls());
/// assert_eq!(url.to_string(), "tls://one.example:4333,two.example:4222");
/// assert!("nats://user:password@host".parse::<NatsUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsUrl {
    is_tls: bool,
    servers: Vec<NatsServer>,
}

/// A server of NATS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NatsServer {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Why a text is no URL of NATS.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidNatsUrl {
    /// The text does not begin with a scheme of NATS.
    #[error("a URL of NATS begins with nats:// or tls://")]
    Scheme,
    /// A user or password is in the URL, where logs would show it.
    #[error("the URL has a user, password or token; give them as engine.user and engine.password")]
    Password,
    /// A host or port is not valid.
    #[error("{0:?} is no host:port")]
    Host(String),
    /// There are too many hosts.
    #[error("the URL has more than {limit} hosts")]
    TooManyHosts {
        /// The limit.
        limit: usize,
    },
}

impl NatsUrl {
    /// True if connections use TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) fn servers(&self) -> &[NatsServer] {
        &self.servers
    }
}

impl FromStr for NatsUrl {
    type Err = InvalidNatsUrl;

    fn from_str(text: &str) -> Result<Self, InvalidNatsUrl> {
        let (is_tls, rest) = match text.split_once("://") {
            Some(("nats", rest)) => (false, rest),
            Some(("tls", rest)) => (true, rest),
            _ => return Err(InvalidNatsUrl::Scheme),
        };
        if rest.contains('@') {
            return Err(InvalidNatsUrl::Password);
        }
        let hosts = rest.strip_suffix('/').unwrap_or(rest);
        if hosts.split(',').count() > MAX_SERVERS {
            return Err(InvalidNatsUrl::TooManyHosts { limit: MAX_SERVERS });
        }
        let server = |text: &str| {
            NatsServer::parse(text).ok_or_else(|| InvalidNatsUrl::Host(text.to_owned()))
        };
        Ok(Self { is_tls, servers: hosts.split(',').map(server).collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for NatsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "tls://" } else { "nats://" })?;
        for (index, server) in self.servers.iter().enumerate() {
            write!(f, "{}{server}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl NatsServer {
    /// Reads `HOST[:PORT]`, with brackets around an address of IPv6.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']')? {
                (host, "") => (host, None),
                (host, rest) => (host, Some(rest.strip_prefix(':')?)),
            },
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).ok()?;
        let is_valid = !host.is_empty() && !host.contains(char::is_whitespace) && port > 0;
        is_valid.then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for NatsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_a_url_of_nats_has_servers_and_says_whether_they_use_tls() {
        for (text, shown) in [
            ("nats://a", "nats://a:4222"),
            ("nats://a:1,[::1]:2,[::2]/", "nats://a:1,[::1]:2,[::2]:4222"),
            ("tls://a.example", "tls://a.example:4222"),
        ] {
            let url: NatsUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse(), Ok(url));
        }
    }

    #[test]
    fn g08_an_invalid_url_of_nats_is_refused_without_quoting_its_password() {
        let host = |text: &str| InvalidNatsUrl::Host(text.to_owned());
        for (url, error) in [
            ("redis://a", InvalidNatsUrl::Scheme),
            ("a:4222", InvalidNatsUrl::Scheme),
            ("nats://", host("")),
            ("nats://a,,b", host("")),
            ("nats://a:port", host("a:port")),
            ("nats://a:0", host("a:0")),
            ("nats://a:1:2", host("a:1:2")),
            ("nats://[::1", host("[::1")),
            ("nats://[::1]x", host("[::1]x")),
            ("nats://a b", host("a b")),
            ("nats://token@a", InvalidNatsUrl::Password),
            ("nats://ann:secret@a", InvalidNatsUrl::Password),
        ] {
            let refused = url.parse::<NatsUrl>().unwrap_err();
            assert_eq!(refused, error, "{url}");
            assert!(!refused.to_string().contains("secret"));
        }
        let many = format!("nats://{}", vec!["a"; 65].join(","));
        let refused = many.parse::<NatsUrl>();
        assert_eq!(refused, Err(InvalidNatsUrl::TooManyHosts { limit: 64 }));
    }
}
