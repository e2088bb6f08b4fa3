//! `HttpServer`: what a user builds of a service and options.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use waterwheel_channel::transport::ServerTransportFactory;
use waterwheel_channel::{AddressSpec, Channel, Edit, Loops, ServerBootstrap};
use waterwheel_executor::{Error, PromiseFuture};

use super::connection::connection;
use super::counters::{HttpLoopCounters, HttpMetrics};
use super::handler::HttpHandler;
use super::loop_state::{LoopServer, loop_server};
use super::options::{InvalidHttpOption, ServerOptions};
use crate::body::outgoing::Body;
use crate::protocol::limits::MessageLimits;
use crate::service::service::{Response, Service};

/// A server of HTTP/1.1: a service, and the options of its connections. A handle: clones share the counters.
///
/// ```
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{Address, EventLoopGroup, local};
/// use waterwheel_http::{HttpServer, Request};
///
/// async fn hello(request: Request) -> String {
///     format!("Hello, {}", request.uri().path())
/// }
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let server = HttpServer::builder(hello).max_pipelined(4).build()?;
/// let listener = server.bind(&group, local::Local, Address::local("hello")).join()?;
/// # drop(listener);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HttpServer {
    shared: Arc<ServerShared>,
}

struct ServerShared {
    connect: Box<ConnectFn>,
    /// The counters of each loop that had a connection. Locked when a loop has its first one, and for a snapshot.
    counters: Arc<Mutex<Vec<Arc<HttpLoopCounters>>>>,
}

/// Makes the handler of a new connection, on its loop.
type ConnectFn = dyn Fn() -> HttpHandler + Send + Sync;

impl HttpServer {
    /// Returns a server with the default options. All loops use clones of the service. A service that is not `Clone`,
    /// `Send` and `Sync`, such as a [`Router`](crate::Router), is given to [`per_loop`](Self::per_loop).
    pub fn new(service: impl Service + Clone + Send + Sync) -> Self {
        Self::build_with(move || service.clone(), ServerOptions::default())
    }

    /// Returns a builder, for other options. The service is one that [`new`](Self::new) takes.
    pub fn builder<S: Service + Clone + Send + Sync>(
        service: S,
    ) -> HttpServerBuilder<impl Fn() -> S + Send + Sync + 'static> {
        HttpServerBuilder::new(move || service.clone())
    }

    /// Returns a builder of a server with a service for each loop: `make` is called on the loop at its first connection.
    /// The service need not be `Send`, and may hold what belongs to the loop: a [`Router`](crate::Router), an `Rc`, a cache.
    ///
    /// ```
    /// use waterwheel_http::{HttpServer, InvalidRoute, Request, Router};
    ///
    /// fn routes() -> Result<Router, InvalidRoute> {
    ///     Router::builder().get("/", async |_: Request| "hello").build()
    /// }
    ///
    /// routes()?; // An invalid pattern fails here, and not at the first connection of a loop.
    /// let server = HttpServer::per_loop(|| routes().expect("the routes were built before")).build()?;
    /// # drop(server);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_loop<S: Service, F: Fn() -> S + Send + Sync + 'static>(
        make: F,
    ) -> HttpServerBuilder<F> {
        HttpServerBuilder::new(make)
    }

    fn build_with<S: Service>(
        make: impl Fn() -> S + Send + Sync + 'static,
        options: ServerOptions,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let options = Arc::new(options);
        let counters = Arc::new(Mutex::new(Vec::new()));
        let all = counters.clone();
        let connect = move || {
            let on_this_loop = loop_server(number, || {
                let service = make();
                let counters = Arc::new(HttpLoopCounters::default());
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(counters.clone());
                drop(all);
                LoopServer::new(service, options.clone(), counters)
            });
            HttpHandler::new(connection(on_this_loop))
        };
        Self { shared: Arc::new(ServerShared { connect: Box::new(connect), counters }) }
    }

    /// Adds the handler of HTTP to the pipeline of a connection: for a bootstrap with other options, behind TLS, or when a
    /// protocol was detected. Handlers before it pass [`Bytes`](bytes::Bytes); it passes nothing on, unless a service
    /// [upgrades](crate::Body::upgrade) the connection.
    ///
    /// The channel should allow half-closure ([`ServerBootstrap::child_allow_half_closure`], which
    /// [`bind`](Self::bind) sets): otherwise a client that finishes sending after its request gets no answer.
    ///
    /// # Errors
    /// The pipeline has a handler called `http`.
    pub fn initialise(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        edit.add_last("http", (self.shared.connect)())?;
        Ok(())
    }

    /// Returns a bootstrap of this server, to set further options, or handlers before HTTP by
    /// [`child_initialiser`](ServerBootstrap::child_initialiser): that is called first only if it is set on the
    /// bootstrap that is passed in.
    pub fn extend(&self, bootstrap: ServerBootstrap) -> ServerBootstrap {
        let server = self.clone();
        bootstrap
            .child_allow_half_closure(true)
            .extend_child_initialiser(move |edit| server.initialise(edit))
    }

    /// Listens at an address. The future returns the server's channel when it accepts connections.
    #[track_caller]
    pub fn bind(
        &self,
        loops: impl Into<Loops>,
        transports: impl ServerTransportFactory,
        address: impl Into<AddressSpec>,
    ) -> PromiseFuture<Channel> {
        self.extend(ServerBootstrap::new(loops, transports)).bind(address)
    }

    /// Returns what the server has counted on all loops so far.
    #[must_use]
    pub fn metrics(&self) -> HttpMetrics {
        let counters = self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner);
        HttpMetrics::of(&counters)
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").finish_non_exhaustive()
    }
}

/// Serves HTTP/1.1 at an address, with the default options: see [`HttpServer`].
///
/// ```
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{Address, EventLoopGroup, local};
/// use waterwheel_http::{Request, serve};
///
/// async fn hello(_: Request) -> &'static str {
///     "Hello, World!"
/// }
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let listener = serve(&group, local::Local, Address::local("http"), hello).join()?;
/// # drop(listener);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn serve(
    loops: impl Into<Loops>,
    transports: impl ServerTransportFactory,
    address: impl Into<AddressSpec>,
    service: impl Service + Clone + Send + Sync,
) -> PromiseFuture<Channel> {
    HttpServer::new(service).bind(loops, transports, address)
}

/// Builds an [`HttpServer`].
#[must_use]
pub struct HttpServerBuilder<F> {
    make: F,
    options: ServerOptions,
    server_name: Option<String>,
}

impl<S: Service, F: Fn() -> S + Send + Sync + 'static> HttpServerBuilder<F> {
    fn new(make: F) -> Self {
        Self { make, options: ServerOptions::default(), server_name: None }
    }

    /// Sets the limits of requests. Default: [`MessageLimits::default`].
    pub fn limits(mut self, limits: MessageLimits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Sets how many requests of a connection are answered at the same time. Default: 16. Reads pause while there are so
    /// many.
    pub fn max_pipelined(mut self, requests: usize) -> Self {
        self.options.max_pipelined = requests;
        self
    }

    /// Sets how long a head may take from its first byte; then the client gets status 408. Default: 10 s.
    pub fn head_timeout(mut self, limit: Duration) -> Self {
        self.options.head_timeout = limit;
        self
    }

    /// Sets how long a connection may wait for its next request, or its first. Default: 75 s.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.options.idle_timeout = limit;
        self
    }

    /// Sets the least rate of a body that the service waits for, in bytes per second, as an average over five seconds;
    /// then the client gets status 408. Default: 240. Zero for none.
    pub fn least_body_rate(mut self, bytes_per_second: u64) -> Self {
        self.options.least_rate = bytes_per_second;
        self
    }

    /// Sets how long a client may read nothing of an answer; then the connection is closed. Default: 30 s.
    pub fn stall_timeout(mut self, limit: Duration) -> Self {
        self.options.stall_timeout = limit;
        self
    }

    /// Sets how long the server waits for the client's end after the last answer, and drops what the client still sends:
    /// closing at once could take the answer away from the client (RST). Default: 5 s.
    pub fn linger(mut self, limit: Duration) -> Self {
        self.options.linger = limit;
        self
    }

    /// Sets the value of the field Server. Default: the field is not sent.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sends a line for each answer to the log: an event of `tracing` with target `waterwheel::access` at level INFO. A
    /// refused message has `-` in place of method, URI and version. Without a subscriber of `tracing`, nothing is written.
    /// Default: off.
    pub fn access_log(mut self, is_on: bool) -> Self {
        self.options.access_log = is_on;
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    /// An option that a server cannot have.
    pub fn build(mut self) -> Result<HttpServer, InvalidHttpOption> {
        if let Some(name) = self.server_name {
            let is_text = name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
            let value = HeaderValue::from_str(&name).ok().filter(|_| is_text);
            self.options.server_name = Some(value.ok_or(InvalidHttpOption::ServerName)?);
        }
        self.options.check()?;
        Ok(HttpServer::build_with(self.make, self.options))
    }
}

impl<F> fmt::Debug for HttpServerBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Returns the response that ends HTTP on a connection whose client asked for another protocol: status 101 with the field
/// Upgrade. `initialiser` adds the handlers of that protocol, in place of those of HTTP; they see the connection from its
/// beginning (`on_active`), and what the client sent behind its request.
///
/// ```
/// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
/// use waterwheel_http::{IntoResponse, Request, Response, upgrade_response};
///
/// struct Echo;
///
/// impl Handler for Echo {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         ctx.write_and_flush(msg);
///         Ok(())
///     }
/// }
///
/// async fn upgrade(request: Request) -> Response {
///     if request.headers().get("upgrade").is_none_or(|name| name != "echo") {
///         return (http::StatusCode::BAD_REQUEST, "Upgrade: echo is missing").into_response();
///     }
///     upgrade_response("echo", |edit| {
///         edit.add_last("echo", Echo)?;
///         Ok(())
///     })
/// }
/// # drop(upgrade);
/// ```
#[must_use]
pub fn upgrade_response(
    protocol: &'static str,
    initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error> + 'static,
) -> Response {
    let mut response = Response::new(Body::upgrade(initialiser));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(protocol));
    response
}
