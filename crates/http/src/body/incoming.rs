//! Bodies of messages that are received.

use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use waterwheel_channel::Channel;
use waterwheel_executor::Error;

use super::error::BodyError;
use super::pipe::BodyPipe;
use super::source::{BodyChunk, BodySource};

/// The body of a received message, taken from the connection as it is read: a body that nobody reads stops the socket.
/// Dropping it drops what is still to come. Not `Send`: used on the connection's loop.
///
/// ```
/// use waterwheel_http::{BodyError, Request};
///
/// async fn count(request: Request) -> Result<String, BodyError> {
///     let (mut body, mut bytes) = (request.into_body(), 0);
///     while let Some(chunk) = body.chunk().await {
///         bytes += chunk?.len();
///     }
///     Ok(format!("{bytes} bytes"))
/// }
/// ```
pub struct Incoming {
    source: IncomingSource,
    channel: Option<Rc<Channel>>,
}

enum IncomingSource {
    Empty,
    Bytes(Bytes),
    Pipe(Rc<BodyPipe>),
    Changed(Box<dyn ChangedBody>),
}

/// A received body that a wrapper of services changes while it is read, such as decoding it: see [`Incoming::changed`].
pub trait ChangedBody: 'static {
    /// Returns the next chunk, which is not empty; `None` at the end and after an error.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>>;

    /// Returns the number of bytes that are still to come, if known.
    fn exact_len(&self) -> Option<u64>;

    /// Takes the trailers, after the end.
    fn take_trailers(&mut self) -> Option<HeaderMap>;
}

impl Incoming {
    /// Returns a body without bytes, of no connection: for tests of services.
    #[must_use]
    pub const fn empty() -> Self {
        Self { source: IncomingSource::Empty, channel: None }
    }

    pub(crate) fn new(pipe: Option<Rc<BodyPipe>>, channel: Option<Rc<Channel>>) -> Self {
        let source = pipe.map_or(IncomingSource::Empty, IncomingSource::Pipe);
        Self { source, channel }
    }

    /// Returns this body in the form that `change` gives it. It belongs to the same channel.
    #[must_use]
    pub fn changed<B: ChangedBody>(self, change: impl FnOnce(Self) -> B) -> Self {
        let channel = self.channel.clone();
        Self { source: IncomingSource::Changed(Box::new(change(self))), channel }
    }

    /// Returns the channel that the message came from.
    #[must_use]
    pub fn channel(&self) -> Option<&Channel> {
        self.channel.as_deref()
    }

    /// True if the bytes of this body come from this pipe, unchanged.
    pub(crate) fn is_read_from(&self, pipe: &Rc<BodyPipe>) -> bool {
        matches!(&self.source, IncomingSource::Pipe(own) if Rc::ptr_eq(own, pipe))
    }

    /// Waits for the next chunk; `None` at the end. Chunks are as the network delivers them, and never empty.
    ///
    /// Cancel safe: a chunk is taken only when it is returned.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|cx| self.poll_bytes(cx)).await
    }

    /// Returns the next chunk like [`chunk`](Self::chunk).
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        match &mut self.source {
            IncomingSource::Empty => Poll::Ready(None),
            IncomingSource::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                self.source = IncomingSource::Empty;
                Poll::Ready((!bytes.is_empty()).then_some(Ok(bytes)))
            }
            IncomingSource::Pipe(pipe) => pipe.poll_chunk(cx),
            IncomingSource::Changed(body) => body.poll_bytes(cx),
        }
    }

    /// Waits for the whole body. A body of one chunk is not copied.
    ///
    /// # Errors
    /// The body is longer than `limit`, or has no end.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, BodyError> {
        let too_long = BodyError::LongerThan { limit };
        if self.exact_len().is_some_and(|length| length > limit as u64) {
            return Err(too_long);
        }
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk?;
            if first.len() + rest.len() + chunk.len() > limit {
                return Err(too_long);
            }
            if first.is_empty() && rest.is_empty() {
                first = chunk;
                continue;
            }
            if rest.is_empty() {
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&chunk);
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    }

    /// Takes the trailers of a body in chunks, after its end.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        match &mut self.source {
            IncomingSource::Pipe(pipe) => pipe.take_trailers().map(|trailers| *trailers),
            IncomingSource::Changed(body) => body.take_trailers(),
            _ => None,
        }
    }

    /// Returns the number of bytes that are still to come, if known.
    #[must_use]
    pub fn exact_len(&self) -> Option<u64> {
        match &self.source {
            IncomingSource::Empty => Some(0),
            IncomingSource::Bytes(bytes) => Some(bytes.len() as u64),
            IncomingSource::Pipe(pipe) => pipe.remaining(),
            IncomingSource::Changed(body) => body.exact_len(),
        }
    }
}

impl BodySource for Incoming {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        let next = ready!(self.poll_bytes(cx));
        Poll::Ready(next.map(|chunk| chunk.map(BodyChunk::Bytes).map_err(Error::new)))
    }

    /// Returns the length, unless trailers follow: only a body in chunks can have them.
    fn exact_len(&self) -> Option<u64> {
        match &self.source {
            IncomingSource::Pipe(pipe) if pipe.has_trailers() => None,
            _ => Incoming::exact_len(self),
        }
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        Incoming::take_trailers(self)
    }
}

impl From<Bytes> for Incoming {
    /// Returns a body of these bytes, of no connection: for tests of services, and for wrappers that change a body.
    fn from(bytes: Bytes) -> Self {
        Self { source: IncomingSource::Bytes(bytes), channel: None }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let IncomingSource::Pipe(pipe) = &self.source {
            pipe.abandon();
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("exact_len", &self.exact_len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::outgoing::Body;

    #[test]
    fn h04_a_body_that_ended_with_trailers_is_passed_on_in_chunks() {
        for has_trailers in [false, true] {
            let pipe = Rc::new(BodyPipe::new(None, false));
            pipe.finish(has_trailers.then(|| Box::new(HeaderMap::new())));
            let body = Incoming::new(Some(pipe), None);
            assert_eq!(body.exact_len(), Some(0));
            let expected = if has_trailers { None } else { Some(0) };
            assert_eq!(Body::from(body).exact_len(), expected, "trailers: {has_trailers}");
        }
    }
}
