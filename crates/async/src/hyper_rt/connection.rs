//! A server's connection of hyper.

use std::future::poll_fn;
use std::pin::{Pin, pin};

use bytes::Bytes;

use super::executor::ScopeExecutor;
use crate::byte_stream::ByteStream;
use crate::channel::AsyncChannel;

/// Serves HTTP on a connection, with a builder of hyper's: for the async function of [`Serve`](crate::Serve) or of
/// [`serve_channel`](crate::serve_channel). `serve` makes hyper's connection out of the channel's bytes;
/// `graceful_shutdown` is its method of that name.
///
/// ```
/// use std::convert::Infallible;
///
/// use bytes::Bytes;
/// use http_body_util::Full;
/// use hyper::body::Incoming;
/// use hyper::server::conn::{http1, http2};
/// use hyper::service::service_fn;
/// use hyper::{Request, Response};
/// use waterwheel_async::{AsyncChannel, LoopTimer, serve_http};
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
///     Ok(Response::new(Full::from("Hello, World!")))
/// }
///
/// // ServerBootstrap::new(&group, Tcp).serve(serve_http1).bind(address)
/// async fn serve_http1(connection: AsyncChannel<Bytes>) -> Result<(), hyper::Error> {
///     serve_http(
///         connection,
///         |io, _| http1::Builder::new().timer(LoopTimer).serve_connection(io, service_fn(hello)),
///         http1::Connection::graceful_shutdown,
///     )
///     .await
/// }
///
/// async fn serve_http2(connection: AsyncChannel<Bytes>) -> Result<(), hyper::Error> {
///     serve_http(
///         connection,
///         |io, executor| {
///             http2::Builder::new(executor).timer(LoopTimer).serve_connection(io, service_fn(hello))
///         },
///         http2::Connection::graceful_shutdown,
///     )
///     .await
/// }
/// # let _ = (serve_http1, serve_http2);
/// ```
///
/// - *The channel* is closed when hyper's connection has ended. An error of hyper's, returned by the async function, is
///   the cause of the close, and is reported.
/// - *A drain* of the loop waits for the connection, which is shut down gracefully: requests under way are answered, an
///   idle connection is closed at once. A peer that does not end its request ends at hyper's timeout for that, or with
///   the deadline of the drain.
/// - *A panic* of a service closes its connection (HTTP/1) or resets its stream (HTTP/2), and is reported.
/// - *Dropped*, for example with the channel, it ends the connection and its streams.
#[track_caller]
pub fn serve_http<C: Future>(
    connection: AsyncChannel<Bytes>,
    serve: impl FnOnce(ByteStream, ScopeExecutor) -> C,
    graceful_shutdown: impl FnOnce(Pin<&mut C>),
) -> impl Future<Output = C::Output> {
    let executor = ScopeExecutor::of(&connection);
    async move {
        let mut draining = connection.draining();
        // hyper reads while a service is at work, to see the end of the connection. So the bridge cannot know which
        // request is unanswered, and the drain waits for hyper.
        let _hold = connection.channel().hold();
        let mut http = pin!(serve(ByteStream::new(connection), executor));
        let mut graceful_shutdown = Some(graceful_shutdown);
        poll_fn(|context| {
            if graceful_shutdown.is_some()
                && Pin::new(&mut draining).poll(context).is_ready()
                && let Some(shut_down) = graceful_shutdown.take()
            {
                shut_down(http.as_mut());
            }
            http.as_mut().poll(context)
        })
        .await
    }
}
