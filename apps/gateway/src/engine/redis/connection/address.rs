//! The URL of Redis, and the addresses that a gateway tries.

use std::fmt;

use thiserror::Error;

use crate::engine::redis::limits::MAX_NODES;

/// The port of Redis.
const DEFAULT_PORT: u16 = 6379;

/// The host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine::redis) struct RedisAddress {
    pub(in crate::engine::redis) host: String,
    pub(in crate::engine::redis) port: u16,
}

/// A URL of Redis: `redis://host:port/database`, with TLS `rediss://…`; several hosts have commas between them.
///
/// ```
/// use waterwheel_gateway::engine::redis::RedisUrl;
///
/// let url: RedisUrl = "rediss://one.example:6380,two.example/3".parse().unwrap();
/// assert!(url.is_tls());
/// assert_eq!(url.to_string(), "rediss://one.example:6380,two.example:6379/3");
/// assert!("redis://user:password@host".parse::<RedisUrl>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    pub(in crate::engine::redis) is_tls: bool,
    pub(in crate::engine::redis) addresses: Vec<RedisAddress>,
    pub(in crate::engine::redis) database: u32,
}

/// Why a text is no URL of Redis.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidRedisUrl {
    /// The text does not begin with a scheme of Redis.
    #[error("a URL of Redis begins with redis:// or rediss://, not with {0:?}")]
    Scheme(String),
    /// A user or password is in the URL, where logs would show it.
    #[error("the URL has a user or password; give them as engine.user and engine.password")]
    Password,
    /// A host or port is not valid.
    #[error("{0:?} is no host:port")]
    Host(String),
    /// The path is not a number.
    #[error("{0:?} is no number of a database")]
    Database(String),
    /// There are too many hosts.
    #[error("the URL has more than {limit} hosts")]
    TooManyHosts {
        /// The limit.
        limit: usize,
    },
}

impl RedisUrl {
    /// True if the connection uses TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }
}

impl std::str::FromStr for RedisUrl {
    type Err = InvalidRedisUrl;

    fn from_str(text: &str) -> Result<Self, InvalidRedisUrl> {
        let (is_tls, rest) = match text.split_once("://") {
            Some(("redis", rest)) => (false, rest),
            Some(("rediss", rest)) => (true, rest),
            Some((scheme, _)) => return Err(InvalidRedisUrl::Scheme(format!("{scheme}://"))),
            None => return Err(InvalidRedisUrl::Scheme(text.chars().take(16).collect())),
        };
        if rest.contains('@') {
            return Err(InvalidRedisUrl::Password);
        }
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            digits => digits.parse().map_err(|_| InvalidRedisUrl::Database(digits.to_owned()))?,
        };
        let addresses: Vec<_> =
            hosts.split(',').map(RedisAddress::parse).collect::<Result<_, _>>()?;
        if addresses.len() > MAX_NODES {
            return Err(InvalidRedisUrl::TooManyHosts { limit: MAX_NODES });
        }
        Ok(Self { is_tls, addresses, database })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_tls { "rediss://" } else { "redis://" })?;
        for (i, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if i > 0 { "," } else { "" })?;
        }
        if self.database > 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

impl RedisAddress {
    fn parse(text: &str) -> Result<Self, InvalidRedisUrl> {
        let invalid = || InvalidRedisUrl::Host(text.to_owned());
        // An IPv6 address stands in brackets.
        let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, ""))) => (host, None),
            Some(Some((host, rest))) => (host, Some(rest.strip_prefix(':').ok_or_else(invalid)?)),
            Some(None) => return Err(invalid()),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| invalid()))?;
        let is_valid = !host.is_empty() && !host.contains(char::is_whitespace) && port > 0;
        if is_valid { Ok(Self { host: host.to_owned(), port }) } else { Err(invalid()) }
    }

    /// Reads the address of an error MOVED or ASK: `host:port`, where an IPv6 address has no brackets. An empty host is that
    /// of the server that sent it.
    pub(in crate::engine::redis) fn of_redirect(text: &str, sender: &RedisAddress) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { &sender.host } else { host };
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The addresses to try, in turn: those of the URL, and those that a cluster has told.
#[derive(Debug)]
pub(in crate::engine::redis) struct AddressBook {
    configured: usize,
    addresses: Vec<RedisAddress>,
    next: usize,
}

impl AddressBook {
    pub(in crate::engine::redis) fn new(url: &RedisUrl) -> Self {
        let addresses = url.addresses.clone();
        Self { configured: addresses.len(), addresses, next: 0 }
    }

    /// Returns the address to try.
    pub(in crate::engine::redis) fn current(&self) -> RedisAddress {
        self.addresses[self.next].clone()
    }

    /// Goes on to the next address.
    pub(in crate::engine::redis) fn advance(&mut self) {
        self.next = (self.next + 1) % self.addresses.len();
    }

    /// Makes an address the next one to try.
    pub(in crate::engine::redis) fn prefer(&mut self, address: RedisAddress) {
        self.next = match self.addresses.iter().position(|known| *known == address) {
            Some(known) => known,
            None if self.addresses.len() < self.configured + MAX_NODES => {
                self.addresses.push(address);
                self.addresses.len() - 1
            }
            None => {
                self.addresses[self.configured] = address;
                self.configured
            }
        };
    }

    /// Replaces what the cluster has told before. The current address stays the next one to try.
    pub(in crate::engine::redis) fn learn(
        &mut self,
        nodes: impl IntoIterator<Item = RedisAddress>,
    ) {
        let current = self.current();
        self.addresses.truncate(self.configured);
        for node in nodes.into_iter().take(MAX_NODES) {
            if !self.addresses.contains(&node) {
                self.addresses.push(node);
            }
        }
        self.prefer(current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> RedisAddress {
        RedisAddress { host: host.to_owned(), port }
    }

    #[test]
    fn g08_a_url_of_redis_names_hosts_a_database_and_tls() {
        let url: RedisUrl = "redis://localhost".parse().unwrap();
        let addresses = vec![address("localhost", 6379)];
        assert_eq!(url, RedisUrl { is_tls: false, addresses, database: 0 });
        let url: RedisUrl = "rediss://a:1,[::1]:2,[fe80::1]/15".parse().unwrap();
        assert_eq!(url.addresses, [address("a", 1), address("::1", 2), address("fe80::1", 6379)]);
        assert_eq!((url.is_tls, url.database), (true, 15));
        assert_eq!(url.to_string().parse(), Ok(url));
    }

    #[test]
    fn g08_a_url_that_is_wrong_says_what() {
        for (text, part) in [
            ("localhost:6379", "begins with redis://"),
            ("http://localhost", "http://"),
            ("redis://u:p@localhost", "engine.password"),
            ("redis://", "no host:port"),
            ("redis://a:x", "a:x"),
            ("redis://a:0", "a:0"),
            ("redis://a,,b", "no host:port"),
            ("redis://[::1", "[::1"),
            ("redis://a/zero", "zero"),
        ] {
            let error = text.parse::<RedisUrl>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn g08_addresses_are_tried_in_turn_and_nodes_of_a_cluster_are_bounded() {
        let mut book = AddressBook::new(&"redis://a,b".parse().unwrap());
        assert_eq!(book.current(), address("a", 6379));
        book.prefer(address("c", 1));
        assert_eq!(book.current(), address("c", 1));
        book.learn([address("d", 1), address("a", 6379)]);
        assert_eq!(book.current(), address("c", 1));
        let mut tried = Vec::new();
        for _ in 0..4 {
            book.advance();
            tried.push(book.current().host);
        }
        assert_eq!(tried, ["a", "b", "d", "c"]);
        book.learn((0..1_000).map(|n| address("n", n)));
        for n in 0..1_000 {
            book.prefer(address("m", n));
        }
        assert!(book.addresses.len() <= 2 + MAX_NODES);
    }

    #[test]
    fn g08_the_address_of_a_redirection_may_lack_its_host() {
        let sender = address("10.0.0.1", 7);
        let read = |text| RedisAddress::of_redirect(text, &sender);
        assert_eq!(read("10.0.0.2:6381"), Some(address("10.0.0.2", 6381)));
        assert_eq!(read(":6381"), Some(address("10.0.0.1", 6381)));
        assert_eq!(read("::1:6381"), Some(address("::1", 6381)));
        assert_eq!(read("nothing"), None);
    }
}
