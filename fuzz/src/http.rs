//! Checks of HTTP messages: events that can be compared, and a naive reader of requests.

use bytes::Bytes;
use http::{HeaderMap, Method};
use waterwheel_http::{
    BodyFraming, MessageError, MessageLimits, RequestDecoder, RequestEvent, RequestHead,
    ResponseDecoder, ResponseEvent, ResponseHead,
};

use crate::Input;

/// An event of a decoder. Data that came in several pieces is one event.
#[derive(Debug)]
pub enum Seen<H> {
    Head(H),
    Data(Vec<u8>),
    End(HeaderMap),
    Failed(MessageError),
}

/// Returns the default limits, or small ones of the fuzzer's choice.
pub fn limits(input: &mut Input<'_>) -> MessageLimits {
    if input.flag() {
        return MessageLimits::default();
    }
    MessageLimits::default()
        .max_head_bytes(usize::from(input.byte()))
        .max_field_lines(input.below(8))
        .max_body_bytes(u64::from(input.byte()))
        .max_extension_bytes(input.below(64))
}

/// Decodes the requests of pieces.
pub fn decode_requests<'a>(
    limits: MessageLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Seen<RequestHead>> {
    let mut decoder = RequestDecoder::new(limits);
    decode(limits, pieces, |buf| {
        Ok(decoder.decode(buf)?.map(|event| match event {
            RequestEvent::Head(head) => Seen::Head(head),
            RequestEvent::Data(data) => Seen::Data(data.to_vec()),
            RequestEvent::End(trailers) => Seen::End(fields(trailers)),
        }))
    })
}

/// Decodes the responses of pieces, and the end of the connection: all of them answer requests of this method.
pub fn decode_responses<'a>(
    limits: MessageLimits,
    method: &Method,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Seen<ResponseHead>> {
    let mut decoder = ResponseDecoder::new(limits);
    decoder.expect(method.clone());
    let mut events = decode(limits, pieces, |buf| {
        Ok(decoder.decode(buf)?.map(|event| match event {
            ResponseEvent::Interim(head) => Seen::Head(head),
            ResponseEvent::Head(head) => {
                if matches!(head.framing, BodyFraming::None | BodyFraming::Length(0)) {
                    decoder.expect(method.clone());
                }
                Seen::Head(head)
            }
            ResponseEvent::Data(data) => Seen::Data(data.to_vec()),
            ResponseEvent::End(trailers) => {
                decoder.expect(method.clone());
                Seen::End(fields(trailers))
            }
        }))
    });
    match decoder.finish() {
        Ok(Some(ResponseEvent::End(trailers))) => events.push(Seen::End(fields(trailers))),
        Ok(other) => panic!("a response was expected, and {other:?} ended"),
        Err(_) if matches!(events.last(), Some(Seen::Failed(_))) => {}
        Err(error) => events.push(Seen::Failed(error)),
    }
    events
}

fn fields(trailers: Option<Box<HeaderMap>>) -> HeaderMap {
    trailers.map_or_else(HeaderMap::new, |fields| *fields)
}

fn decode<'a, H>(
    limits: MessageLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    mut next: impl FnMut(&mut Bytes) -> Result<Option<Seen<H>>, MessageError>,
) -> Vec<Seen<H>> {
    let mut events: Vec<Seen<H>> = Vec::new();
    let mut kept = Vec::new();
    let mut body_bytes = 0;
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut buf = Bytes::from(std::mem::take(&mut kept));
        loop {
            let event = match next(&mut buf) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    events.push(Seen::Failed(error));
                    return events;
                }
            };
            match (&event, events.last_mut()) {
                (Seen::Head(_), _) => body_bytes = 0,
                (Seen::Data(data), last) => {
                    assert!(!data.is_empty(), "an event without data");
                    body_bytes += data.len() as u64;
                    assert!(body_bytes <= limits.body_bytes(), "the body is beyond its limit");
                    if let Some(Seen::Data(before)) = last {
                        before.extend_from_slice(data);
                        continue;
                    }
                }
                _ => {}
            }
            events.push(event);
        }
        // A line that has not ended: of a head, of trailers, or of a chunk with its size and its extensions.
        let most = limits.head_bytes().max(limits.extension_bytes() + 18);
        assert!(buf.len() <= most, "{} bytes are kept; at most {most} are needed", buf.len());
        kept = buf.to_vec();
    }
    events
}

/// Compares the events of two ways to cut the same bytes. A message with several faults is refused for the one that is
/// found first.
///
/// # Panics
/// If they differ in anything else.
pub fn assert_same<H: std::fmt::Debug>(mut first: Vec<Seen<H>>, mut second: Vec<Seen<H>>) {
    for events in [&mut first, &mut second] {
        // More of a body is seen before a failure the finer it is cut.
        if let [.., Seen::Data(_), Seen::Failed(_)] = events[..] {
            events.remove(events.len() - 2);
        }
    }
    if let (Some(Seen::Failed(one)), Some(Seen::Failed(other))) = (first.last(), second.last()) {
        assert!(is_limit(one) || is_limit(other) || one.status() == other.status());
        first.pop();
        second.pop();
    }
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

fn is_limit(error: &MessageError) -> bool {
    !matches!(
        error,
        MessageError::Malformed(_)
            | MessageError::UnsupportedVersion
            | MessageError::UnsupportedCoding
    )
}

/// A request as the naive reader reads it.
#[derive(Debug, PartialEq)]
pub struct NaiveRequest<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub version: &'a str,
    pub fields: Vec<(String, &'a [u8])>,
    pub body: Vec<u8>,
    /// The bytes of the head.
    pub head: &'a [u8],
}

/// Reads the valid request at the front of the bytes, by splitting them; returns it with the rest.
///
/// # Panics
/// If there is none.
pub fn read_naively(mut bytes: &[u8]) -> (NaiveRequest<'_>, &[u8]) {
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        bytes = rest;
    }
    let (head, rest) = split_at_text(bytes, b"\r\n\r\n");
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| match line {
        [line @ .., b'\r'] => line,
        line => line,
    });
    let start = std::str::from_utf8(lines.next().unwrap()).unwrap();
    let [method, target, version] = start.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{start:?} was accepted");
    };
    let fields: Vec<_> = lines.map(naive_field).collect();
    let find = |name: &str| fields.iter().find(|(found, _)| found == name).map(|(_, value)| *value);
    let (body, rest) = if find("transfer-encoding").is_some() {
        read_chunks(rest)
    } else {
        let length = find("content-length")
            .map_or(0, |value| std::str::from_utf8(value).unwrap().parse().unwrap());
        (rest[..length].to_vec(), &rest[length..])
    };
    (NaiveRequest { method, target, version, fields, body, head: &bytes[..head.len() + 4] }, rest)
}

fn naive_field(line: &[u8]) -> (String, &[u8]) {
    let (name, value) = split_at_text(line, b":");
    (String::from_utf8(name.to_ascii_lowercase()).unwrap(), value.trim_ascii())
}

fn read_chunks(mut bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    loop {
        let (line, rest) = split_at_text(bytes, b"\r\n");
        let size = line.split(|byte| b"; \t".contains(byte)).next().unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(size).unwrap(), 16).unwrap();
        if size == 0 {
            bytes = rest;
            break;
        }
        body.extend_from_slice(&rest[..size]);
        bytes = rest[size..].strip_prefix(b"\r\n").unwrap();
    }
    loop {
        let (line, rest) = split_at_text(bytes, b"\r\n");
        bytes = rest;
        if line.is_empty() {
            return (body, bytes);
        }
    }
}

/// Splits at the first of these texts, and leaves that out.
fn split_at_text<'a>(bytes: &'a [u8], text: &[u8]) -> (&'a [u8], &'a [u8]) {
    let at = bytes.windows(text.len()).position(|window| window == text);
    let at = at.expect("the text that ends a part");
    (&bytes[..at], &bytes[at + text.len()..])
}
