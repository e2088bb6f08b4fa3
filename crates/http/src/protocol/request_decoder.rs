//! Requests: their heads, and their bodies part by part.

use std::mem;
use std::ops::Range;

use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Version};

use super::body_decoder::{BodyDecoder, BodyEvent};
use super::error::{Malformation, MessageError};
use super::fields::trim_blanks;
use super::limits::MessageLimits;
use super::request_head::{FieldLine, HeadLines, RequestHead, keep_lines};
use super::scan::{find_control, find_token_end};
use super::target::{check_origin_form, parse_other_form};

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
/// assert_eq!((head.path(), head.header("host")), ("/a", Some(&b"example.org"[..])));
/// ```
#[derive(Debug)]
pub struct RequestDecoder {
    limits: MessageLimits,
    step: RequestStep,
    /// True if the request line that was read last is one of HEAD.
    is_head_method: bool,
}

#[derive(Debug)]
enum RequestStep {
    /// Nothing of a request has come.
    Idle,
    /// Lines of a head have come; they are still in the buffer.
    Head(UnfinishedHead),
    Body(BodyDecoder),
    /// An error was found: nothing more is decoded.
    Failed(MessageError),
}

/// A head whose end has not come. Its bytes stay in the buffer until it has: the places of its fields are counted from the
/// beginning of the buffer.
struct UnfinishedHead {
    lines: Box<HeadLines>,
    has_request_line: bool,
    /// The beginning of the next line.
    at: usize,
    /// The place up to which that line was searched.
    searched: usize,
    /// The colon of that line, if it was found; zero otherwise.
    colon: usize,
}

impl std::fmt::Debug for UnfinishedHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnfinishedHead").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The end of a line, as far as the buffer goes.
enum LineEnd {
    /// The line ends before this index, where CR LF stand.
    At(usize),
    /// More bytes are needed; those before this index need not be searched again.
    Unknown(usize),
}

impl RequestDecoder {
    /// Returns a decoder for a new connection.
    #[must_use]
    pub fn new(limits: MessageLimits) -> Self {
        Self { limits, step: RequestStep::Idle, is_head_method: false }
    }

    /// Decodes the next part of a request from the front of `buf`, and consumes it. Returns `None` if more bytes are
    /// needed: those that are left are presented again with the next ones.
    ///
    /// # Errors
    /// The request is refused. The same error is returned from then on: what follows cannot be told apart from the
    /// request.
    pub fn decode(&mut self, buf: &mut Bytes) -> Result<Option<RequestEvent>, MessageError> {
        let decoded = match &mut self.step {
            RequestStep::Idle if buf.is_empty() => return Ok(None),
            RequestStep::Idle | RequestStep::Head(_) => self.decode_head(buf),
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

    fn decode_head(&mut self, buf: &mut Bytes) -> Result<Option<RequestEvent>, MessageError> {
        let mut head = match mem::replace(&mut self.step, RequestStep::Idle) {
            RequestStep::Head(head) => head,
            _ => {
                self.is_head_method = false;
                let lines = RequestHead::take_lines();
                UnfinishedHead { lines, has_request_line: false, at: 0, searched: 0, colon: 0 }
            }
        };
        match self.read_lines(&mut head, buf) {
            Ok(true) => {
                let UnfinishedHead { mut lines, at, .. } = head;
                lines.bytes = buf.split_to(at);
                lines.framing = lines.facts.request_framing(lines.version, &self.limits)?;
                if let Some(body) = BodyDecoder::new(lines.framing, &self.limits) {
                    self.step = RequestStep::Body(body);
                }
                Ok(Some(RequestEvent::Head(RequestHead::of_lines(lines))))
            }
            Ok(false) if buf.is_empty() => {
                keep_lines(head.lines); // Empty lines before a request are no request.
                Ok(None)
            }
            Ok(false) => {
                self.step = RequestStep::Head(head);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the lines of a head; returns true after the empty line that ends it.
    fn read_lines(
        &mut self,
        head: &mut UnfinishedHead,
        buf: &mut Bytes,
    ) -> Result<bool, MessageError> {
        if !head.has_request_line && !self.read_request_line(head, buf)? {
            return Ok(false);
        }
        loop {
            // Only the end of the head begins with CR.
            if buf.get(head.at) == Some(&b'\r') {
                return match buf.get(head.at + 1) {
                    Some(b'\n') => {
                        head.at += 2;
                        self.check_size(head, head.at)?;
                        Ok(true)
                    }
                    Some(_) => Err(Malformation::FieldName.into()),
                    None => self.check_size(head, buf.len()).map(|()| false),
                };
            }
            if !self.read_field(head, buf)? {
                self.check_size(head, buf.len())?;
                return Ok(false);
            }
        }
    }

    /// Reads the request line, and drops empty lines before it, which some clients send after a body (RFC 9112, section
    /// 2.2). Returns false if its end has not come.
    fn read_request_line(
        &mut self,
        head: &mut UnfinishedHead,
        buf: &mut Bytes,
    ) -> Result<bool, MessageError> {
        while let [b'\r', b'\n', ..] = buf[..] {
            buf.advance(2);
        }
        let limit = self.limits.head_bytes();
        let too_long = MessageError::RequestLineTooLong { limit };
        let end = match find_line_end(buf, head.searched)? {
            LineEnd::At(end) => end,
            LineEnd::Unknown(searched) => {
                head.searched = searched;
                // A peer that speaks another protocol, such as TLS, may never send a line end.
                let line = buf.strip_suffix(b"\r").unwrap_or(buf);
                if !matches!(line.get(find_token_end(line, 0)), None | Some(b' ')) {
                    return Err(Malformation::Method.into());
                }
                // A CR may begin an empty line, which belongs to no request.
                let is_too_long = buf.len() > limit && buf[..] != *b"\r";
                return if is_too_long { Err(too_long) } else { Ok(false) };
            }
        };
        if end + 2 > limit {
            return Err(too_long);
        }
        self.is_head_method = buf.starts_with(b"HEAD ");
        parse_request_line(&mut head.lines, buf, end)?;
        head.has_request_line = true;
        head.at = end + 2;
        head.searched = head.at;
        Ok(true)
    }

    /// Reads a field line. Returns false if its end has not come.
    #[inline]
    fn read_field(&self, head: &mut UnfinishedHead, buf: &Bytes) -> Result<bool, MessageError> {
        let at = head.at;
        if head.colon <= at {
            let end = find_token_end(buf, head.searched);
            if buf.get(end) != Some(&b':') || end == at {
                head.searched = end;
                self.check_size(head, end)?;
                return check_name_end(buf, at, end).map(|()| false);
            }
            head.colon = end;
            head.searched = end + 1;
        }
        let colon = head.colon;
        let end = match find_line_end(buf, head.searched)? {
            LineEnd::At(end) => end,
            LineEnd::Unknown(searched) => {
                head.searched = searched;
                return Ok(false);
            }
        };
        let limit = self.limits.field_lines();
        if head.lines.fields.len() >= limit {
            return Err(MessageError::TooManyFields { limit });
        }
        self.check_size(head, end + 2)?;
        let value = trim_range(buf, colon + 1..end);
        head.lines.facts.add(&buf[at..colon], &buf[value.clone()])?;
        head.lines.fields.push(FieldLine {
            name: (at as u32, colon as u32),
            value: (value.start as u32, value.end as u32),
        });
        head.at = end + 2;
        head.searched = head.at;
        Ok(true)
    }

    #[inline]
    fn check_size(&self, head: &UnfinishedHead, size: usize) -> Result<(), MessageError> {
        let limit = self.limits.head_bytes();
        match size > limit {
            false => Ok(()),
            true if head.has_request_line => Err(MessageError::HeadTooLarge { limit }),
            true => Err(MessageError::RequestLineTooLong { limit }),
        }
    }

    /// True while nothing of a request has come since the last one.
    #[inline]
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
    #[inline]
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

/// Finds the CR LF that ends a line, from `from` on, and checks that no other control character stands before it.
#[inline]
fn find_line_end(bytes: &[u8], from: usize) -> Result<LineEnd, MessageError> {
    let at = find_control(bytes, from);
    match bytes.get(at..) {
        Some([b'\r', b'\n', ..]) => Ok(LineEnd::At(at)),
        Some([] | [b'\r']) | None => Ok(LineEnd::Unknown(at)),
        Some([b'\n', ..]) => Err(Malformation::BareLf.into()),
        Some(_) => Err(Malformation::ControlCharacter.into()),
    }
}

/// Checks what follows the name of a field if that is not its colon. `Ok` if more bytes are needed.
#[cold]
fn check_name_end(bytes: &[u8], start: usize, end: usize) -> Result<(), MessageError> {
    let wrong = match bytes.get(end) {
        None => return Ok(()),
        Some(b' ' | b'\t') if end == start => Malformation::FoldedLine,
        Some(b'\n') => Malformation::BareLf,
        Some(b'\r') => match bytes.get(end + 1) {
            None => return Ok(()),
            Some(b'\n') => Malformation::MissingColon,
            Some(_) => Malformation::FieldName,
        },
        Some(_) => Malformation::FieldName,
    };
    Err(wrong.into())
}

/// Returns the range without the spaces and tabs at its ends.
#[inline]
fn trim_range(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let value = &bytes[range.clone()];
    // The common case: one space before the value, none behind it.
    if let [b' ', first, .., last] = value
        && !matches!(first, b' ' | b'\t')
        && !matches!(last, b' ' | b'\t')
    {
        return range.start + 1..range.end;
    }
    let trimmed = trim_blanks(value);
    let start = range.start + (value.len() - value.trim_ascii_start().len()).min(value.len());
    start..start + trimmed.len()
}

/// Parses `method SP target SP version`, a line without control characters.
#[inline]
fn parse_request_line(lines: &mut HeadLines, buf: &Bytes, end: usize) -> Result<(), MessageError> {
    let line = &buf[..end];
    let method_end = if line.starts_with(b"GET ") {
        lines.method = Method::GET;
        3
    } else {
        let method_end = find_token_end(line, 0);
        if !matches!(line.get(method_end), None | Some(b' ')) {
            return Err(Malformation::Method.into());
        }
        let method = Method::from_bytes(&line[..method_end]);
        lines.method = method.map_err(|_| Malformation::Method)?;
        method_end
    };
    let (target, version) = match line.get(method_end + 1..).and_then(split_version) {
        Some((len, version)) => (method_end + 1..method_end + 1 + len, version),
        None => return Err(Malformation::RequestLine.into()),
    };
    lines.version = version?;
    if target.is_empty() {
        return Err(Malformation::RequestLine.into());
    }
    if line[target.start] == b'/' && lines.method != Method::CONNECT {
        check_origin_form(&line[target.clone()])?;
    } else {
        let uri = parse_other_form(buf.slice(target.clone()), &lines.method)?;
        // The cell of a head that is read is empty.
        let _ = lines.uri.set(uri);
    }
    lines.target = target;
    Ok(())
}

/// Splits the version off the end of a request line: returns the length of what stands before it.
#[inline]
fn split_version(rest: &[u8]) -> Option<(usize, Result<Version, MessageError>)> {
    if let Some(target) = rest.strip_suffix(b" HTTP/1.1") {
        return Some((target.len(), Ok(Version::HTTP_11)));
    }
    let space = memchr::memrchr(b' ', rest)?;
    Some((space, parse_version(&rest[space + 1..], Malformation::RequestLine)))
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
