//! The messages between a codec and the handlers after it.

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version, header};
use waterwheel_channel::Message;

use crate::protocol::error::MessageError;
use crate::protocol::fields::{fields_len, has_element};
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_head::RequestHead;
use crate::protocol::response_decoder::ResponseHead;

/// The bytes that a head counts for besides its fields: the start line and the fields of the framing.
const HEAD_SIZE: usize = 128;

/// The end of a message, with the trailers of a body in chunks. Follows every head but those of interim responses.
#[derive(Clone, Debug, Default)]
pub struct BodyEnd {
    /// The trailers, if there are any.
    pub trailers: Option<Box<HeaderMap>>,
}

/// A whole request: what an [`Aggregator`](crate::Aggregator) makes of the parts, and what a client may write instead of
/// them.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_http::FullRequest;
///
/// let request = http::Request::get("http://example.org/a").body(Bytes::new())?;
/// let message = FullRequest::from(request);
/// assert_eq!(message.request.uri().path(), "/a");
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Debug)]
pub struct FullRequest {
    /// The head and the body.
    pub request: http::Request<Bytes>,
    /// The trailers, if there are any.
    pub trailers: Option<Box<HeaderMap>>,
}

/// A whole response: what a server may write instead of the parts, and what an [`Aggregator`](crate::Aggregator) makes of
/// those of a client.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_http::FullResponse;
///
/// let message = FullResponse::from(http::Response::new(Bytes::from_static(b"hello")));
/// assert_eq!(message.response.status(), 200);
/// ```
#[derive(Debug)]
pub struct FullResponse {
    /// The head and the body.
    pub response: http::Response<Bytes>,
    /// The trailers, if there are any.
    pub trailers: Option<Box<HeaderMap>>,
}

/// A user event of the server's codec: a request was refused. The codec answers it; nothing more of it comes, and no
/// other request follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRefused(pub MessageError);

/// Written by a handler after the server's codec: refuses the request whose body is being received. The codec answers
/// it when all requests before it are answered, and then closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefuseRequest(pub MessageError);

impl ResponseHead {
    /// Returns the head of a response to be written. Its fields are added to `headers`; those of the framing are the
    /// codec's.
    ///
    /// ```
    /// use http::StatusCode;
    /// use waterwheel_http::{BodyFraming, ResponseHead};
    ///
    /// let head = ResponseHead::new(StatusCode::OK, BodyFraming::Chunked);
    /// assert!(head.keeps_alive && !head.is_interim());
    /// ```
    #[must_use]
    pub fn new(status: StatusCode, framing: BodyFraming) -> Self {
        let (version, headers) = (Version::HTTP_11, HeaderMap::new());
        Self { status, version, headers, framing, keeps_alive: true }
    }

    /// Returns the head of `100 Continue`: the client may send the body that it holds back.
    #[must_use]
    pub fn go_on() -> Self {
        Self::new(StatusCode::CONTINUE, BodyFraming::None)
    }

    /// True for a head that another one follows, without a [`BodyEnd`] between them: status 1xx but 101.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// Returns the head of a whole response with a body of this length.
    pub(super) fn of_full(parts: http::response::Parts, framing: BodyFraming) -> Self {
        Self {
            keeps_alive: !has_element(&parts.headers, &header::CONNECTION, "close"),
            status: parts.status,
            version: parts.version,
            headers: parts.headers,
            framing,
        }
    }
}

/// Returns the framing of a whole message: its length, unless it has trailers, which come with chunks only.
pub(super) fn full_framing(body: &Bytes, trailers: Option<&HeaderMap>) -> BodyFraming {
    match trailers {
        Some(_) => BodyFraming::Chunked,
        None => BodyFraming::Length(body.len() as u64),
    }
}

impl From<http::Request<Bytes>> for FullRequest {
    fn from(request: http::Request<Bytes>) -> Self {
        Self { request, trailers: None }
    }
}

impl From<http::Response<Bytes>> for FullResponse {
    fn from(response: http::Response<Bytes>) -> Self {
        Self { response, trailers: None }
    }
}

impl Message for RequestHead {
    fn size_hint(&self) -> usize {
        HEAD_SIZE + self.encoded_len()
    }
}

impl Message for ResponseHead {
    fn size_hint(&self) -> usize {
        HEAD_SIZE + fields_len(&self.headers)
    }
}

impl Message for BodyEnd {
    fn size_hint(&self) -> usize {
        self.trailers.as_ref().map_or(0, |trailers| fields_len(trailers))
    }
}

impl Message for FullRequest {
    fn size_hint(&self) -> usize {
        HEAD_SIZE + fields_len(self.request.headers()) + self.request.body().len()
    }
}

impl Message for FullResponse {
    fn size_hint(&self) -> usize {
        HEAD_SIZE + fields_len(self.response.headers()) + self.response.body().len()
    }
}

impl Message for RequestRefused {}

impl Message for RefuseRequest {}
