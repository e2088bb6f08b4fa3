//! The options of the port and of its connections.

use std::time::Duration;

use waterwheel::channel::Network;
use waterwheel::http::MessageLimits;

/// The options of the port: which connections are accepted, how their protocol is found, and the limits of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// The networks of proxies. Their connections begin with a PROXY header, which names the client.
    pub trusted_proxies: Vec<Network>,
    /// Names of hosts under which an open gateway answers, besides those of this machine; `*` stands for all.
    pub allowed_hosts: Vec<String>,
    /// Maximum number of connections; more are closed at once.
    pub connections: usize,
    /// Maximum number of connections of an address. Loopback and trusted proxies have no such limit.
    pub connections_per_address: usize,
    /// A client that sends nothing for this long speaks lines; `None`: it may take
    /// [`detection_timeout`](Self::detection_timeout).
    pub silence: Option<Duration>,
    /// Time limit for the first bytes to tell the protocol; then the connection is closed.
    pub detection_timeout: Duration,
    /// Maximum size of the head of a request in bytes.
    pub head_bytes: usize,
    /// Time limit for the head of a request.
    pub head_timeout: Duration,
    /// How long a connection of HTTP may wait for its next request.
    pub idle_timeout: Duration,
    /// How long a client may read nothing of an answer.
    pub stall_timeout: Duration,
    /// Maximum number of requests of a connection that are answered at the same time.
    pub pipelined: usize,
    /// True if `/metrics` is answered without a credential.
    pub has_open_metrics: bool,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self {
            trusted_proxies: Vec::new(),
            allowed_hosts: Vec::new(),
            // The default limit of clients, and a quarter for pages, metrics and publishers.
            connections: 25_000,
            // A network of an office behind one address.
            connections_per_address: 2_048,
            // For a person at a terminal. Longer than a lost packet or a busy machine holds the first bytes of a request up,
            // whose client would take the greeting for the answer.
            silence: Some(Duration::from_secs(2)),
            detection_timeout: Duration::from_secs(10),
            head_bytes: MessageLimits::DEFAULT_HEAD_BYTES,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(30),
            // Each may hold an answer of a history, of a megabyte and more, until those before it are written.
            pipelined: 4,
            has_open_metrics: false,
        }
    }
}

impl PortOptions {
    /// True if the name of a host is listed.
    #[must_use]
    pub fn is_allowed_host(&self, host: &str) -> bool {
        self.allowed_hosts.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(host))
    }

    /// True if connections of this address begin with a PROXY header.
    #[must_use]
    pub fn is_trusted_proxy(&self, address: std::net::IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains(address))
    }
}
