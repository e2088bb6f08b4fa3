//! `Client`: requests over pooled connections.

use std::fmt;
use std::sync::Arc;

use http::{Method, Uri};
use waterwheel_channel::{Bootstrap, LocalLoop, timeout};
use waterwheel_tls::ClientTls;

use super::destination::Destination;
use super::error::ClientError;
use super::options::{ClientBuilder, ClientOptions};
use super::outgoing_request::{OutgoingRequest, RequestOptions};
use super::pools::LoopPools;
use super::request_builder::RequestBuilder;
use crate::body::incoming::Incoming;
use crate::body::outgoing::Body;
use crate::service::service::Response;

/// A client: sends requests over connections that are kept and used again.
///
/// A handle: cheap to clone, and usable on any loop. Requests are made in a future on a loop, and use connections of that
/// loop; the futures and bodies are not `Send`. The client keeps those loops alive. Dropping the last handle closes idle connections, and those in use when
/// their responses are complete.
///
/// - *Bodies* are streamed both ways. A response whose body nobody reads stops its socket. A response that is dropped is
///   read to its end if its rest is short, so that its connection can be used again; otherwise the connection is
///   closed.
/// - *Retries.* A request is sent again, once, if it is idempotent (GET, HEAD, PUT, DELETE, OPTIONS, TRACE), its body is
///   no stream, and a connection that was used before ended before any byte of the response: the server has
///   closed it while the request was on its way. Nothing else is sent twice.
/// - *Cancel.* Dropping the future of a request that was sent closes its connection.
/// - *Responses that come early*, before the request's body is sent: a successful one goes on beside the request; any
///   other ends it, and the connection is not used again.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{
///     Address, Bootstrap, Ctx, EventLoopGroup, Handler, HandlerResult, LocalLoop, Msg, Resolver,
///     ServerBootstrap,
/// };
/// use waterwheel_executor::{Error, Promise};
/// use waterwheel_http::{Client, ClientError};
/// use waterwheel_testkit::embedded::EmbeddedNetwork;
///
/// async fn ask(client: &Client) -> Result<Bytes, Error> {
///     let response = client.get("http://greeter/hello").await?;
///     assert_eq!(response.status(), 200);
///     Ok(response.into_body().collect(1024).await.map_err(Error::new)?)
/// }
///
/// # struct Greeter;
/// # impl Handler for Greeter {
/// #     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
/// #         assert!(msg.into_bytes().unwrap().starts_with(b"GET /hello HTTP/1.1\r\nhost: greeter\r\n"));
/// #         ctx.write_and_flush(Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"));
/// #         Ok(())
/// #     }
/// # }
/// # /// Names are addresses within the process.
/// # struct Names;
/// # impl Resolver for Names {
/// #     fn resolve(&self, name: &str, found: Promise<Vec<Address>>) {
/// #         found.set_success(vec![Address::local(name)]);
/// #     }
/// # }
/// # let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// # let network = EmbeddedNetwork::new();
/// # let server = ServerBootstrap::new(&group, network.clone())
/// #     .child_initialiser(|edit| Ok(edit.add_last("greeter", Greeter).map(drop)?))
/// #     .bind(Address::local("greeter:80"))
/// #     .join()?;
/// # let bootstrap = Bootstrap::new(&group, network).resolver(std::sync::Arc::new(Names));
/// let client = Client::builder(bootstrap).timeout(Duration::from_secs(10)).build()?;
/// # let (promise, asked) = group.next().new_promise();
/// # group.next().execute(move || {
/// #     let here = LocalLoop::current().unwrap();
/// #     drop(here.spawn_local(async move { promise.complete(ask(&client).await) }));
/// # })?;
/// # assert_eq!(asked.join()?, "hello");
/// # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    shared: Arc<ClientShared>,
}

/// The parts of a client, which nothing changes after it was built.
pub(super) struct ClientShared {
    pub(super) pools: LoopPools,
    pub(super) tls: Option<ClientTls>,
    pub(super) options: ClientOptions,
}

impl Client {
    /// Returns a builder for a client whose connections this bootstrap opens. The loops of the bootstrap are of no
    /// concern: connections are opened on the loop that makes the request. Its initialiser may add handlers for bytes.
    pub fn builder(bootstrap: Bootstrap) -> ClientBuilder {
        ClientBuilder::new(bootstrap)
    }

    pub(super) fn new(pools: LoopPools, tls: Option<ClientTls>, options: ClientOptions) -> Self {
        Self { shared: Arc::new(ClientShared { pools, tls, options }) }
    }

    /// Requests a URL with GET.
    ///
    /// # Errors
    /// [`ClientError`]. A response with a status of 400 and above is no error.
    pub async fn get<U>(&self, url: U) -> Result<Response<Incoming>, ClientError>
    where
        U: TryInto<Uri>,
        U::Error: Into<http::Error>,
    {
        self.request(Method::GET, url).send().await
    }

    /// Builds a request.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::Method;
    /// use waterwheel_http::{Client, ClientError};
    ///
    /// async fn store(client: &Client, text: String) -> Result<bool, ClientError> {
    ///     let request = client
    ///         .request(Method::PUT, "https://example.org/notes/1")
    ///         .header("authorization", "Bearer abc")
    ///         .timeout(Duration::from_secs(5))
    ///         .body(text);
    ///     Ok(request.send().await?.status().is_success())
    /// }
    /// ```
    pub fn request<U>(&self, method: Method, url: U) -> RequestBuilder
    where
        U: TryInto<Uri>,
        U::Error: Into<http::Error>,
    {
        RequestBuilder::new(self.clone(), method, url.try_into().map_err(Into::into))
    }

    /// Sends a request whose URI is a whole URL; with method CONNECT, a host with a port. Content-Length,
    /// Transfer-Encoding and Host are made of the body and the URL; a Host that is given is kept. Expect is an option of
    /// [`RequestBuilder`], and left out here. `Connection: close`
    /// is the last request of its connection, and a request with Upgrade asks for another protocol: see
    /// [`into_upgraded`](crate::into_upgraded).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn send(
        &self,
        request: http::Request<Body>,
    ) -> Result<Response<Incoming>, ClientError> {
        self.send_with(request, RequestOptions::default()).await
    }

    pub(super) async fn send_with(
        &self,
        request: http::Request<Body>,
        options: RequestOptions,
    ) -> Result<Response<Incoming>, ClientError> {
        let Some(here) = LocalLoop::current() else { return Err(ClientError::NoLoop) };
        let destination = match *request.method() {
            Method::CONNECT => Destination::of_connect(request.uri())?,
            _ => Destination::of(request.uri())?,
        };
        let authority = destination.authority.clone();
        let mut request = OutgoingRequest::new(request, destination, options.expects_continue)?;
        let Some(limit) = options.timeout.or(self.shared.options.whole_timeout) else {
            return self.shared.follow_redirects(&here, request).await;
        };
        request.whole = Some((here.now().plus(limit), limit));
        match timeout(limit, self.shared.follow_redirects(&here, request)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ClientError::Timeout { authority, limit }),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("pools", &self.shared.pools)
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
