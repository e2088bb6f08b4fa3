//! `WebSocketUpgrade`: a request that becomes a connection.

use http::HeaderValue;
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL};
use waterwheel_async::{ConnectionResult, serve_channel};
use waterwheel_channel::Edit;
use waterwheel_executor::Error;
use waterwheel_http::{Request, Response, upgrade_response};

use crate::async_socket::WebSocket;
use crate::connection::agreement::Agreement;
use crate::connection::handler::WebSocketHandler;
use crate::connection::install::{install_handler, install_pipeline};
use crate::connection::options::WebSocketOptions;
use crate::handshake::handshake_error::HandshakeError;
use crate::handshake::opening_request::OpeningRequest;
use crate::protocol::error::{ProtocolError, SendError};
use crate::protocol::frame_head::WebSocketRole;

/// A request that asks for WebSocket, and was checked. One of [`handle`](Self::handle), [`run`](Self::run) and
/// [`initialise`](Self::initialise) makes the response after which the connection speaks WebSocket; dropped, it does
/// nothing, and the service answers as it likes.
///
/// A service of HTTP decides by path, headers and origin who is let in:
///
/// ```
/// use waterwheel_channel::HandlerResult;
/// use waterwheel_http::{Request, Response};
/// use waterwheel_websocket::{
///     HandshakeError, WebSocketContext, WebSocketHandler, WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
/// };
///
/// struct Echo;
///
/// impl WebSocketHandler for Echo {
///     fn on_message(&mut self, socket: &WebSocketContext<'_>, message: WebSocketMessage) -> HandlerResult {
///         socket.send(message)?;
///         Ok(())
///     }
/// }
///
/// async fn echo(request: Request) -> Result<Response, HandshakeError> {
///     let upgrade = WebSocketUpgrade::of(&request, &WebSocketOptions::default())?;
///     Ok(upgrade.require_same_origin()?.handle(Echo))
/// }
/// # use bytes::Bytes;
/// # use waterwheel_http::HttpServer;
/// # use waterwheel_testkit::embedded::Embedded;
/// #
/// # let server = HttpServer::new(echo);
/// # let mut channel = Embedded::builder().stream().build(|edit| server.initialise(edit))?;
/// # channel.write_inbound(Bytes::from_static(
/// #     b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
/// #       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
/// # ));
/// # let answer = channel.read_outbound::<Bytes>().unwrap();
/// # assert!(answer.starts_with(b"HTTP/1.1 101 "), "{answer:?}");
/// # assert!(answer.windows(28).any(|bytes| bytes == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer:?}");
/// # assert_eq!(channel.read_outbound::<Bytes>().unwrap(), &b"\x81\x05Hello"[..]);
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
///
/// Browsers let any page open a WebSocket to any server, with the cookies of that server. A server that trusts cookies
/// checks the origin of the page: [`require_same_origin`](Self::require_same_origin) or
/// [`require_origin`](Self::require_origin).
#[derive(Clone, Debug)]
#[must_use = "the connection changes its protocol only with the response that `handle`, `run` or `initialise` returns"]
pub struct WebSocketUpgrade {
    request: OpeningRequest,
    options: WebSocketOptions,
    subprotocol: Option<String>,
}

impl WebSocketUpgrade {
    /// Checks the request. Its connection will have these options.
    ///
    /// # Errors
    /// The request is no valid opening handshake: the error is the answer to it.
    pub fn of(request: &Request, options: &WebSocketOptions) -> Result<Self, HandshakeError> {
        let deflate = options.values().deflate.as_ref();
        let request = OpeningRequest::check(request.head(), deflate)?;
        Ok(Self { request, options: options.clone(), subprotocol: None })
    }

    /// Accepts only pages of the host that the request is for, and clients that are no browsers: those send no Origin.
    ///
    /// # Errors
    /// [`HandshakeError::Origin`].
    pub fn require_same_origin(self) -> Result<Self, HandshakeError> {
        match &self.request.origin {
            Some(origin) if !origin.is_same => {
                Err(HandshakeError::Origin { origin: origin.text.clone() })
            }
            _ => Ok(self),
        }
    }

    /// Accepts only pages of origins such as `https://example.org` that `is_accepted` returns true for, and clients that
    /// are no browsers: those send no Origin.
    ///
    /// # Errors
    /// [`HandshakeError::Origin`].
    pub fn require_origin(
        self,
        is_accepted: impl FnOnce(&str) -> bool,
    ) -> Result<Self, HandshakeError> {
        match self.origin() {
            Some(origin) if !is_accepted(origin) => {
                Err(HandshakeError::Origin { origin: origin.to_owned() })
            }
            _ => Ok(self),
        }
    }

    /// Returns the value of Origin: where the page that opens the connection was loaded from. `None` if the client is no
    /// browser.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.request.origin.as_ref().map(|origin| origin.text.as_str())
    }

    /// Returns the subprotocols that the client offers, the preferred one first.
    pub fn offered_subprotocols(&self) -> impl Iterator<Item = &str> {
        self.request.subprotocols.iter().map(String::as_str)
    }

    /// Chooses the first of these subprotocols that the client offers. Without one in common, the connection has none;
    /// [`subprotocol`](Self::subprotocol) tells.
    pub fn choose_subprotocol<'s>(mut self, supported: impl IntoIterator<Item = &'s str>) -> Self {
        let offered = &self.request.subprotocols;
        let mut supported = supported.into_iter();
        let chosen = supported.find(|name| offered.iter().any(|offer| offer == name));
        self.subprotocol = chosen.map(str::to_owned);
        self
    }

    /// Returns the subprotocol that was chosen.
    #[must_use]
    pub fn subprotocol(&self) -> Option<&str> {
        self.subprotocol.as_deref()
    }

    /// Returns the response after which `handler` is given the messages of the connection: the face with the least cost.
    #[must_use]
    pub fn handle(self, handler: impl WebSocketHandler) -> Response {
        self.respond(|edit, agreement| install_handler(edit, agreement, handler))
    }

    /// Returns the response after which an async function has the connection. It runs on the connection's loop, and need
    /// not be `Send`. The connection is closed when the function has returned; an error it returns is reported, and the
    /// peer is told [`CloseCode::INTERNAL_ERROR`](crate::CloseCode::INTERNAL_ERROR). The violation of a peer, which was told
    /// so, and a send that was refused because the connection is closing are no errors of the function.
    ///
    /// ```
    /// use waterwheel_executor::Error;
    /// use waterwheel_http::{Request, Response};
    /// use waterwheel_websocket::{HandshakeError, WebSocketOptions, WebSocketUpgrade};
    ///
    /// async fn echo(request: Request) -> Result<Response, HandshakeError> {
    ///     let upgrade = WebSocketUpgrade::of(&request, &WebSocketOptions::default())?;
    ///     Ok(upgrade.run(async |mut socket| {
    ///         while let Some(message) = socket.next().await {
    ///             socket.send(message?).await?;
    ///         }
    ///         Ok::<_, Error>(())
    ///     }))
    /// }
    /// # drop(echo);
    /// ```
    #[must_use]
    pub fn run<F>(self, connection: impl FnOnce(WebSocket) -> F + 'static) -> Response
    where
        F: Future<Output: ConnectionResult> + 'static,
    {
        self.respond(|edit, agreement| {
            install_pipeline(edit, agreement.clone())?;
            serve_channel(edit, move |channel| {
                // Boxed: each future around it would hold it twice, as its argument and while it runs.
                let connection = Box::pin(connection(WebSocket::of(channel, agreement)));
                async move { without_ends(connection.await.into_result()) }
            })
        })
    }

    /// Returns the response after which the handlers that `initialiser` adds read and write
    /// [`WebSocketMessage`](crate::WebSocketMessage)s. The last message they read is the Close of the peer; violations are
    /// errors.
    #[must_use]
    pub fn initialise(
        self,
        initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error> + 'static,
    ) -> Response {
        self.respond(|edit, agreement| {
            install_pipeline(edit, agreement)?;
            initialiser(edit)
        })
    }

    fn respond(
        self,
        install: impl FnOnce(&mut Edit<'_>, Agreement) -> Result<(), Error> + 'static,
    ) -> Response {
        let Self { request, options, subprotocol } = self;
        let (deflate, proof) = (request.deflate, request.proof);
        let protocol = subprotocol.as_deref().and_then(|name| HeaderValue::from_str(name).ok());
        let extensions = deflate.and_then(|deflate| {
            let mut value = String::new();
            deflate.put_response(&mut value);
            HeaderValue::try_from(value).ok()
        });
        let role = WebSocketRole::Server;
        let agreement = Agreement { role, options, subprotocol, deflate };
        let mut response = upgrade_response("websocket", move |edit| install(edit, agreement));
        let fields = [
            (SEC_WEBSOCKET_ACCEPT, proof.to_value()),
            (SEC_WEBSOCKET_PROTOCOL, protocol),
            (SEC_WEBSOCKET_EXTENSIONS, extensions),
        ];
        let present = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        response.headers_mut().extend(present);
        response
    }
}

/// Returns the failure of an async function, unless it is how peers may end a connection at any time: they could fill the
/// log.
fn without_ends(result: Result<(), Error>) -> Result<(), Error> {
    result.or_else(|error| {
        let is_violation = error.find::<ProtocolError>().is_some();
        let is_refusal = error.find() == Some(&SendError::Closing);
        if is_violation || is_refusal { Ok(()) } else { Err(error) }
    })
}
