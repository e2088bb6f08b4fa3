//! A loop with servers and clients of HTTP, turned by the test.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use waterwheel_async::{
    AsyncChannel, ByteStream, ConnectAsync, ConnectionResult, LoopTimer, ScopeExecutor, Serve,
    serve_http,
};
use waterwheel_channel::{
    Address, Bootstrap, Channel, DrainOptions, Drained, LocalLoop, ServerBootstrap,
};
use waterwheel_executor::SharedFuture;
use waterwheel_testkit::embedded::{EmbeddedNetwork, EmbeddedPeer};
use waterwheel_testkit::loop_suite::{Bench, Reports};
use waterwheel_testkit::manual::Manual;

/// A body that need not be `Send`.
pub(crate) type LocalBody = Pin<Box<dyn Body<Data = Bytes, Error = Infallible>>>;
pub(crate) type Answer = Result<Response<LocalBody>, std::io::Error>;

/// A loop, its network in memory and its virtual clock.
pub(crate) struct HttpBench {
    bench: Bench,
    manual: Manual,
    network: EmbeddedNetwork,
}

impl HttpBench {
    pub(crate) fn new() -> Self {
        let manual = Manual::readiness();
        Self { bench: Bench::new(&manual), manual, network: EmbeddedNetwork::new() }
    }

    /// Starts a server at the address `http` whose connections are this async function.
    pub(crate) fn serve<F: Future<Output: ConnectionResult> + 'static>(
        &mut self,
        connection: impl Fn(AsyncChannel<Bytes>) -> F + Send + Sync + 'static,
    ) -> Channel {
        let server = ServerBootstrap::new(&self.bench.event_loop(), self.network.clone())
            .serve(connection)
            .bind(address());
        self.run();
        server.join().expect("the server is bound")
    }

    pub(crate) fn connect_peer(&mut self) -> EmbeddedPeer {
        let peer = self.network.connect_peer(&address()).expect("a server is there");
        self.run();
        peer
    }

    pub(crate) fn client(&self) -> Bootstrap {
        Bootstrap::new(&self.bench.event_loop(), self.network.clone())
    }

    /// Runs a future on the loop; its output is told when it is there.
    pub(crate) fn spawn<T: 'static>(
        &mut self,
        future: impl Future<Output = T> + 'static,
    ) -> Rc<RefCell<Option<T>>> {
        let output = Rc::new(RefCell::new(None));
        let told = output.clone();
        drop(self.bench.here(|here: &LocalLoop| {
            here.spawn_local(async move {
                let value = future.await;
                told.borrow_mut().replace(value);
            })
        }));
        self.run();
        output
    }

    /// Turns the loop until it is idle.
    pub(crate) fn run(&mut self) {
        while !self.bench.manual.is_idle() {
            self.bench.manual.turn(Some(Duration::ZERO));
        }
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.manual.advance(by);
        self.bench.manual.turn(Some(Duration::ZERO));
        self.run();
    }

    pub(crate) fn drain(&mut self) -> SharedFuture<Drained> {
        let drained = self.bench.event_loop().drain(DrainOptions::within(MINUTE));
        self.run();
        drained
    }

    pub(crate) fn reports(&self) -> &Reports {
        &self.bench.reports
    }
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn address() -> Address {
    Address::local("http")
}

/// Serves HTTP/1 with an async function.
pub(crate) async fn serve_http1<F: Future<Output = Answer> + 'static>(
    connection: AsyncChannel<Bytes>,
    answer: impl Fn(Request<Incoming>) -> F + 'static,
) -> Result<(), hyper::Error> {
    serve_http(
        connection,
        |io, _| http1::Builder::new().timer(LoopTimer).serve_connection(io, service_fn(answer)),
        http1::Connection::graceful_shutdown,
    )
    .await
}

/// Serves HTTP/2 with an async function.
pub(crate) async fn serve_http2<F: Future<Output = Answer> + 'static>(
    connection: AsyncChannel<Bytes>,
    answer: impl Fn(Request<Incoming>) -> F + Clone + 'static,
) -> Result<(), hyper::Error> {
    serve_http(
        connection,
        |io, executor| {
            let mut builder = http2::Builder::new(executor);
            builder.timer(LoopTimer).keep_alive_interval(10 * SECOND).keep_alive_timeout(SECOND);
            builder.serve_connection(io, service_fn(answer))
        },
        http2::Connection::graceful_shutdown,
    )
    .await
}

pub(crate) fn response(body: impl Into<Bytes>) -> Answer {
    Ok(Response::new(Box::pin(Full::new(body.into()))))
}

/// Answers with the method, the path and the length of the body.
pub(crate) async fn describe(request: Request<Incoming>) -> Answer {
    let head = format!("{} {}", request.method(), request.uri().path());
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    response(format!("{head} {}", body.len()))
}

pub(crate) fn get(path: &str) -> Request<Empty<Bytes>> {
    let uri = format!("http://example.org{path}");
    Request::get(uri).body(Empty::new()).expect("the request is valid")
}

/// Returns all that a peer has received so far, as text.
pub(crate) fn received(peer: &EmbeddedPeer) -> String {
    let parts: Vec<u8> = std::iter::from_fn(|| peer.receive()).flatten().collect();
    String::from_utf8_lossy(&parts).into_owned()
}

pub(crate) type Requests = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

/// Connects a client of HTTP/2.
pub(crate) async fn connect_http2(client: Bootstrap) -> Requests {
    let connection = client.connect_async::<Bytes, Bytes>(address()).await.unwrap();
    let executor = ScopeExecutor::of(&connection);
    let io = ByteStream::new(connection);
    let (requests, http) =
        hyper::client::conn::http2::handshake(executor.clone(), io).await.unwrap();
    hyper::rt::Executor::execute(&executor, http);
    requests
}

/// Returns the body of the answer to a request.
pub(crate) async fn ask(requests: &mut Requests, path: &str) -> Result<Bytes, hyper::Error> {
    let answer = requests.send_request(get(path)).await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}
