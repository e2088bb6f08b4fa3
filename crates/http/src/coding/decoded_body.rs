//! The body of a received message, decoded while it is read.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Request as HttpRequest, StatusCode};
use waterwheel_executor::Error;

use super::content_coding::ContentCoding;
use super::decode_error::{ContentDecodeError, UnsupportedCoding};
use super::decoder::{ContentDecoder, DecodeStatus};
use super::limits::DecodeLimits;
use super::step_budget::StepBudget;
use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::outgoing::Body;
use crate::body::source::{BodyChunk, BodySource};
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::Response;

/// Prepares a request's body to be decoded as its Content-Encoding says, and removes the fields that are no longer true:
/// Content-Encoding and Content-Length. A body without a coding passes as it is, and only its size is limited.
///
/// ```
/// use waterwheel_http::{DecodeLimits, IntoResponse, Request, Response, decompress};
///
/// async fn upload(request: Request) -> Response {
///     let request = match decompress(request, DecodeLimits::default()) {
///         Ok(request) => request,
///         Err(unsupported) => return unsupported.into_response(), // 415, with the codings that are
///     };
///     match request.into_body().collect(1024 * 1024).await {
///         Ok(bytes) => format!("{} bytes", bytes.len()).into_response(),
///         Err(error) => error.into_response(), // 400 or 413
///     }
/// }
/// # drop(upload);
/// ```
///
/// # Errors
/// The coding is unknown or not compiled in, or there are too many. The request is dropped: it can only be refused.
pub fn decompress(
    request: Request,
    limits: DecodeLimits,
) -> Result<HttpRequest<DecodedBody>, UnsupportedCoding> {
    let (mut parts, body) = request.into_parts();
    let body = DecodedBody::new(&mut parts.headers, body, limits)?;
    Ok(HttpRequest::from_parts(parts, body))
}

/// The body of a received message, decoded while it is read. Not `Send`, like [`Incoming`].
///
/// Decoding pauses every 64 KiB of output, so that other channels of the loop have their turn.
pub struct DecodedBody {
    body: Incoming,
    decoder: ContentDecoder,
    /// Bytes that were received and are not decoded yet.
    input: Bytes,
    out: BytesMut,
    /// The decoder may hold output back.
    has_more: bool,
    is_encoded: bool,
    has_ended: bool,
    budget: StepBudget,
}

impl DecodedBody {
    /// Returns the decoded form of a body that was received with these fields; removes Content-Encoding and Content-Length
    /// from them, if the body is encoded.
    ///
    /// # Errors
    /// The coding is unknown or not compiled in, or there are too many.
    pub fn new(
        headers: &mut HeaderMap,
        body: Incoming,
        limits: DecodeLimits,
    ) -> Result<Self, UnsupportedCoding> {
        let decoder = ContentDecoder::for_headers(headers, limits)?;
        let is_encoded = decoder.is_some();
        if is_encoded {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let decoder = match decoder {
            Some(decoder) => decoder,
            None => ContentDecoder::new(&[], limits)?,
        };
        Ok(Self {
            body,
            decoder,
            input: Bytes::new(),
            out: BytesMut::new(),
            has_more: false,
            is_encoded,
            has_ended: false,
            budget: StepBudget::new(),
        })
    }

    /// Waits for the next decoded chunk, which is never empty; `None` at the end and after an error.
    ///
    /// Cancel safe: a chunk is taken only when it is returned.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, DecodedBodyError>> {
        poll_fn(|cx| self.poll_bytes(cx)).await
    }

    /// Returns the next chunk like [`chunk`](Self::chunk).
    pub fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, DecodedBodyError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_decoded(cx));
        self.has_ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose())
    }

    /// Waits for the whole decoded body.
    ///
    /// # Errors
    /// The body is longer than `limit`, exceeds the limits of decoding, is corrupt, or has no end.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, DecodedBodyError> {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = self.chunk().await {
            let chunk = chunk?;
            if bytes.len() + chunk.len() > limit {
                return Err(BodyError::LongerThan { limit }.into());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    }

    /// Takes the trailers of a body in chunks, after its end.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.body.take_trailers()
    }

    fn poll_decoded(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, DecodedBodyError>> {
        loop {
            if self.input.is_empty() && !self.has_more {
                match self.body.poll_bytes(cx) {
                    Poll::Ready(Some(chunk)) => self.input = chunk?,
                    Poll::Ready(None) => {
                        self.decoder.finish()?;
                        return Poll::Ready(Ok(None));
                    }
                    Poll::Pending => {
                        self.budget.refill();
                        return Poll::Pending;
                    }
                }
                continue;
            }
            ready!(self.budget.poll_step(cx));
            let mut rest = &self.input[..];
            let status = self.decoder.decode(&mut rest, &mut self.out)?;
            let taken = self.input.len() - rest.len();
            self.input.advance(taken);
            self.has_more = status == DecodeStatus::HasMore;
            if !self.out.is_empty() {
                return Poll::Ready(Ok(Some(self.out.split().freeze())));
            }
        }
    }
}

impl BodySource for DecodedBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        let next = ready!(self.poll_bytes(cx));
        Poll::Ready(next.map(|chunk| chunk.map(BodyChunk::Bytes).map_err(Error::new)))
    }

    fn exact_len(&self) -> Option<u64> {
        if self.is_encoded { None } else { self.body.exact_len() }
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        DecodedBody::take_trailers(self)
    }
}

impl fmt::Debug for DecodedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { body, decoder, .. } = self;
        f.debug_struct("DecodedBody")
            .field("body", body)
            .field("decoder", decoder)
            .finish_non_exhaustive()
    }
}

/// The error of a body that is received and decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodedBodyError {
    /// The body was not received.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The body was received and cannot be decoded.
    #[error(transparent)]
    Decode(#[from] ContentDecodeError),
}

impl ContentDecodeError {
    /// Returns the status of the answer to a request with such a body: 413 if a limit is exceeded, 400 if the body is not
    /// what its Content-Encoding says, 503 if there is no memory.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } | Self::Ratio { .. } | Self::WindowTooLarge { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Corrupt { .. } | Self::Truncated { .. } | Self::TrailingBytes { .. } => {
                StatusCode::BAD_REQUEST
            }
            Self::Memory { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for DecodedBodyError {
    fn into_response(self) -> Response {
        match self {
            Self::Body(error) => error.into_response(),
            Self::Decode(error) => (error.status(), Body::from(error.to_string())).into_response(),
        }
    }
}

/// The status 415, with the codings that are decoded in Accept-Encoding (RFC 9110, section 12.5.3).
impl IntoResponse for UnsupportedCoding {
    fn into_response(self) -> Response {
        if let Self::Memory(error) = self {
            return DecodedBodyError::Decode(error).into_response();
        }
        let text = Body::from(self.to_string());
        let mut response = (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
        let decoded = ContentCoding::ALL.into_iter().filter(|coding| coding.is_available());
        let names = decoded.map(ContentCoding::name).collect::<Vec<_>>().join(", ");
        if let Ok(names) = HeaderValue::try_from(names) {
            response.headers_mut().insert(ACCEPT_ENCODING, names);
        }
        response
    }
}
