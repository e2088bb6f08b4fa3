//! A client of a server over an embedded channel, that decodes what it receives.

use bytes::{Bytes, BytesMut};
use http::Response;
use waterwheel_channel::{ChannelOptions, FileRegion};
use waterwheel_http::{
    ContentCoding, ContentDecoder, ContentEncoder, DecodeLimits, DecodeStatus, EncoderOptions,
    HttpServer, Service,
};
use waterwheel_testkit::embedded::Embedded;

/// The codings that can be sent.
pub(crate) const SENT: [ContentCoding; 3] =
    [ContentCoding::Gzip, ContentCoding::Brotli, ContentCoding::Zstd];

/// A connection to a server.
pub(crate) struct Client {
    pub(crate) channel: Embedded,
}

impl Client {
    pub(crate) fn new(service: impl Service + Clone + Send + Sync) -> Self {
        Self::of(&HttpServer::new(service))
    }

    pub(crate) fn of(server: &HttpServer) -> Self {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let channel = Embedded::builder().options(options);
        Self { channel: channel.build(|edit| server.initialise(edit)).unwrap() }
    }

    /// Sends a request with these fields, and returns the bytes of its answer so far.
    pub(crate) fn send(&mut self, line: &str, fields: &str, body: &[u8]) -> Vec<u8> {
        let mut request = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes();
        request.extend_from_slice(body);
        self.channel.write_inbound(Bytes::from(request));
        self.channel.run();
        self.received()
    }

    /// Returns what was received since the last call.
    pub(crate) fn received(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(part) = self.channel.read_outbound_any() {
            match part.take::<FileRegion>() {
                Ok(region) => bytes.extend_from_slice(&region.read(usize::MAX).unwrap()),
                Err(part) => bytes.extend_from_slice(&part.into_bytes().unwrap()),
            }
        }
        bytes
    }

    /// Sends a request without a body, and returns its answer.
    pub(crate) fn ask(&mut self, line: &str, fields: &str) -> Response<Vec<u8>> {
        self.ask_with(line, fields, b"")
    }

    /// Sends a request, and returns its answer, whose body is complete.
    pub(crate) fn ask_with(&mut self, line: &str, fields: &str, body: &[u8]) -> Response<Vec<u8>> {
        let bytes = self.send(line, fields, body);
        let (head, rest) = split_head(&bytes);
        let is_bodiless = line.starts_with("HEAD") || head.status() == 304;
        let body = match field(&head, "content-length") {
            _ if is_bodiless => {
                assert_eq!(rest, b"", "an answer without a body");
                Vec::new()
            }
            "" => {
                let (body, ended) = chunks_of(rest);
                assert!(ended, "the last chunk is missing");
                body
            }
            length => {
                assert_eq!(length.parse(), Ok(rest.len()));
                rest.to_vec()
            }
        };
        head.map(|()| body)
    }
}

/// Parses a head; returns what follows it.
pub(crate) fn split_head(bytes: &[u8]) -> (Response<()>, &[u8]) {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").expect("the end of a head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let mut answer = Response::builder().status(lines.next().unwrap().split(' ').nth(1).unwrap());
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        answer = answer.header(name, value);
    }
    (answer.body(()).unwrap(), &bytes[end + 4..])
}

/// Returns the content of chunks, and whether the last one is among them.
pub(crate) fn chunks_of(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\r').unwrap();
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            assert_eq!(rest, b"0\r\n\r\n");
            return (content, true);
        }
        content.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = rest[end + 2 + size..].strip_prefix(b"\r\n").unwrap();
    }
    (content, false)
}

/// Returns the value of a field, or nothing.
pub(crate) fn field<'a, B>(answer: &'a Response<B>, name: &str) -> &'a str {
    answer.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

pub(crate) fn encode(coding: ContentCoding, mut body: &[u8]) -> Vec<u8> {
    let mut encoder = ContentEncoder::new(coding, &EncoderOptions::default(), None).unwrap();
    let mut out = BytesMut::new();
    while !body.is_empty() {
        encoder.encode(&mut body, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    out.to_vec()
}

pub(crate) fn decoder(coding: ContentCoding) -> ContentDecoder {
    ContentDecoder::new(&[coding], DecodeLimits::default()).unwrap()
}

/// Decodes what follows in a body.
pub(crate) fn decode_next(decoder: &mut ContentDecoder, mut bytes: &[u8]) -> String {
    let mut out = BytesMut::new();
    while decoder.decode(&mut bytes, &mut out).unwrap() == DecodeStatus::HasMore {}
    String::from_utf8(out.to_vec()).unwrap()
}

/// Decodes a whole body.
pub(crate) fn decode(coding: ContentCoding, bytes: &[u8]) -> String {
    let mut decoder = decoder(coding);
    let text = decode_next(&mut decoder, bytes);
    decoder.finish().unwrap();
    text
}
