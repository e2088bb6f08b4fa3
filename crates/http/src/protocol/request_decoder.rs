//! Requests: their heads, and their bodies part by part.

use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Uri, Version};

use super::body_decoder::{BodyDecoder, BodyEvent};
use super::error::{Malformation, MessageError};
use super::fields::{append_field, is_token_byte, parse_field};
use super::framing::{BodyFraming, FramingFields};
use super::limits::MessageLimits;
use super::lines::{Line, find_line};
use super::target::parse_target;

/// The head of a request, with what it says of its body and its connection.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target: a path with a query, a whole URI, an authority or `*`.
    pub uri: Uri,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The fields.
    pub headers: HeaderMap,
    /// The body that follows.
    pub framing: BodyFraming,
    /// True if the client can send another request after this one.
    pub keeps_alive: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// True if the client asks for another protocol (Upgrade).
    pub wants_upgrade: bool,
}

/// A part of a request.
#[derive(Debug)]
pub enum RequestEvent {
    /// The head. If its framing is a body without bytes, the request is complete.
    Head(RequestHead),
    /// Bytes of the body: never empty.
    Data(Bytes),
    /// The end of a body, with its trailers if it has any.
    End(Option<Box<HeaderMap>>),
}

/// Decodes the requests of a connection. A state machine over bytes: knows no channel.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_http::{MessageLimits, RequestDecoder, RequestEvent};
///
/// let mut decoder = RequestDecoder::new(MessageLimits::default());
/// let mut bytes = Bytes::from_static(b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n");
/// let Ok(Some(RequestEvent::Head(head))) = decoder.decode(&mut bytes) else { panic!("a head") };
/// assert_eq!((head.uri.path(), &head.headers["host"]), ("/a", &"example.org".parse().unwrap()));
/// ```
#[derive(Debug)]
pub struct RequestDecoder {
    limits: MessageLimits,
    step: RequestStep,
    /// The bytes of the unfinished line that have been searched for its end.
    searched: usize,
    /// True if the request line that was read last is one of HEAD.
    is_head_method: bool,
}

#[derive(Debug)]
enum RequestStep {
    /// Nothing of a request has come.
    Idle,
    /// Lines of a head have come.
    Head(Box<UnfinishedRequest>),
    Body(BodyDecoder),
    /// An error was found: nothing more is decoded.
    Failed(MessageError),
}

/// The lines of a head so far.
#[derive(Debug, Default)]
struct UnfinishedRequest {
    line: Option<(Method, Uri, Version)>,
    headers: HeaderMap,
    lines: usize,
    /// The bytes of these lines.
    bytes: usize,
    fields: FramingFields,
}

impl RequestDecoder {
    /// Returns a decoder for a new connection.
    #[must_use]
    pub fn new(limits: MessageLimits) -> Self {
        Self { limits, step: RequestStep::Idle, searched: 0, is_head_method: false }
    }

    /// Decodes the next part of a request from the front of `buf`, and consumes it. Returns `None` if more bytes are
    /// needed: those that are left are presented again with the next ones.
    ///
    /// # Errors
    /// The request is refused. The same error is returned from then on: what follows cannot be told apart from the
    /// request.
    #[inline]
    pub fn decode(&mut self, buf: &mut Bytes) -> Result<Option<RequestEvent>, MessageError> {
        self.decode_with(buf, HeaderMap::new)
    }

    /// Decodes like [`decode`](Self::decode); `new_headers` makes the map of a head, for example from one that was used
    /// before.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_with(
        &mut self,
        buf: &mut Bytes,
        new_headers: impl FnOnce() -> HeaderMap,
    ) -> Result<Option<RequestEvent>, MessageError> {
        let decoded = match &mut self.step {
            RequestStep::Idle | RequestStep::Head(_) => self.decode_head(buf, new_headers),
            RequestStep::Body(body) => Self::decode_body(body, buf),
            RequestStep::Failed(error) => return Err(*error),
        };
        match &decoded {
            Ok(Some(RequestEvent::End(_))) => self.step = RequestStep::Idle,
            Ok(_) => {}
            Err(error) => self.step = RequestStep::Failed(*error),
        }
        decoded
    }

    fn decode_body(
        body: &mut BodyDecoder,
        buf: &mut Bytes,
    ) -> Result<Option<RequestEvent>, MessageError> {
        if body.is_over() {
            return Ok(Some(RequestEvent::End(None)));
        }
        Ok(body.decode(buf)?.map(|event| match event {
            BodyEvent::Data(data) => RequestEvent::Data(data),
            BodyEvent::End(trailers) => RequestEvent::End(trailers),
        }))
    }

    fn decode_head(
        &mut self,
        buf: &mut Bytes,
        new_headers: impl FnOnce() -> HeaderMap,
    ) -> Result<Option<RequestEvent>, MessageError> {
        let mut kept = match std::mem::replace(&mut self.step, RequestStep::Idle) {
            RequestStep::Head(head) => Some(head),
            _ => None,
        };
        let mut fresh;
        let head = match &mut kept {
            Some(head) => &mut **head,
            None => {
                if buf.is_empty() {
                    return Ok(None);
                }
                self.is_head_method = false;
                fresh =
                    UnfinishedRequest { headers: new_headers(), ..UnfinishedRequest::default() };
                &mut fresh
            }
        };
        let read = self.read_lines(head, buf);
        if !matches!(read, Ok(false)) {
            read?;
            return Ok(Some(RequestEvent::Head(self.finish_head(std::mem::take(head))?)));
        }
        if head.line.is_none() && buf.is_empty() {
            return Ok(None); // Empty lines before a request are no request.
        }
        let unfinished = std::mem::take(head);
        self.step = RequestStep::Head(match kept {
            Some(mut boxed) => {
                *boxed = unfinished;
                boxed
            }
            None => Box::new(unfinished),
        });
        Ok(None)
    }

    /// Reads the lines of a head; returns true after the empty line that ends it.
    fn read_lines(
        &mut self,
        head: &mut UnfinishedRequest,
        buf: &mut Bytes,
    ) -> Result<bool, MessageError> {
        let limit = self.limits.head_bytes();
        let mut at = 0;
        let is_complete = loop {
            let Some(line) = find_line(buf, at, &mut self.searched)? else {
                self.check_unfinished(head, buf, at)?;
                break false;
            };
            let is_empty = line.start == line.end;
            // Some clients send an empty line after a body (RFC 9112, section 2.2). It belongs to no head.
            if is_empty && head.line.is_none() {
                buf.advance(line.next);
                continue;
            }
            at = line.next;
            if head.bytes + at > limit {
                return Err(too_large(head, limit));
            }
            match (&head.line, is_empty) {
                (None, _) => {
                    self.is_head_method = buf[line.start..].starts_with(b"HEAD ");
                    head.line = Some(parse_request_line(buf, line)?);
                }
                (Some(_), true) => break true,
                (Some(_), false) => self.read_field(head, buf, line)?,
            }
        };
        head.bytes += at;
        buf.advance(at);
        Ok(is_complete)
    }

    #[inline]
    fn read_field(
        &self,
        head: &mut UnfinishedRequest,
        buf: &Bytes,
        line: Line,
    ) -> Result<(), MessageError> {
        let limit = self.limits.field_lines();
        head.lines += 1;
        if head.lines > limit {
            return Err(MessageError::TooManyFields { limit });
        }
        let (name, value) = parse_field(buf, line.start, line.end)?;
        head.fields.add(&name, &value)?;
        match append_field(&mut head.headers, name, value) {
            true => Ok(()),
            false => Err(MessageError::TooManyFields { limit }),
        }
    }

    /// Checks a line whose end has not come: its length, and that it can still become valid.
    fn check_unfinished(
        &self,
        head: &UnfinishedRequest,
        buf: &[u8],
        at: usize,
    ) -> Result<(), MessageError> {
        if head.bytes + buf.len() > self.limits.head_bytes() {
            return Err(too_large(head, self.limits.head_bytes()));
        }
        if head.line.is_none() {
            // A peer that speaks another protocol, such as TLS, may never send a line end.
            let line = buf[at..].strip_suffix(b"\r").unwrap_or(&buf[at..]);
            let method =
                line.iter().position(|byte| *byte == b' ').map_or(line, |end| &line[..end]);
            if !method.iter().all(|byte| is_token_byte(*byte)) {
                return Err(Malformation::Method.into());
            }
        }
        Ok(())
    }

    fn finish_head(&mut self, head: UnfinishedRequest) -> Result<RequestHead, MessageError> {
        let UnfinishedRequest { line, headers, fields, .. } = head;
        let (method, uri, version) = line.ok_or(Malformation::RequestLine)?;
        let framing = fields.request_framing(version, &self.limits)?;
        if let Some(body) = BodyDecoder::new(framing, &self.limits) {
            self.step = RequestStep::Body(body);
        }
        let is_http11 = version == Version::HTTP_11;
        Ok(RequestHead {
            method,
            uri,
            version,
            headers,
            framing,
            keeps_alive: fields.keeps_alive(version),
            expects_continue: fields.expects_continue && is_http11,
            wants_upgrade: fields.has_upgrade && fields.connection.upgrade && is_http11,
        })
    }

    /// True while nothing of a request has come since the last one.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.step, RequestStep::Idle)
    }

    /// True if the last request line was one of HEAD, also if the request was refused: its answer has no body.
    #[must_use]
    pub fn is_head_method(&self) -> bool {
        self.is_head_method
    }

    /// True while the body of a request is being decoded.
    #[must_use]
    pub fn is_in_body(&self) -> bool {
        matches!(self.step, RequestStep::Body(_))
    }

    /// Returns how many bytes of the body are missing; `None` if nobody knows, because it comes in chunks.
    #[must_use]
    pub fn remaining_body(&self) -> Option<u64> {
        match &self.step {
            RequestStep::Body(body) => body.remaining_length(),
            _ => Some(0),
        }
    }
}

#[cold]
fn too_large(head: &UnfinishedRequest, limit: usize) -> MessageError {
    match head.line {
        None => MessageError::RequestLineTooLong { limit },
        Some(_) => MessageError::HeadTooLarge { limit },
    }
}

/// Parses `method SP target SP version`.
#[inline]
fn parse_request_line(buf: &Bytes, line: Line) -> Result<(Method, Uri, Version), MessageError> {
    let bytes = &buf[line.start..line.end];
    let first = memchr::memchr(b' ', bytes).unwrap_or(bytes.len());
    let method = Method::from_bytes(&bytes[..first]).map_err(|_| Malformation::Method)?;
    let last = memchr::memrchr(b' ', bytes).ok_or(Malformation::RequestLine)?;
    if last <= first + 1 {
        return Err(Malformation::RequestLine.into());
    }
    let version = parse_version(&bytes[last + 1..], Malformation::RequestLine)?;
    let target = buf.slice(line.start + first + 1..line.start + last);
    let uri = parse_target(target, &method)?;
    Ok((method, uri, version))
}

/// Parses the name and version of the protocol.
#[inline]
pub(super) fn parse_version(
    bytes: &[u8],
    otherwise: Malformation,
) -> Result<Version, MessageError> {
    match bytes {
        b"HTTP/1.1" => Ok(Version::HTTP_11),
        b"HTTP/1.0" => Ok(Version::HTTP_10),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            Err(MessageError::UnsupportedVersion)
        }
        _ => Err(otherwise.into()),
    }
}
