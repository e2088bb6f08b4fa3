//! A request as a service gets it.

use std::fmt;

use http::{Extensions, HeaderMap, Method, Uri, Version};

use crate::body::incoming::Incoming;
use crate::protocol::framing::BodyFraming;
use crate::protocol::request_head::RequestHead;

/// A request, with the body that comes from the connection.
///
/// The types of its parts are those of the crate `http`; the request is one of its own, because its URI and its map of
/// fields are made when they are asked for, and because its memory is used again by the next request. It becomes an
/// `http::Request`, and back, by `From`.
///
/// ```
/// use waterwheel_http::{Incoming, Request};
///
/// let request: Request = http::Request::get("/a?b").body(Incoming::empty())?.into();
/// assert_eq!((request.path(), request.uri().query()), ("/a", Some("b")));
/// # Ok::<(), http::Error>(())
/// ```
pub struct Request {
    head: RequestHead,
    body: Incoming,
}

impl Request {
    /// Returns a request to `/` with a body: for tests of services.
    #[must_use]
    pub fn new(body: Incoming) -> Self {
        http::Request::new(body).into()
    }

    #[inline]
    pub(crate) fn of(head: RequestHead, body: Incoming) -> Self {
        Self { head, body }
    }

    /// Returns a request of the parts of an `http::Request`.
    #[must_use]
    pub fn from_parts(parts: http::request::Parts, body: Incoming) -> Self {
        Self { head: RequestHead::from_parts(parts, BodyFraming::None), body }
    }

    /// Returns the parts of an `http::Request`, and the body.
    #[must_use]
    pub fn into_parts(self) -> (http::request::Parts, Incoming) {
        (self.head.into_parts(), self.body)
    }

    /// Returns the head.
    #[must_use]
    pub fn head(&self) -> &RequestHead {
        &self.head
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.head.method()
    }

    /// Returns the method, to change it.
    pub fn method_mut(&mut self) -> &mut Method {
        self.head.method_mut()
    }

    /// Returns the target: a path with a query, a whole URI, an authority or `*`.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        self.head.uri()
    }

    /// Returns the target, to change it.
    pub fn uri_mut(&mut self) -> &mut Uri {
        self.head.uri_mut()
    }

    /// Returns the path of the target, as it was sent.
    #[must_use]
    pub fn path(&self) -> &str {
        self.head.path()
    }

    /// Returns the version: HTTP/1.0 or HTTP/1.1.
    #[must_use]
    pub fn version(&self) -> Version {
        self.head.version()
    }

    /// Returns the value of a field, of the first one if there are several; see [`headers`](Self::headers) for all.
    /// Makes no map.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.header(name)
    }

    /// Returns the fields.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.head.headers()
    }

    /// Returns the fields, to change them.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        self.head.headers_mut()
    }

    /// Returns values that were added to the request.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        self.head.extensions()
    }

    /// Returns values that were added to the request, to add others.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        self.head.extensions_mut()
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> &Incoming {
        &self.body
    }

    /// Returns the body, to read it.
    pub fn body_mut(&mut self) -> &mut Incoming {
        &mut self.body
    }

    /// Returns the body, without the head.
    #[must_use]
    pub fn into_body(self) -> Incoming {
        self.body
    }
}

impl From<http::Request<Incoming>> for Request {
    fn from(request: http::Request<Incoming>) -> Self {
        let (parts, body) = request.into_parts();
        Self::from_parts(parts, body)
    }
}

impl From<Request> for http::Request<Incoming> {
    fn from(request: Request) -> Self {
        let (parts, body) = request.into_parts();
        Self::from_parts(parts, body)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("head", &self.head).field("body", &self.body).finish()
    }
}
