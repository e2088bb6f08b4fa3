//! A server of HTTP/1 by hyper, for comparisons with hyper on other runtimes.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, SERVER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use waterwheel::async_bridge::{AsyncChannel, Serve, serve_http};
use waterwheel::channel::{EventLoopGroup, ServerBootstrap};
use waterwheel::net::{Auto, Tcp};

use crate::MicroResult;

/// Serves `Hello, World!` on one loop until the process is ended.
pub(crate) fn server(port: u16) -> MicroResult {
    let group = EventLoopGroup::builder(Auto).threads(1).build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .serve(serve_connection)
        .bind(("127.0.0.1", port))
        .join()?;
    server.closed().join()?;
    Ok(())
}

async fn serve_connection(connection: AsyncChannel<Bytes>) {
    let served = serve_http(
        connection,
        |io, _| http1::Builder::new().pipeline_flush(true).serve_connection(io, service_fn(hello)),
        http1::Connection::graceful_shutdown,
    );
    // A client that goes away in the middle of a request is no failure of the measurement.
    let _ = served.await;
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello, World!")));
    response.headers_mut().insert(SERVER, HeaderValue::from_static("hyper"));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
