//! Rules of which answers are compressed, and what that does to their header fields.

use std::task::Poll;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, HeaderMap, HeaderName, HeaderValue, VARY,
};
use http::{Method, StatusCode, request, response};
use waterwheel_executor::Error;

use super::encoded_body::encode_body;
use super::encoder::ContentEncoder;
use super::encoder_options::{ContentEncodeError, EncoderOptions};
use super::media_type;
use crate::body::outgoing::Body;
use crate::body::source::poll_source;
use crate::content::accept_encoding::{AcceptEncoding, NegotiatedCoding};
use crate::content::content_coding::ContentCoding;
use crate::protocol::fields::has_element;
use crate::service::into_response::IntoResponse;
use crate::service::service::Response;

/// Answers of a known length below this are not compressed. Below it an answer fits into one packet of an Ethernet with its
/// header, so that fewer bytes arrive no earlier.
const DEFAULT_MIN_SIZE: u64 = 860;

/// By CPU cost: on a loop, the time that one answer takes is the time that all other connections wait. [`EncoderOptions`]
/// has the figures. Zstd takes a quarter of the time of the others for the size that they reach. Gzip and brotli cost the
/// same for the same size; gzip's work is evener, because brotli encodes blocks of 64 KiB at once.
const DEFAULT_PREFERENCE: [ContentCoding; 3] =
    [ContentCoding::Zstd, ContentCoding::Gzip, ContentCoding::Brotli];

/// Fields with a checksum of the encoded content. It would be false after encoding.
const DIGESTS: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

/// Rules of compressing answers.
///
/// An answer is compressed if all of this holds:
/// - the client accepts a coding that is compiled in and in the [preference](CompressionBuilder::preference);
/// - its media type is text in substance: `text/*`, JSON, XML, scripts, SVG, WebAssembly, uncompressed fonts, or
///   [one that was added](CompressionBuilder::media_type);
/// - its length is unknown or at least [the least size](CompressionBuilder::min_size);
/// - its status has a body that is a whole representation: not 1xx, 204, 205, 206, 304, not an answer to CONNECT;
/// - the service has not encoded it (Content-Encoding), forbidden it (`Cache-Control: no-transform`), cut it
///   (Content-Range) or signed it (Content-Digest, Repr-Digest, Digest, Content-MD5).
///
/// An answer that holds a secret beside text which an attacker chooses lets him guess the secret from the length of the
/// compressed answer (BREACH). Mark such an answer `Cache-Control: no-transform`.
///
/// ```
/// use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
/// use waterwheel_http::{Compression, ContentCoding, CompressionFacts};
///
/// let compression = Compression::builder().min_size(100).build()?;
/// let (request, _) = http::Request::get("/").header(ACCEPT_ENCODING, "gzip").body(())?.into_parts();
/// let answer = http::Response::builder().header(CONTENT_TYPE, "text/plain").body(())?;
/// let (mut answer, _) = answer.into_parts();
/// let coding = compression.prepare(&CompressionFacts::new(&request), &mut answer, Some(5000));
/// assert_eq!(coding, Some(ContentCoding::Gzip));
/// assert_eq!(answer.headers[CONTENT_ENCODING], "gzip");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Compression {
    preference: Vec<ContentCoding>,
    min_size: u64,
    media_types: Vec<String>,
    encoders: EncoderOptions,
}

/// The facts of a request that compression of its answer depends on. Taken before the request is given to a service.
#[derive(Clone, Copy, Debug)]
pub struct CompressionFacts {
    accept: AcceptEncoding,
    is_head: bool,
    is_connect: bool,
}

impl CompressionFacts {
    /// Takes the facts from a request's head.
    pub fn new(request: &request::Parts) -> Self {
        Self::of(&request.method, &request.headers)
    }

    /// Takes the facts from a request's method and header fields.
    pub fn of(method: &Method, headers: &HeaderMap) -> Self {
        Self {
            accept: AcceptEncoding::from_headers(headers),
            is_head: method == Method::HEAD,
            is_connect: method == Method::CONNECT,
        }
    }
}

impl Compression {
    /// Returns a builder with the defaults.
    pub fn builder() -> CompressionBuilder {
        CompressionBuilder {
            compression: Self {
                preference: DEFAULT_PREFERENCE.into_iter().filter(|it| it.can_encode()).collect(),
                min_size: DEFAULT_MIN_SIZE,
                media_types: Vec::new(),
                encoders: EncoderOptions::default(),
            },
        }
    }

    /// Returns the levels and windows of the encoders.
    pub fn encoder_options(&self) -> &EncoderOptions {
        &self.encoders
    }

    /// Encodes an answer, if the rules say so: changes its header fields like [`prepare`](Self::prepare), and its body.
    ///
    /// A body in memory of up to 64 KiB is encoded at once. All others are encoded while they are sent, at most 64 KiB in a
    /// turn of the loop; files are read for that on the loop's thread. A source that waits is flushed.
    /// [`compressed`](crate::compressed) does this for a service.
    #[must_use]
    pub fn apply(&self, request: &CompressionFacts, response: Response) -> Response {
        let (mut parts, body) = response.into_parts();
        if let (Some(content_type), false) =
            (body.content_type(), parts.headers.contains_key(CONTENT_TYPE))
        {
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        let length = body.exact_len();
        let Some(coding) = self.negotiate(request, &mut parts, length) else {
            return Response::from_parts(parts, body);
        };
        if request.is_head {
            encode_head(&mut parts.headers, coding);
            // Of unknown length, so that the server does not state the length of the body as it was.
            return Response::from_parts(
                parts,
                Body::from_source(poll_source(|_| Poll::Ready(None))),
            );
        }
        let encoded = ContentEncoder::new(coding, &self.encoders, length)
            .and_then(|encoder| encode_body(encoder, body));
        match encoded {
            Ok(body) => {
                encode_head(&mut parts.headers, coding);
                Response::from_parts(parts, body)
            }
            Err(error) => Error::new(error).into_response(),
        }
    }

    /// Decides how to encode an answer, and changes its header fields accordingly, for those who encode its body
    /// themselves. `length` is the length of its body, if known. Returns the coding in which the body has to be sent,
    /// `None` if it has to be sent as it is.
    ///
    /// If the answer is encoded, Content-Encoding is set, Content-Length and Accept-Ranges are removed, and a strong ETag
    /// becomes a weak one, because the bytes are others than those it was made for. `Vary: Accept-Encoding` is added to
    /// each answer that another client would have received encoded.
    ///
    /// The answer to HEAD gets the fields that GET would bring, if its length is known by Content-Length; nothing is to be
    /// encoded then.
    pub fn prepare(
        &self,
        request: &CompressionFacts,
        answer: &mut response::Parts,
        length: Option<u64>,
    ) -> Option<ContentCoding> {
        let coding = self.negotiate(request, answer, length)?;
        encode_head(&mut answer.headers, coding);
        (!request.is_head).then_some(coding)
    }

    /// Chooses the coding, and adds Vary if there was a choice.
    fn negotiate(
        &self,
        request: &CompressionFacts,
        answer: &mut response::Parts,
        length: Option<u64>,
    ) -> Option<ContentCoding> {
        let is_tunnel = request.is_connect && answer.status.is_success();
        if is_tunnel || !may_be_encoded(answer) || !self.is_worth(request, answer, length) {
            return None;
        }
        add_vary(&mut answer.headers);
        if answer.status == StatusCode::NOT_MODIFIED {
            return None;
        }
        match request.accept.choose(&self.preference) {
            NegotiatedCoding::Coding(coding) => Some(coding),
            NegotiatedCoding::Identity | NegotiatedCoding::NotAcceptable => None,
        }
    }

    /// True if the answer's type and length promise that compression pays.
    fn is_worth(
        &self,
        request: &CompressionFacts,
        answer: &response::Parts,
        length: Option<u64>,
    ) -> bool {
        let Some(content_type) = text(&answer.headers, &CONTENT_TYPE) else { return false };
        let essence = media_type::essence(content_type);
        let declared = text(&answer.headers, &CONTENT_LENGTH).and_then(|it| it.parse().ok());
        // A service may leave out the body of an answer to HEAD, and its length with it.
        let length = if request.is_head { declared.or(length) } else { length.or(declared) };
        // Nothing is encoded of a body without bytes, which may be the end of HTTP on the connection (an upgrade).
        let is_large = length.is_none_or(|length| length >= self.min_size.max(1));
        (is_large || answer.status == StatusCode::NOT_MODIFIED)
            && (media_type::is_compressible(essence)
                || self.media_types.iter().any(|listed| listed.eq_ignore_ascii_case(essence)))
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::builder().compression
    }
}

/// A builder of [`Compression`].
#[derive(Clone, Debug)]
pub struct CompressionBuilder {
    compression: Compression,
}

impl CompressionBuilder {
    /// Sets the codings that may be sent, the best first. The client's weights count before this order. Default: zstd,
    /// gzip, brotli, as far as they are compiled in: in the order of their CPU cost for what they save.
    #[must_use]
    pub fn preference(mut self, codings: impl IntoIterator<Item = ContentCoding>) -> Self {
        self.compression.preference = codings.into_iter().collect();
        self
    }

    /// Sets the least length of a body that is compressed, if its length is known. Default: 860 bytes.
    #[must_use]
    pub fn min_size(mut self, bytes: u64) -> Self {
        self.compression.min_size = bytes;
        self
    }

    /// Adds a media type that is worth compressing, such as `application/x-protobuf`, without parameters.
    #[must_use]
    pub fn media_type(mut self, essence: impl Into<String>) -> Self {
        self.compression.media_types.push(essence.into());
        self
    }

    /// Sets the levels and windows of the encoders.
    #[must_use]
    pub fn encoders(mut self, options: EncoderOptions) -> Self {
        self.compression.encoders = options;
        self
    }

    /// Returns the rules, or the option that is out of its range, or the coding that cannot be sent.
    pub fn build(self) -> Result<Compression, ContentEncodeError> {
        self.compression.encoders.check()?;
        match self.compression.preference.iter().find(|coding| !coding.can_encode()) {
            Some(coding) => Err(ContentEncodeError::NotAvailable { coding: *coding }),
            None => Ok(self.compression),
        }
    }
}

/// True if the answer holds a whole representation that the service left to us. 304 is about one.
fn may_be_encoded(answer: &response::Parts) -> bool {
    let without = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::PARTIAL_CONTENT];
    let headers = &answer.headers;
    !answer.status.is_informational()
        && !without.contains(&answer.status)
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(CONTENT_RANGE)
        && !DIGESTS.iter().any(|name| headers.contains_key(*name))
        && !has_no_transform(headers)
}

/// True if Cache-Control has the directive `no-transform`. Quoted strings in it are not parsed: one that holds the
/// directive only prevents a compression.
fn has_no_transform(headers: &HeaderMap) -> bool {
    has_element(headers, &CACHE_CONTROL, "no-transform")
}

fn text<'a>(headers: &'a HeaderMap, field: &HeaderName) -> Option<&'a str> {
    headers.get(field).and_then(|value| value.to_str().ok())
}

/// Adds Accept-Encoding to Vary, unless it is there or `*` covers it.
fn add_vary(headers: &mut HeaderMap) {
    if !has_element(headers, &VARY, "accept-encoding") && !has_element(headers, &VARY, "*") {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// Changes what an encoded body makes untrue.
fn encode_head(headers: &mut HeaderMap, coding: ContentCoding) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_RANGES);
    if let Some(tag) = headers.get_mut(ETAG)
        && tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
}
