//! A server in the process of the test, for options and routes that the examples do not have.

use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use waterwheel::bytes::Bytes;
use waterwheel::channel::{Channel, EventLoopGroup};
use waterwheel::executor::Error;
use waterwheel::http::{
    Body, BodyChunk, BodyError, BodySource, HttpServer, MessageLimits, Request, Router,
};
use waterwheel::net::{Auto, Tcp};

/// The length of `/large`: more than the buffers of two sockets.
pub(crate) const LARGE: u64 = 20_000_000;

/// The largest body that the server takes.
const MAX_BODY: u64 = 64 * 1024 * 1024;

/// Runs a server.
pub(crate) struct TestServer {
    _group: EventLoopGroup,
    listener: Channel,
    pub(crate) http: HttpServer,
}

impl TestServer {
    /// Starts a server that gives a slow client two seconds at most; a slow body has five.
    pub(crate) fn start() -> Self {
        let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
        let http = HttpServer::per_loop(routes)
            .limits(MessageLimits::default().max_body_bytes(MAX_BODY))
            .head_timeout(Duration::from_secs(1))
            .idle_timeout(Duration::from_secs(2))
            .stall_timeout(Duration::from_secs(2))
            .linger(Duration::from_secs(1))
            .build()
            .unwrap();
        let listener = http.bind(&group, Tcp, ("127.0.0.1", 0)).join().unwrap();
        Self { _group: group, listener, http }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_address().unwrap().socket_addr().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }
}

fn routes() -> Router {
    Router::builder()
        .get("/plaintext", async |_: Request| "Hello, World!")
        .post("/count", count)
        .get("/large", async |_: Request| Body::from_source(Repeated { left: LARGE }))
        .get("/trailers", async |_: Request| Body::from_source(WithTrailers(false)))
        .build()
        .unwrap()
}

/// Answers with the length of the body, and the sum of its bytes.
async fn count(request: Request) -> Result<String, BodyError> {
    let (mut body, mut length, mut sum) = (request.into_body(), 0, 0);
    while let Some(chunk) = body.chunk().await {
        let chunk = chunk?;
        length += chunk.len();
        sum += chunk.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    Ok(format!("{length} {sum}"))
}

/// A body of this many equal bytes, whose length the client does not know before.
struct Repeated {
    left: u64,
}

impl BodySource for Repeated {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        static PART: [u8; 16 * 1024] = [b'x'; 16 * 1024];
        let part = self.left.min(PART.len() as u64);
        self.left -= part;
        let part = Bytes::from_static(&PART[..part as usize]);
        Poll::Ready((!part.is_empty()).then_some(Ok(part.into())))
    }
}

/// A body of one chunk with a trailer; true once the chunk was taken.
struct WithTrailers(bool);

impl BodySource for WithTrailers {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        let is_taken = std::mem::replace(&mut self.0, true);
        Poll::Ready((!is_taken).then_some(Ok(Bytes::from_static(b"body\n").into())))
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        let checksum = HeaderValue::from_static("1234");
        Some(HeaderMap::from_iter([("x-checksum".parse().unwrap(), checksum)]))
    }
}
