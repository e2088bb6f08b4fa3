//! The head of a request: its lines as they were read, and the values that are made of them when they are asked for.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

use super::fields::{append_field, fields_len};
use super::framing::{BodyFraming, FramingFields};

/// The head of a request, with what it says of its body and its connection.
///
/// The lines are checked when they are read. [`uri`](Self::uri) and [`headers`](Self::headers) are made when they are
/// asked for first: a service that looks at the path and at one field needs neither a URI nor a map.
pub struct RequestHead {
    /// `None` only while the head is dropped.
    lines: Option<Box<HeadLines>>,
}

/// The lines of a head. Used again by the next request, with its memory.
#[derive(Default)]
pub(super) struct HeadLines {
    /// The bytes of the head.
    pub(super) bytes: Bytes,
    pub(super) method: Method,
    pub(super) version: Version,
    /// The request target.
    pub(super) target: Range<usize>,
    /// Made when it is asked for; targets that do not begin with a slash, when they are read.
    pub(super) uri: OnceCell<Uri>,
    pub(super) fields: Vec<FieldLine>,
    headers: OnceCell<HeaderMap>,
    extensions: Extensions,
    pub(super) framing: BodyFraming,
    pub(super) facts: FramingFields,
}

/// The places of a field's name and value in the bytes of a head.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldLine {
    pub(super) name: (u32, u32),
    pub(super) value: (u32, u32),
}

impl FieldLine {
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.name.0 as usize..self.name.1 as usize]
    }

    fn value_range(&self) -> Range<usize> {
        self.value.0 as usize..self.value.1 as usize
    }
}

/// The most heads that a thread keeps for its next requests: about 50 KiB.
const MAX_KEPT_HEADS: usize = 64;

/// The most lines for which a kept head has room.
const MAX_KEPT_LINES: usize = 64;

thread_local! {
    /// Heads that are not used.
    #[allow(clippy::vec_box, reason = "a head goes in and out with its box, which is what is kept")]
    static KEPT: RefCell<Vec<Box<HeadLines>>> = const { RefCell::new(Vec::new()) };
}

impl RequestHead {
    /// Takes an empty head, with memory of an earlier one if there is some.
    #[inline]
    pub(super) fn take_lines() -> Box<HeadLines> {
        let kept = KEPT.try_with(|kept| kept.borrow_mut().pop()).ok().flatten();
        kept.unwrap_or_default()
    }

    #[inline]
    pub(super) fn of_lines(lines: Box<HeadLines>) -> Self {
        Self { lines: Some(lines) }
    }

    /// Returns the head of a request to be written, without fields.
    ///
    /// ```
    /// use http::{HeaderValue, Method, Uri};
    /// use waterwheel_http::{BodyFraming, RequestHead};
    ///
    /// let uri = Uri::from_static("http://example.org/a");
    /// let mut head = RequestHead::new(Method::POST, uri, BodyFraming::Chunked);
    /// head.headers_mut().insert("x-trace", HeaderValue::from_static("7"));
    /// assert_eq!((head.path(), head.header("X-Trace")), ("/a", Some(&b"7"[..])));
    /// ```
    #[must_use]
    pub fn new(method: Method, uri: Uri, framing: BodyFraming) -> Self {
        let mut lines = Self::take_lines();
        lines.method = method;
        lines.version = Version::HTTP_11;
        lines.uri = OnceCell::from(uri);
        lines.headers = OnceCell::from(HeaderMap::new());
        lines.framing = framing;
        Self::of_lines(lines)
    }

    /// Returns a head of the parts of an `http::Request`, with the body that follows. What it says of the connection is
    /// what the fields of the parts say.
    ///
    /// ```
    /// use waterwheel_http::{BodyFraming, RequestHead};
    ///
    /// let request = http::Request::get("/a").header("connection", "close").body(())?;
    /// let head = RequestHead::from_parts(request.into_parts().0, BodyFraming::None);
    /// assert!(!head.keeps_alive());
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn from_parts(parts: http::request::Parts, framing: BodyFraming) -> Self {
        let mut head = Self::new(parts.method, parts.uri, framing);
        let lines = head.lines_mut();
        lines.version = parts.version;
        for (name, value) in &parts.headers {
            // The framing is the caller's: a field that contradicts it is not sent.
            let _ = lines.facts.add(name.as_str().as_bytes(), value.as_bytes());
        }
        lines.headers = OnceCell::from(parts.headers);
        lines.extensions = parts.extensions;
        head
    }

    /// Returns the parts of an `http::Request`.
    #[must_use]
    pub fn into_parts(mut self) -> http::request::Parts {
        self.headers_mut();
        let mut request = http::Request::new(());
        if let Some(lines) = &mut self.lines {
            *request.method_mut() = std::mem::take(&mut lines.method);
            *request.version_mut() = lines.version;
            *request.uri_mut() = uri_of(lines).clone();
            *request.headers_mut() = lines.headers.take().unwrap_or_default();
            *request.extensions_mut() = std::mem::take(&mut lines.extensions);
        }
        request.into_parts().0
    }

    #[inline]
    fn lines(&self) -> &HeadLines {
        match &self.lines {
            Some(lines) => lines,
            None => unreachable!("a head has its lines until it is dropped"),
        }
    }

    #[inline]
    fn lines_mut(&mut self) -> &mut HeadLines {
        match &mut self.lines {
            Some(lines) => lines,
            None => unreachable!("a head has its lines until it is dropped"),
        }
    }

    /// Returns the method.
    #[inline]
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.lines().method
    }

    /// Returns the method, to change it.
    pub fn method_mut(&mut self) -> &mut Method {
        &mut self.lines_mut().method
    }

    /// Returns the version: HTTP/1.0 or HTTP/1.1.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.lines().version
    }

    /// Returns the target: a path with a query, a whole URI, an authority or `*`.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        uri_of(self.lines())
    }

    /// Returns the target, to change it.
    pub fn uri_mut(&mut self) -> &mut Uri {
        let lines = self.lines_mut();
        if lines.uri.get().is_none() {
            let uri = parse_uri(lines);
            let _ = lines.uri.set(uri);
        }
        match lines.uri.get_mut() {
            Some(uri) => uri,
            None => unreachable!("the cell has just been filled"),
        }
    }

    /// Returns the path of the target, as it was sent: without a URI if none was asked for.
    #[must_use]
    pub fn path(&self) -> &str {
        let lines = self.lines();
        if let Some(uri) = lines.uri.get() {
            return uri.path();
        }
        let target = &lines.bytes[lines.target.clone()];
        let end = memchr::memchr(b'?', target).unwrap_or(target.len());
        // Checked when the line was read.
        std::str::from_utf8(&target[..end]).unwrap_or("/")
    }

    /// Returns the value of a field; of the first one if there are several. `name` is compared without regard to the case
    /// of letters.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let lines = self.lines();
        if let Some(headers) = lines.headers.get() {
            return headers.get(name).map(HeaderValue::as_bytes);
        }
        let is_named =
            |field: &&FieldLine| field.name(&lines.bytes).eq_ignore_ascii_case(name.as_bytes());
        let field = lines.fields.iter().find(is_named)?;
        Some(&lines.bytes[field.value_range()])
    }

    /// Returns the fields.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        let lines = self.lines();
        lines.headers.get_or_init(|| make_headers(lines))
    }

    /// Returns the fields, to change them.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        let lines = self.lines_mut();
        if lines.headers.get().is_none() {
            let headers = make_headers(lines);
            let _ = lines.headers.set(headers);
        }
        match lines.headers.get_mut() {
            Some(headers) => headers,
            None => unreachable!("the cell has just been filled"),
        }
    }

    /// Returns about how many bytes the head takes; makes no map of the fields.
    pub(crate) fn encoded_len(&self) -> usize {
        let lines = self.lines();
        lines.headers.get().map_or(lines.bytes.len(), fields_len)
    }

    /// Returns values that were added to the request.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.lines().extensions
    }

    /// Returns values that were added to the request, to add others.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.lines_mut().extensions
    }

    /// Returns the body that follows.
    #[inline]
    #[must_use]
    pub fn framing(&self) -> BodyFraming {
        self.lines().framing
    }

    /// True if the client can send another request after this one.
    #[inline]
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        let lines = self.lines();
        lines.facts.keeps_alive(lines.version)
    }

    /// True if the client waits for `100 Continue` before it sends the body.
    #[inline]
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        let lines = self.lines();
        lines.facts.expects_continue && lines.version == Version::HTTP_11
    }

    /// True if the client asks for another protocol (Upgrade).
    #[inline]
    #[must_use]
    pub fn wants_upgrade(&self) -> bool {
        let lines = self.lines();
        lines.facts.has_upgrade
            && lines.facts.connection.upgrade
            && lines.version == Version::HTTP_11
    }
}

fn uri_of(lines: &HeadLines) -> &Uri {
    lines.uri.get_or_init(|| parse_uri(lines))
}

/// Makes the URI of a target that was checked when it was read.
fn parse_uri(lines: &HeadLines) -> Uri {
    let target = lines.bytes.slice(lines.target.clone());
    Uri::from_maybe_shared(target).unwrap_or_default()
}

/// Makes the map of fields that were checked when they were read.
#[cold]
fn make_headers(lines: &HeadLines) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(lines.fields.len());
    for field in &lines.fields {
        let name = HeaderName::from_bytes(field.name(&lines.bytes));
        let value = HeaderValue::from_maybe_shared(lines.bytes.slice(field.value_range()));
        if let (Ok(name), Ok(value)) = (name, value) {
            append_field(&mut headers, name, value);
        }
    }
    headers
}

impl HeadLines {
    /// Makes the head empty; keeps its memory.
    fn clear(&mut self) {
        self.bytes = Bytes::new();
        self.method = Method::GET;
        self.fields.clear();
        drop(self.uri.take());
        drop(self.headers.take());
        self.extensions.clear();
        self.facts = FramingFields::default();
        self.framing = BodyFraming::None;
    }
}

/// Keeps the memory of a head for the next request of this thread.
#[inline]
pub(super) fn keep_lines(mut lines: Box<HeadLines>) {
    if lines.fields.capacity() > MAX_KEPT_LINES {
        return;
    }
    // Values of the user's among the extensions are dropped here, with nothing borrowed.
    lines.clear();
    // A thread that ends keeps nothing.
    let _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < MAX_KEPT_HEADS {
            kept.push(lines);
        }
    });
}

impl Drop for RequestHead {
    #[inline]
    fn drop(&mut self) {
        if let Some(lines) = self.lines.take() {
            keep_lines(lines);
        }
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead")
            .field("method", self.method())
            .field("uri", self.uri())
            .field("version", &self.version())
            .field("headers", self.headers())
            .field("framing", &self.framing())
            .finish_non_exhaustive()
    }
}
