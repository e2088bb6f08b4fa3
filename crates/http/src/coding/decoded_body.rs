//! The body of a received message, decoded while it is read.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue};

use super::decoder::{ContentDecoder, DecodeStatus};
use super::limits::DecodeLimits;
use super::step_budget::StepBudget;
use super::unsupported_coding::UnsupportedCoding;
use crate::body::error::BodyError;
use crate::body::incoming::{ChangedBody, Incoming};
use crate::body::outgoing::Body;
use crate::content::content_coding::ContentCoding;
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::Response;

/// Prepares a request's body to be decoded as its Content-Encoding says, and removes the fields that are no longer true:
/// Content-Encoding and Content-Length. Of a body without a coding only the size is limited.
///
/// Decoding pauses every 64 KiB of output, so that other channels of the loop have their turn. An error of decoding is
/// [`BodyError::Undecodable`], and the end of the body.
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
pub fn decompress(request: Request, limits: DecodeLimits) -> Result<Request, UnsupportedCoding> {
    let (mut parts, body) = request.into_parts();
    let decoder = ContentDecoder::for_headers(&parts.headers, limits)?;
    let is_encoded = decoder.is_some();
    if is_encoded {
        parts.headers.remove(CONTENT_ENCODING);
        parts.headers.remove(CONTENT_LENGTH);
    }
    let decoder = match decoder {
        Some(decoder) => decoder,
        None => ContentDecoder::new(&[], limits)?,
    };
    let body = body.changed(|body| DecodedBody {
        body,
        decoder,
        input: Bytes::new(),
        out: BytesMut::new(),
        has_more: false,
        is_encoded,
        has_ended: false,
        budget: StepBudget::new(),
    });
    Ok(Request::from_parts(parts, body))
}

/// The body of a received message, decoded while it is read.
struct DecodedBody {
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
    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
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

impl ChangedBody for DecodedBody {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_decoded(cx));
        self.has_ended = !matches!(next, Ok(Some(_)));
        Poll::Ready(next.transpose())
    }

    fn exact_len(&self) -> Option<u64> {
        if self.is_encoded { None } else { self.body.exact_len() }
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.body.take_trailers()
    }
}

/// The status 415, with the codings that are decoded in Accept-Encoding (RFC 9110, section 12.5.3).
impl IntoResponse for UnsupportedCoding {
    fn into_response(self) -> Response {
        if let Self::Memory(error) = self {
            return BodyError::Undecodable(error).into_response();
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
