//! The options of a client.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::Bootstrap;
use waterwheel_pool::{ChannelPool, ChannelPoolBuilder};
use waterwheel_tls::ClientTls;

use super::client::Client;
use super::connection::handler::{CLIENT, ClientConnection};
use super::error::InvalidClient;
use super::pools::LoopPools;
use super::proxy::Proxy;
use crate::protocol::limits::MessageLimits;

/// Builds a [`Client`]. Created by [`Client::builder`].
#[must_use = "a builder does nothing until build is called"]
pub struct ClientBuilder {
    bootstrap: Bootstrap,
    tls: Option<ClientTls>,
    limits: MessageLimits,
    pool: PoolConfiguration,
    options: ClientOptions,
}

/// The caller's changes of the options of a pool.
pub(super) type PoolConfiguration =
    Arc<dyn Fn(ChannelPoolBuilder) -> ChannelPoolBuilder + Send + Sync>;

/// The options that requests go by.
#[derive(Clone, Debug)]
pub(super) struct ClientOptions {
    pub(super) connect_timeout: Duration,
    pub(super) head_timeout: Option<Duration>,
    pub(super) body_timeout: Option<Duration>,
    pub(super) whole_timeout: Option<Duration>,
    pub(super) redirects: u32,
    pub(super) may_downgrade: bool,
    pub(super) proxy: Option<Proxy>,
}

impl ClientBuilder {
    /// The default of [`connect_timeout`](Self::connect_timeout).
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default of [`head_timeout`](Self::head_timeout).
    pub const DEFAULT_HEAD_TIMEOUT: Duration = Duration::from_secs(30);
    /// The default of [`body_timeout`](Self::body_timeout).
    pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(60);
    /// The largest head of a response, by default: some servers set many cookies.
    pub const DEFAULT_HEAD_BYTES: usize = 64 * 1024;

    pub(super) fn new(bootstrap: Bootstrap) -> Self {
        let limits = MessageLimits::default();
        let options = ClientOptions {
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            head_timeout: Some(Self::DEFAULT_HEAD_TIMEOUT),
            body_timeout: Some(Self::DEFAULT_BODY_TIMEOUT),
            whole_timeout: None,
            redirects: 0,
            may_downgrade: false,
            proxy: None,
        };
        Self {
            bootstrap,
            tls: None,
            limits: limits.max_head_bytes(Self::DEFAULT_HEAD_BYTES).max_body_bytes(u64::MAX),
            pool: Arc::new(|pool| pool),
            options,
        }
    }

    /// Sets the configuration of TLS, for URLs with https. Its list of application protocols is replaced by
    /// `http/1.1`. Default: none, such URLs are refused.
    pub fn tls(mut self, tls: impl Into<ClientTls>) -> Self {
        self.tls = Some(tls.into());
        self
    }

    /// Sets the limits of responses. Default: those of [`MessageLimits`], but heads of
    /// [64 KiB](Self::DEFAULT_HEAD_BYTES) and bodies of any length, because a body is streamed, and
    /// [`collect`](crate::Incoming::collect) has its own limit.
    pub fn limits(mut self, limits: MessageLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a request waits for a connection: in the queue of the pool, for the name and the connect, and for
    /// the tunnel and TLS. Default: 30 s.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.options.connect_timeout = limit;
        self
    }

    /// Sets the longest time from the end of the request to the end of the response's head; `None` for none. Default:
    /// 30 s.
    pub fn head_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.head_timeout = limit.into();
        self
    }

    /// Sets the longest time without a byte of a body, while the client waits for the server; `None` for none. Noticed
    /// up to a quarter later. Default: 60 s.
    pub fn body_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.body_timeout = limit.into();
        self
    }

    /// Sets the longest time of a whole request: from the call, over redirects, to the end of the response's body.
    /// Default: none.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.whole_timeout = limit.into();
        self
    }

    /// Sets how many redirects are followed, one after the other. 301, 302 and 303 turn POST into GET, as in browsers; 307
    /// and 308 send the same request again, which needs a body that is no stream. Authorization and Cookie are left
    /// out for another scheme, host or port. CONNECT is not redirected. Default: 0, the caller gets the redirect.
    pub fn redirects(mut self, max: u32) -> Self {
        self.options.redirects = max;
        self
    }

    /// Sets whether redirects from https to http are followed. Default: false, such a redirect is an error.
    pub fn allow_downgrade(mut self, allow: bool) -> Self {
        self.options.may_downgrade = allow;
        self
    }

    /// Sends requests through a proxy. Default: none.
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.options.proxy = Some(proxy);
        self
    }

    /// Sets options of the pools that keep the connections: limits, how long one may be idle (50 s by default), ages.
    /// There is a pool for each loop that requests are made on, and there one for http, one for https, and one for each
    /// server behind a tunnel: limits count for each of them.
    pub fn pool(
        mut self,
        configure: impl Fn(ChannelPoolBuilder) -> ChannelPoolBuilder + Send + Sync + 'static,
    ) -> Self {
        self.pool = Arc::new(configure);
        self
    }

    /// Builds the client. Nothing is connected yet.
    ///
    /// # Errors
    /// [`InvalidClient`]: a time is zero, or an option of the pool is invalid.
    pub fn build(self) -> Result<Client, InvalidClient> {
        let options = &self.options;
        let times = [
            ("connect_timeout", Some(options.connect_timeout)),
            ("head_timeout", options.head_timeout),
            ("body_timeout", options.body_timeout),
            ("timeout", options.whole_timeout),
        ];
        if let Some((option, _)) = times.iter().find(|(_, time)| *time == Some(Duration::ZERO)) {
            return Err(InvalidClient::ZeroTime { option });
        }
        let limits = self.limits;
        // An upgraded connection may be closed in one direction; the handler of HTTP closes both.
        let bootstrap = self.bootstrap.allow_half_closure(true);
        let bootstrap =
            bootstrap.connect_timeout(options.connect_timeout).extend_initialiser(move |edit| {
                edit.add_last(CLIENT, ClientConnection::new(limits))?;
                Ok(())
            });
        // Checks the options of the pool now; the pools themselves are built for each loop.
        (self.pool)(ChannelPool::builder(bootstrap.clone())).build()?;
        let pools = LoopPools::new(bootstrap, self.pool);
        Ok(Client::new(pools, self.tls.map(only_http1), self.options))
    }
}

/// Returns the configuration with the one application protocol that this client speaks.
fn only_http1(tls: ClientTls) -> ClientTls {
    let mut config = (**tls.config()).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    ClientTls::from(config)
}
