//! `LoadConnector`: opens connections to the gateways of a run, from several source addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use waterwheel::channel::{Bootstrap, EventLoopGroup};
use waterwheel::executor::Error;
use waterwheel::http::Client;
use waterwheel::net::Tcp;
use waterwheel::websocket::{
    WebSocketConnector, WebSocketLimits, WebSocketOptions, WebSocketRequest,
};

use crate::error::LoadError;

/// Longest message of a gateway that is read.
const MAX_MESSAGE: u64 = 1024 * 1024;

/// How connections are opened.
#[derive(Clone, Debug)]
pub(crate) struct TargetOptions {
    /// The gateways. Client `n` belongs to number `n` modulo their count.
    pub(crate) urls: Vec<String>,
    /// The text of the Authorization field.
    pub(crate) authorization: Option<String>,
    /// Source addresses of the machine's loopback network, 127.0.0.1 and so on; used if all gateways have IPv4 addresses of it.
    /// An address has 28,000 ports for clients by default.
    pub(crate) sources: u8,
    /// Longest time for a connect, and for the answer to a subscription.
    pub(crate) timeout: Duration,
}

/// Opens connections. A client keeps its gateway and its source address.
pub(crate) struct LoadConnector {
    options: TargetOptions,
    connectors: Vec<WebSocketConnector>,
}

impl LoadConnector {
    /// Checks the URLs, and makes a client of HTTP for each source address.
    pub(crate) fn new(group: &EventLoopGroup, options: TargetOptions) -> Result<Self, LoadError> {
        for url in &options.urls {
            check_url(url)?;
        }
        let is_loopback = options.urls.iter().all(|url| is_loopback_v4(url));
        let sources: Vec<Option<Ipv4Addr>> = match is_loopback {
            true => {
                (1..=options.sources.max(1)).map(|n| Some(Ipv4Addr::new(127, 0, 0, n))).collect()
            }
            false => vec![None],
        };
        let socket_options = WebSocketOptions::builder()
            .limits(WebSocketLimits::default().max_message(MAX_MESSAGE))
            // The gateway's pings keep connections alive; pings of clients would be load that browsers do not make.
            .ping_interval(Duration::MAX)
            .build()
            .map_err(Error::new)?;
        let connector = |source: Option<Ipv4Addr>| {
            let mut bootstrap = Bootstrap::new(group, Tcp);
            if let Some(source) = source {
                bootstrap = bootstrap.local_address(SocketAddr::new(IpAddr::V4(source), 0));
            }
            let client = Client::builder(bootstrap)
                // The scenario limits the connects itself.
                .pool(|pool| pool.unbounded())
                .connect_timeout(options.timeout)
                .build()
                .map_err(Error::new)?;
            Ok::<_, Error>(WebSocketConnector::new(client).options(socket_options.clone()))
        };
        let connectors = sources.into_iter().map(connector).collect::<Result<_, _>>()?;
        Ok(Self { options, connectors })
    }

    /// Builds the request that opens the connection of a client.
    pub(crate) fn request(&self, client: usize) -> WebSocketRequest {
        let source = (client / self.options.urls.len()) % self.connectors.len();
        let request = self.connectors[source].request(self.url(client)).timeout(self.timeout());
        match &self.options.authorization {
            Some(value) => request.header("authorization", value.as_str()),
            None => request,
        }
    }

    /// Returns the URL of a client's gateway.
    pub(crate) fn url(&self, client: usize) -> &str {
        &self.options.urls[client % self.options.urls.len()]
    }

    /// Returns the longest time for a connect, and for the answer to a subscription.
    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }
}

fn check_url(url: &str) -> Result<(), LoadError> {
    let refused = |reason| Err(LoadError::Url { url: url.to_owned(), reason });
    match url.strip_prefix("ws://") {
        None => refused("its scheme is not ws"),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => refused("it has no host"),
        Some(_) if url.contains(['#', ' ']) => refused("it has a fragment or a space"),
        Some(_) => Ok(()),
    }
}

/// True if the host of the URL is an IPv4 address of the loopback network.
fn is_loopback_v4(url: &str) -> bool {
    let authority = url.strip_prefix("ws://").and_then(|rest| rest.split(['/', '?']).next());
    let host = authority.map(|authority| authority.split(':').next().unwrap_or_default());
    host.is_some_and(|host| host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_urls_of_gateways_are_checked() {
        for url in ["ws://127.0.0.1:7000/ws", "ws://localhost/ws", "ws://[::1]:1/ws"] {
            assert!(check_url(url).is_ok(), "{url}");
        }
        for url in ["wss://a/ws", "http://a/ws", "ws:///ws", "ws://", "ws://a/ws#x", ""] {
            assert!(check_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn g09_source_addresses_are_for_loopback_only() {
        assert!(is_loopback_v4("ws://127.0.0.1:7000/ws") && is_loopback_v4("ws://127.3.2.1"));
        for url in ["ws://10.0.0.1/ws", "ws://localhost:1/ws", "ws://[::1]:1/ws"] {
            assert!(!is_loopback_v4(url), "{url}");
        }
    }
}
