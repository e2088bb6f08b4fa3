//! `WebSocketConnector`: what a user opens connections with.

use std::time::Duration;

use http::header::{
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use waterwheel_channel::{Channel, Edit};
use waterwheel_executor::Error;
use waterwheel_http::Client;

use super::connect_error::ConnectError;
use super::opening::Opening;
use crate::async_socket::WebSocket;
use crate::connection::handler::WebSocketHandler;
use crate::connection::install::{install_handler, install_pipeline};
use crate::connection::options::WebSocketOptions;

/// Opens connections to WebSocket servers, with the names, limits, TLS and proxy of an HTTP [`Client`]. Used in a future on
/// a loop, to which the connection then belongs. A handle: clones share the client.
///
/// ```
/// use waterwheel_executor::Error;
/// use waterwheel_websocket::{CloseCode, WebSocketConnector, WebSocketMessage};
///
/// async fn ask(connector: &WebSocketConnector) -> Result<Option<WebSocketMessage>, Error> {
///     let mut socket = connector.connect("wss://example.org/chat").await?;
///     socket.send("hello").await?;
///     let answer = socket.next().await.transpose()?;
///     socket.close(CloseCode::NORMAL).await;
///     Ok(answer)
/// }
/// # drop(ask);
/// ```
#[derive(Clone, Debug)]
pub struct WebSocketConnector {
    client: Client,
    options: WebSocketOptions,
}

impl WebSocketConnector {
    /// Returns a connector with the default options of connections.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, options: WebSocketOptions::default() }
    }

    /// Sets the options of connections.
    #[must_use]
    pub fn options(mut self, options: WebSocketOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens a connection to a URL with the scheme `ws` or `wss`.
    ///
    /// Cancel safe as [`WebSocketRequest::connect`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(&self, url: impl AsRef<str>) -> Result<WebSocket, ConnectError> {
        self.request(url).connect().await
    }

    /// Builds the request of a connection: with headers, subprotocols or a limit of time.
    pub fn request(&self, url: impl AsRef<str>) -> WebSocketRequest {
        WebSocketRequest {
            client: self.client.clone(),
            options: self.options.clone(),
            url: url.as_ref().to_owned(),
            headers: Ok(HeaderMap::new()),
            subprotocols: Vec::new(),
            timeout: None,
        }
    }
}

/// The request of a connection that is being built. Created by [`WebSocketConnector::request`].
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent"]
pub struct WebSocketRequest {
    pub(super) client: Client,
    pub(super) options: WebSocketOptions,
    pub(super) url: String,
    pub(super) headers: Result<HeaderMap, ConnectError>,
    pub(super) subprotocols: Vec<String>,
    pub(super) timeout: Option<Duration>,
}

impl WebSocketRequest {
    /// Adds a header: Authorization, Cookie, Origin. Those of the handshake cannot be set.
    pub fn header<N, V>(mut self, name: N, value: V) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: Into<http::Error>,
        V: TryInto<HeaderValue>,
        V::Error: Into<http::Error>,
    {
        self.headers = self.headers.and_then(|mut headers| {
            let name = name.try_into().map_err(|error| invalid(error.into()))?;
            let value = value.try_into().map_err(|error| invalid(error.into()))?;
            if HANDSHAKE_FIELDS.contains(&name) {
                return Err(invalid(format!("the handshake itself sets {name}")));
            }
            headers.try_append(name, value).map_err(invalid)?;
            Ok(headers)
        });
        self
    }

    /// Offers a subprotocol; the first one is the preferred one. [`WebSocket::subprotocol`] tells which was chosen.
    pub fn subprotocol(mut self, name: impl Into<String>) -> Self {
        self.subprotocols.push(name.into());
        self
    }

    /// Sets the longest time until the connection is open. Default: that of the client, which has limits for the connect
    /// and for the response.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Opens the connection for async code. Cancel safe: if the future is dropped before it completes, nothing is opened: a
    /// request that was sent ends with its connection, and a connect that was begun is left to the pool of the client.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(self) -> Result<WebSocket, ConnectError> {
        let opening = Opening::send(self).await?;
        opening.upgrade(WebSocket::install)
    }

    /// Opens the connection for a handler of messages: the face with the least cost. Cancel safe as
    /// [`connect`](Self::connect); returns the channel, which may be used on any thread.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_with(
        self,
        handler: impl WebSocketHandler,
    ) -> Result<Channel, ConnectError> {
        let opening = Opening::send(self).await?;
        opening.upgrade(|edit, agreement| {
            install_handler(edit, agreement, handler)?;
            Ok(edit.channel())
        })
    }

    /// Opens the connection for the handlers that `initialiser` adds, which read and write
    /// [`WebSocketMessage`](crate::WebSocketMessage)s. Cancel safe as [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_pipeline(
        self,
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Channel, ConnectError> {
        let opening = Opening::send(self).await?;
        opening.upgrade(|edit, agreement| {
            install_pipeline(edit, agreement)?;
            initialiser(edit)?;
            Ok(edit.channel())
        })
    }
}

/// The fields of the opening handshake.
const HANDSHAKE_FIELDS: [HeaderName; 6] = [
    UPGRADE,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
];

fn invalid(reason: impl ToString) -> ConnectError {
    ConnectError::InvalidRequest { reason: reason.to_string() }
}
