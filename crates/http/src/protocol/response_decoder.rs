//! Responses: their heads, and their bodies part by part.

use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, StatusCode, Version};

use super::body_decoder::{BodyDecoder, BodyEvent};
use super::error::{Malformation, MessageError};
use super::fields::{append_field, parse_field};
use super::framing::{BodyFraming, FramingFields};
use super::limits::MessageLimits;
use super::lines::{LineBounds, find_line};
use super::request_decoder::parse_version;

/// The head of a response, with what it says of its body and its connection.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The fields.
    pub headers: HeaderMap,
    /// The body that follows.
    pub framing: BodyFraming,
    /// True if the connection can carry another request after this response.
    pub keeps_alive: bool,
}

/// A part of a response.
#[derive(Debug)]
pub enum ResponseEvent {
    /// An interim response (1xx, but not 101): the response itself is still to come.
    Interim(ResponseHead),
    /// The head. If its framing is a body without bytes, the response is complete.
    Head(ResponseHead),
    /// Bytes of the body: never empty.
    Data(Bytes),
    /// The end of a body, with its trailers if it has any.
    End(Option<Box<HeaderMap>>),
}

/// Decodes the responses to the requests of a connection. A state machine over bytes: knows no channel.
///
/// ```
/// use bytes::Bytes;
/// use http::Method;
/// use waterwheel_http::{MessageLimits, ResponseDecoder, ResponseEvent};
///
/// let mut decoder = ResponseDecoder::new(MessageLimits::default());
/// decoder.expect(Method::GET);
/// let mut bytes = Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
/// let Ok(Some(ResponseEvent::Head(head))) = decoder.decode(&mut bytes) else { panic!("a head") };
/// assert_eq!(head.status, 200);
/// ```
#[derive(Debug)]
pub struct ResponseDecoder {
    limits: MessageLimits,
    step: ResponseStep,
    /// The method of the request that is being answered.
    method: Option<Method>,
    searched: usize,
}

#[derive(Debug)]
enum ResponseStep {
    Head(Option<Box<UnfinishedResponse>>),
    Body(BodyDecoder),
    Failed(MessageError),
}

#[derive(Debug, Default)]
struct UnfinishedResponse {
    line: Option<(Version, StatusCode)>,
    headers: HeaderMap,
    lines: usize,
    bytes: usize,
    fields: FramingFields,
}

impl ResponseDecoder {
    /// Returns a decoder for a new connection.
    #[must_use]
    pub fn new(limits: MessageLimits) -> Self {
        Self { limits, step: ResponseStep::Head(None), method: None, searched: 0 }
    }

    /// Says that the next response answers a request of this method, on which its body depends.
    pub fn expect(&mut self, method: Method) {
        self.method = Some(method);
    }

    /// Decodes the next part of a response from the front of `buf`, and consumes it. Returns `None` if more bytes are
    /// needed: those that are left are presented again with the next ones. Bytes of a response that no request asked
    /// for are left.
    ///
    /// # Errors
    /// The response is malformed or too large. The same error is returned from then on.
    pub fn decode(&mut self, buf: &mut Bytes) -> Result<Option<ResponseEvent>, MessageError> {
        let decoded = match &mut self.step {
            ResponseStep::Head(_) => self.decode_head(buf),
            ResponseStep::Body(body) if body.is_over() => Ok(Some(ResponseEvent::End(None))),
            ResponseStep::Body(body) => body.decode(buf).map(|event| {
                event.map(|event| match event {
                    BodyEvent::Data(data) => ResponseEvent::Data(data),
                    BodyEvent::End(trailers) => ResponseEvent::End(trailers),
                })
            }),
            ResponseStep::Failed(error) => return Err(*error),
        };
        match &decoded {
            Ok(Some(ResponseEvent::End(_))) => self.step = ResponseStep::Head(None),
            Ok(_) => {}
            Err(error) => self.step = ResponseStep::Failed(*error),
        }
        decoded
    }

    fn decode_head(&mut self, buf: &mut Bytes) -> Result<Option<ResponseEvent>, MessageError> {
        if self.method.is_none() || buf.is_empty() {
            return Ok(None);
        }
        let ResponseStep::Head(kept) = &mut self.step else { return Ok(None) };
        let mut head = kept.take().unwrap_or_default();
        if !self.read_lines(&mut head, buf)? {
            self.step = ResponseStep::Head(Some(head));
            return Ok(None);
        }
        let head = self.finish_head(*head)?;
        if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Some(ResponseEvent::Interim(head)));
        }
        self.method = None;
        if let Some(body) = BodyDecoder::new(head.framing, &self.limits) {
            self.step = ResponseStep::Body(body);
        }
        Ok(Some(ResponseEvent::Head(head)))
    }

    /// Reads the lines of a head; returns true after the empty line that ends it.
    fn read_lines(
        &mut self,
        head: &mut UnfinishedResponse,
        buf: &mut Bytes,
    ) -> Result<bool, MessageError> {
        let limit = self.limits.head_bytes();
        let too_large = MessageError::HeadTooLarge { limit };
        let mut at = 0;
        let is_complete = loop {
            let Some(line) = find_line(buf, at, &mut self.searched)? else {
                if head.bytes + buf.len() > limit {
                    return Err(too_large);
                }
                break false;
            };
            at = line.next;
            if head.bytes + at > limit {
                return Err(too_large);
            }
            match head.line {
                None => head.line = Some(parse_status_line(buf, line)?),
                Some(_) if line.start == line.end => break true,
                Some(_) => self.read_field(head, buf, line)?,
            }
        };
        head.bytes += at;
        buf.advance(at);
        Ok(is_complete)
    }

    fn read_field(
        &self,
        head: &mut UnfinishedResponse,
        buf: &Bytes,
        line: LineBounds,
    ) -> Result<(), MessageError> {
        let limit = self.limits.field_lines();
        head.lines += 1;
        let (name, value) = parse_field(buf, line.start, line.end)?;
        // Host means nothing in a response.
        if name != http::header::HOST {
            head.fields.add(name.as_str().as_bytes(), value.as_bytes())?;
        }
        match head.lines <= limit && append_field(&mut head.headers, name, value) {
            true => Ok(()),
            false => Err(MessageError::TooManyFields { limit }),
        }
    }

    fn finish_head(&self, head: UnfinishedResponse) -> Result<ResponseHead, MessageError> {
        let UnfinishedResponse { line, headers, fields, .. } = head;
        let (version, status) = line.ok_or(Malformation::StatusLine)?;
        let method = self.method.as_ref().unwrap_or(&Method::GET);
        let framing = fields.response_framing(version, status, method, &self.limits)?;
        let keeps_alive = fields.keeps_alive(version) && framing != BodyFraming::UntilClose;
        Ok(ResponseHead { status, version, headers, framing, keeps_alive })
    }

    /// Ends the response with the connection: returns the end of a body that ends so, and `None` between responses.
    ///
    /// # Errors
    /// The response is not complete.
    pub fn finish(&mut self) -> Result<Option<ResponseEvent>, MessageError> {
        match &self.step {
            ResponseStep::Body(body) => {
                body.finish()?;
                self.step = ResponseStep::Head(None);
                Ok(Some(ResponseEvent::End(None)))
            }
            ResponseStep::Head(None) if self.method.is_none() => Ok(None),
            ResponseStep::Head(_) => Err(Malformation::Truncated.into()),
            ResponseStep::Failed(error) => Err(*error),
        }
    }
}

/// Parses `version SP status [SP reason]`. The reason is not kept: it says nothing that the status does not.
fn parse_status_line(buf: &Bytes, line: LineBounds) -> Result<(Version, StatusCode), MessageError> {
    let bytes = &buf[line.start..line.end];
    let wrong = MessageError::Malformed(Malformation::StatusLine);
    let Some((version, rest)) = bytes.split_at_checked(8) else { return Err(wrong) };
    let version = parse_version(version, Malformation::StatusLine)?;
    let (status, reason) = rest.split_at_checked(4).ok_or(wrong)?;
    let is_reason = match reason {
        [] => true,
        [b' ', text @ ..] => {
            text.iter().all(|byte| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f))
        }
        _ => false,
    };
    match status {
        [b' ', digits @ ..] if is_reason => {
            StatusCode::from_bytes(digits).map(|status| (version, status)).map_err(|_| wrong)
        }
        _ => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes all of the bytes, in pieces of `step`, as an answer to GET.
    fn decode(bytes: &[u8], step: usize) -> Result<Vec<String>, MessageError> {
        let mut decoder =
            ResponseDecoder::new(MessageLimits::default().max_head_bytes(200).max_field_lines(3));
        decoder.expect(Method::GET);
        let (mut events, mut kept) = (Vec::new(), Vec::new());
        let mut data = Vec::new();
        for piece in bytes.chunks(step) {
            kept.extend_from_slice(piece);
            let mut buf = Bytes::from(std::mem::take(&mut kept));
            while let Some(event) = decoder.decode(&mut buf)? {
                match event {
                    ResponseEvent::Interim(head) => {
                        events.push(format!("interim {}", head.status.as_u16()))
                    }
                    ResponseEvent::Head(head) => events.push(format!(
                        "{} {:?} {}",
                        head.status.as_u16(),
                        head.framing,
                        head.keeps_alive
                    )),
                    ResponseEvent::Data(bytes) => data.extend_from_slice(&bytes),
                    ResponseEvent::End(trailers) => {
                        let trailers = trailers.map_or(0, |fields| fields.len());
                        events.push(format!("{:?} {trailers}", String::from_utf8_lossy(&data)));
                    }
                }
            }
            kept = buf.to_vec();
        }
        if let Some(ResponseEvent::End(_)) = decoder.finish()? {
            events.push(format!("{:?} until close", String::from_utf8_lossy(&data)));
        }
        Ok(events)
    }

    #[test]
    fn h01_responses_are_decoded_however_their_bytes_are_cut() {
        let cases: [(&[u8], &[&str]); 7] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", &["200 Length(2) true", "\"hi\" 0"]),
            (b"HTTP/1.1 204\r\n\r\n", &["204 None true"]),
            (b"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n", &[
                "200 Chunked true", "\"a\" 1",
            ]),
            (b"HTTP/1.0 200 OK\r\n\r\nall", &["200 UntilClose false", "\"all\" until close"]),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not\r\nContent-Length: 0\r\n\r\n", &[
                "interim 100", "interim 103", "404 Length(0) true",
            ]),
            (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", &["101 None true"]),
            (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nConnection: close\r\n\r\n", &["304 None false"]),
        ];
        for (bytes, events) in cases {
            for step in [1, 2, 7, bytes.len()] {
                assert_eq!(decode(bytes, step).unwrap(), events, "in steps of {step}");
            }
        }
    }

    #[test]
    fn h03_responses_are_as_strict_as_requests() {
        use Malformation::*;
        let cases: [(&[u8], MessageError); 18] = [
            (b"HTTP/1.1 2000 OK\r\n", StatusLine.into()),
            (b"HTTP/1.1 20 OK\r\n", StatusLine.into()),
            (b"HTTP/1.1  200 OK\r\n", StatusLine.into()),
            (b"HTTP/1.1\t200 OK\r\n", StatusLine.into()),
            (b"HTTP/1.1 200 O\0K\r\n", StatusLine.into()),
            (b"HTTP/2.0 200 OK\r\n", MessageError::UnsupportedVersion),
            (b"ICY 200 OK\r\n", StatusLine.into()),
            (b"\r\nHTTP/1.1 200 OK\r\n", StatusLine.into()),
            (b"HTTP/1.1 200 OK\n", BareLf.into()),
            (b"HTTP/1.1 200 OK\r\n x: y\r\n", FoldedLine.into()),
            (b"HTTP/1.1 200 OK\r\nx : y\r\n", FieldName.into()),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
                RepeatedContentLength.into(),
            ),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                LengthAndCoding.into(),
            ),
            (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", CodingInHttp10.into()),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                MessageError::UnsupportedCoding,
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Truncated.into()),
            (
                b"HTTP/1.1 200 OK\r\na:\r\nb:\r\nc:\r\nd:\r\n\r\n",
                MessageError::TooManyFields { limit: 3 },
            ),
            (b"HTTP/1.1 200", Truncated.into()),
        ];
        for (bytes, error) in cases {
            for step in [1, bytes.len()] {
                assert_eq!(decode(bytes, step), Err(error), "{}", bytes.escape_ascii());
            }
        }
        let long = [b"HTTP/1.1 200 OK\r\na: ".as_slice(), &[b'b'; 200]].concat();
        assert_eq!(decode(&long, 9), Err(MessageError::HeadTooLarge { limit: 200 }));
    }

    #[test]
    fn h03_a_response_that_nobody_asked_for_is_not_decoded() {
        let mut decoder = ResponseDecoder::new(MessageLimits::default());
        let mut bytes = Bytes::from_static(b"HTTP/1.1 200 OK\r\n\r\n");
        assert!(matches!(decoder.decode(&mut bytes), Ok(None)));
        assert_eq!(bytes.len(), 19);
    }
}
