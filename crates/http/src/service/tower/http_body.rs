//! Bodies of the crate `http-body`: ours as one of them, and any of them as ours.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use waterwheel_executor::Error;

use super::send_body::BodyPump;
use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::outgoing::Body;
use crate::body::source::{BodyChunk, BodySource};

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = match ready!(self.poll_bytes(cx)) {
            Some(chunk) => Some(chunk.map(Frame::data)),
            None => self.take_trailers().map(|trailers| Ok(Frame::trailers(trailers))),
        };
        Poll::Ready(next)
    }

    fn size_hint(&self) -> SizeHint {
        self.exact_len().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Body {
    /// Returns a body of the frames of any body of the crate `http-body`, trailers included. A body of known length whose
    /// bytes are all there is not boxed: the body is polled once for that.
    #[must_use]
    pub fn from_http_body<B>(body: B) -> Self
    where
        B: HttpBody + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        Self::from_parts(body, None)
    }

    /// Returns a body that also hands over the body of the request, which the service may still read.
    pub(super) fn from_parts<B>(body: B, pump: Option<BodyPump>) -> Self
    where
        B: HttpBody + 'static,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        if body.is_end_stream() {
            return Self::empty();
        }
        let length = body.size_hint().exact();
        let mut source =
            HttpBodySource { body: Box::pin(body), length, first: None, trailers: None, pump };
        if length.is_some() {
            // A body that waits is polled again by the connection, with a waker.
            let mut cx = Context::from_waker(Waker::noop());
            match source.poll_chunk(&mut cx) {
                Poll::Pending => {}
                Poll::Ready(Some(Ok(BodyChunk::Bytes(bytes))))
                    if source.body.is_end_stream() && length == Some(bytes.len() as u64) =>
                {
                    return Self::from(bytes);
                }
                Poll::Ready(first) => source.first = Some(first),
            }
        }
        Self::from_source(source)
    }
}

/// A body of another crate as a source.
struct HttpBodySource<B> {
    body: Pin<Box<B>>,
    length: Option<u64>,
    /// The chunk that was polled before the connection asked for it.
    first: Option<Option<Result<BodyChunk, Error>>>,
    trailers: Option<HeaderMap>,
    pump: Option<BodyPump>,
}

impl<B> BodySource for HttpBodySource<B>
where
    B: HttpBody + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(first);
        }
        loop {
            if let Some(pump) = &mut self.pump {
                pump.clear_waker();
            }
            let frame = match self.body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    match self.pump.as_mut().is_some_and(|pump| pump.poll_handover(cx)) {
                        true => continue,
                        false => return Poll::Pending,
                    }
                }
            };
            match frame.transpose().map_err(Error::new)?.map(Frame::into_data) {
                None => return Poll::Ready(None),
                Some(Ok(mut data)) => {
                    let bytes = data.copy_to_bytes(data.remaining());
                    return Poll::Ready(Some(Ok(bytes.into())));
                }
                Some(Err(frame)) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.trailers.get_or_insert_default().extend(trailers);
                    }
                }
            }
        }
    }

    fn exact_len(&self) -> Option<u64> {
        self.length
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}
