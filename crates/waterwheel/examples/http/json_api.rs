//! A small API: JSON in and out, a body that is streamed back, and a plain text.
//!
//! ```sh
//! cargo run --release -p waterwheel --features json --example json_api -- 8080
//! curl -i http://localhost:8080/plaintext          # in another terminal
//! curl -i --data-binary @README.md http://localhost:8080/echo
//! ```

use std::error::Error;
use std::task::{Context, Poll};

use waterwheel::bytes::Bytes;
use waterwheel::channel::EventLoopGroup;
use waterwheel::http::{
    Body, BodyChunk, BodyError, BodySource, HttpServer, Incoming, IntoResponse, Request, Response,
};
use waterwheel::net::{Auto, Tcp};

/// Sends the body back as it comes.
///
/// Waits for the first chunk: until then a body that turns out to be malformed gets an answer of its own.
async fn echo(request: Request) -> Result<Body, BodyError> {
    let mut rest = request.into_body();
    let first = rest.chunk().await.transpose()?;
    Ok(Body::from_source(EchoSource { first, rest }))
}

/// A chunk that was taken off a body, then the rest of the body.
struct EchoSource {
    first: Option<Bytes>,
    rest: Incoming,
}

impl BodySource for EchoSource {
    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyChunk, waterwheel::executor::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first.into()))),
            None => self.rest.poll_chunk(cx),
        }
    }

    fn exact_len(&self) -> Option<u64> {
        let first = self.first.as_ref().map_or(0, Bytes::len) as u64;
        Some(first + self.rest.exact_len()?)
    }
}
