//! Bodies of messages that are sent.

use std::fmt;

use bytes::Bytes;
use waterwheel_channel::{Edit, FileRegion};
use waterwheel_executor::Error;

use super::incoming::Incoming;
use super::source::BodySource;

/// The body of a message that is sent: nothing, bytes, a part of a file, or a stream of chunks. Not `Send`: a body is
/// sent by the loop that made it.
///
/// ```
/// use waterwheel_http::Body;
///
/// assert_eq!(Body::from("hello").exact_len(), Some(5));
/// assert_eq!(Body::empty().exact_len(), Some(0));
/// ```
pub struct Body {
    repr: BodyRepr,
    content_type: Option<&'static str>,
}

/// The kinds of bodies.
pub(crate) enum BodyRepr {
    Empty,
    Bytes(Bytes),
    File(FileRegion),
    Source(Box<dyn BodySource>),
    /// The connection changes its protocol after the head.
    Upgrade(UpgradeInitialiser),
}

/// Builds the pipeline of the next protocol.
pub(crate) type UpgradeInitialiser = Box<dyn FnOnce(&mut Edit<'_>) -> Result<(), Error>>;

impl Body {
    /// Returns a body without bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self::new(BodyRepr::Empty)
    }

    /// Returns a body of a part of a file. The kernel sends it (sendfile) if no other handler stands between HTTP and the
    /// transport; otherwise, as with TLS, it is read in pieces.
    #[must_use]
    pub fn file(region: FileRegion) -> Self {
        Self::new(BodyRepr::File(region))
    }

    /// Returns a body of chunks.
    #[must_use]
    pub fn from_source(source: impl BodySource) -> Self {
        Self::new(BodyRepr::Source(Box::new(source)))
    }

    /// Returns the end of HTTP on this connection: after the head of the response, with status 101, or 2xx to CONNECT,
    /// the handlers that `initialiser` adds take the place of those of HTTP. They see what the client sent behind its
    /// request.
    #[must_use]
    pub fn upgrade(initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error> + 'static) -> Self {
        Self::new(BodyRepr::Upgrade(Box::new(initialiser)))
    }

    const fn new(repr: BodyRepr) -> Self {
        Self { repr, content_type: None }
    }

    /// Sets the Content-Type of the message, unless its headers have one. Costs less than a header.
    ///
    /// # Panics
    /// The text is not a value of a field, as with `HeaderValue::from_static`: it has more than visible ASCII characters,
    /// spaces and tabs, so that it could split a message.
    #[must_use]
    #[track_caller]
    pub fn with_content_type(self, content_type: &'static str) -> Self {
        let is_value = |byte| matches!(byte, b'\t' | b' '..=b'~');
        assert!(content_type.bytes().all(is_value), "{content_type:?} is not a Content-Type");
        self.with_checked_type(content_type)
    }

    fn with_checked_type(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    /// Returns the number of bytes, if known.
    #[must_use]
    pub fn exact_len(&self) -> Option<u64> {
        match &self.repr {
            BodyRepr::Empty | BodyRepr::Upgrade(_) => Some(0),
            BodyRepr::Bytes(bytes) => Some(bytes.len() as u64),
            BodyRepr::File(region) => Some(region.len()),
            BodyRepr::Source(source) => source.exact_len(),
        }
    }

    /// Returns the type that was set by [`with_content_type`](Self::with_content_type), or that text has.
    #[must_use]
    pub fn content_type(&self) -> Option<&'static str> {
        self.content_type
    }

    /// True if the body has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exact_len() == Some(0)
    }

    /// True for the end of HTTP on the connection.
    pub(crate) fn is_upgrade(&self) -> bool {
        matches!(self.repr, BodyRepr::Upgrade(_))
    }

    /// True for a stream of chunks.
    pub(crate) fn is_source(&self) -> bool {
        matches!(self.repr, BodyRepr::Source(_))
    }

    pub(crate) fn into_repr(self) -> BodyRepr {
        self.repr
    }
}

/// The type of bodies that are text.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::new(BodyRepr::Bytes(bytes))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Bytes::from(bytes))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::from(Bytes::from_static(text.as_bytes())).with_checked_type(PLAIN_TEXT)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::from(Bytes::from(text)).with_checked_type(PLAIN_TEXT)
    }
}

impl From<Incoming> for Body {
    fn from(body: Incoming) -> Self {
        match body.exact_len() {
            Some(0) => Self::empty(),
            _ => Self::from_source(body),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.repr {
            BodyRepr::Empty => "empty",
            BodyRepr::Bytes(_) => "bytes",
            BodyRepr::File(_) => "file",
            BodyRepr::Source(_) => "source",
            BodyRepr::Upgrade(_) => "upgrade",
        };
        write!(f, "Body({kind}, length {:?})", self.exact_len())
    }
}
