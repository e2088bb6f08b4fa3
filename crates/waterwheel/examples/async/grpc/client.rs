//! A client of gRPC: the code that tonic generates, over a connection of hyper's on the loop that runs the caller.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper::{Request, Response, Uri};
use tonic::body::Body;
use tower_service::Service;
use waterwheel::async_bridge::{ByteStream, ConnectAsync, LoopTimer, ScopeExecutor};
use waterwheel::bytes::Bytes;
use waterwheel::channel::Bootstrap;

use super::calculator::calculator_client::CalculatorClient;

/// A connection of HTTP/2 as the service that tonic's clients call. Clones share the connection; it is closed when all
/// of them are dropped and no call is under way.
#[derive(Clone)]
pub(crate) struct Http2Connection(SendRequest<Body>);

impl Service<Request<Body>> for Http2Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Connects to a server on the loop that runs the caller.
pub(crate) async fn connect(
    bootstrap: &Bootstrap,
    address: &str,
) -> Result<CalculatorClient<Http2Connection>, Box<dyn Error + Send + Sync>> {
    let origin = Uri::builder().scheme("http").authority(address).path_and_query("/").build()?;
    let connection = bootstrap.connect_async::<Bytes, Bytes>(address).await?;
    let executor = ScopeExecutor::of(&connection);
    let mut http = Builder::new(executor.clone());
    let (requests, http) = http.timer(LoopTimer).handshake(ByteStream::new(connection)).await?;
    executor.execute(http); // Until the connection ends.
    Ok(CalculatorClient::with_origin(Http2Connection(requests), origin))
}
