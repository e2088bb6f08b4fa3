//! The options of connections.

use std::sync::Arc;
use std::time::Duration;

use crate::deflate::options::DeflateOptions;
use crate::protocol::limits::WebSocketLimits;

/// The options of WebSocket connections, made once and shared by all of them: a clone is a handle.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_websocket::{DeflateOptions, WebSocketLimits, WebSocketOptions};
///
/// let options = WebSocketOptions::builder()
///     .limits(WebSocketLimits::default().max_message(64 * 1024))
///     .ping_interval(Duration::from_secs(10))
///     .deflate(DeflateOptions::default())
///     .build()?;
/// # let _ = options;
/// # Ok::<(), waterwheel_websocket::InvalidWebSocketOption>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct WebSocketOptions(Arc<OptionValues>);

/// The values of [`WebSocketOptions`].
#[derive(Clone, Debug)]
pub(crate) struct OptionValues {
    pub(crate) limits: WebSocketLimits,
    pub(crate) gives_parts: bool,
    pub(crate) passes_control: bool,
    /// `Duration::MAX` if there is no keep-alive.
    pub(crate) ping_interval: Duration,
    pub(crate) pong_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) deflate: Option<DeflateOptions>,
}

/// Shorter than the minute after which proxies and address translations forget an idle connection.
const DEFAULT_PING_INTERVAL: Duration = Duration::from_secs(30);

/// A phone that wakes up for a ping may take seconds to answer.
const DEFAULT_PONG_TIMEOUT: Duration = Duration::from_secs(20);

/// The time for the peer's Close, and for the end of its data.
const DEFAULT_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

impl Default for OptionValues {
    fn default() -> Self {
        Self {
            limits: WebSocketLimits::default(),
            gives_parts: false,
            passes_control: false,
            ping_interval: DEFAULT_PING_INTERVAL,
            pong_timeout: DEFAULT_PONG_TIMEOUT,
            close_timeout: DEFAULT_CLOSE_TIMEOUT,
            deflate: None,
        }
    }
}

impl WebSocketOptions {
    /// Returns a builder with the default options.
    pub fn builder() -> WebSocketOptionsBuilder {
        WebSocketOptionsBuilder::default()
    }

    pub(crate) fn values(&self) -> &OptionValues {
        &self.0
    }
}

/// Builds [`WebSocketOptions`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct WebSocketOptionsBuilder {
    values: OptionValues,
}

impl WebSocketOptionsBuilder {
    /// Sets the limits of received frames and messages: a message of 1 MiB unless set.
    pub fn limits(mut self, limits: WebSocketLimits) -> Self {
        self.values.limits = limits;
        self
    }

    /// Reads messages in parts, as they come: for messages that are too long to be held. False unless set.
    pub fn parts(mut self, gives_parts: bool) -> Self {
        self.values.gives_parts = gives_parts;
        self
    }

    /// Passes pings and pongs on as messages; pings are answered all the same. False unless set.
    pub fn pass_control(mut self, passes_control: bool) -> Self {
        self.values.passes_control = passes_control;
        self
    }

    /// Sets the time without a byte of the peer after which a ping is sent: 30 seconds unless set. `Duration::MAX` means
    /// never.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.values.ping_interval = interval;
        self
    }

    /// Sets the time that the peer has to send anything after a ping: 20 seconds unless set. Then the connection is
    /// closed.
    pub fn pong_timeout(mut self, timeout: Duration) -> Self {
        self.values.pong_timeout = timeout;
        self
    }

    /// Sets the time that the peer has to answer a Close, and then to end the connection: 5 seconds unless set.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.values.close_timeout = timeout;
        self
    }

    /// Offers, or accepts, permessage-deflate. Off unless set.
    pub fn deflate(mut self, options: DeflateOptions) -> Self {
        self.values.deflate = Some(options);
        self
    }

    /// Builds the options.
    ///
    /// # Errors
    /// A duration is zero.
    pub fn build(self) -> Result<WebSocketOptions, InvalidWebSocketOption> {
        let durations = [
            ("ping_interval", self.values.ping_interval),
            ("pong_timeout", self.values.pong_timeout),
            ("close_timeout", self.values.close_timeout),
        ];
        if let Some((option, _)) = durations.into_iter().find(|(_, duration)| duration.is_zero()) {
            return Err(InvalidWebSocketOption::Zero { option });
        }
        Ok(WebSocketOptions(Arc::new(self.values)))
    }
}

/// The error of an option that a connection cannot have.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidWebSocketOption {
    /// A duration of zero would end every connection at once.
    #[error("{option} is zero")]
    Zero {
        /// The name of the option.
        option: &'static str,
    },
}
