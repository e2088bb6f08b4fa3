//! Heads, chunks and ends of bodies as bytes.
//!
//! The framing is this crate's: Content-Length, Transfer-Encoding and Connection in the fields of a message are left out
//! and written anew, so that a message on the wire has one reading whatever its fields say. Field values cannot split a
//! message: the types `HeaderName` and `HeaderValue` hold neither CR nor LF.

use std::io::Write;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

use super::framing::{BodyFraming, may_have_body};

/// The Connection field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// No field: the default of HTTP/1.1, the connection goes on.
    Absent,
    /// `close`: this is the last message.
    Close,
    /// `keep-alive`, for clients of HTTP/1.0.
    KeepAlive,
    /// `upgrade`, with the Upgrade field of the message.
    Upgrade,
}

impl ConnectionField {
    /// Returns the field of a response that does not end HTTP.
    #[inline]
    pub(crate) fn of_response(closes: bool, is_http10: bool, headers: &HeaderMap) -> Self {
        match (closes, is_http10) {
            (true, _) => Self::Close,
            (false, true) => Self::KeepAlive,
            // A list of protocols that the client may ask for, such as that of status 426, is for the next hop.
            (false, false) if !headers.is_empty() && headers.contains_key(header::UPGRADE) => {
                Self::Upgrade
            }
            (false, false) => Self::Absent,
        }
    }
}

/// The fields that a server adds to its responses unless they have them: Date and Server, encoded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerFields<'a> {
    /// `date: …\r\n`.
    pub(crate) date: &'a [u8],
    /// `server: …\r\n`, or nothing.
    pub(crate) server: &'a [u8],
    /// Both, one after the other.
    pub(crate) both: &'a [u8],
}

/// Appends the head of a response.
///
/// With [`BodyFraming::None`] the response has no body: a Content-Length in `headers` is kept, because the answer to
/// HEAD and status 304 have the length of a body that is not sent.
///
/// ```
/// use bytes::BytesMut;
/// use http::{HeaderMap, StatusCode};
/// use waterwheel_http::{BodyFraming, ConnectionField, encode_response_head};
///
/// let mut bytes = BytesMut::new();
/// let framing = BodyFraming::Length(2);
/// encode_response_head(StatusCode::OK, &HeaderMap::new(), framing, ConnectionField::Absent, &mut bytes);
/// assert_eq!(bytes, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
/// ```
pub fn encode_response_head(
    status: StatusCode,
    headers: &HeaderMap,
    framing: BodyFraming,
    connection: ConnectionField,
    dst: &mut BytesMut,
) {
    let head = ResponseFields { headers, content_type: None, server: ServerFields::default() };
    encode_response(status, &head, framing, connection, dst);
}

/// The fields of a response, from its maker and from the server.
pub(crate) struct ResponseFields<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// The type of the body, if the headers have none.
    pub(crate) content_type: Option<&'static str>,
    pub(crate) server: ServerFields<'a>,
}

/// Appends the head of a response with the fields of a server.
pub(crate) fn encode_response(
    status: StatusCode,
    fields: &ResponseFields<'_>,
    framing: BodyFraming,
    connection: ConnectionField,
    dst: &mut BytesMut,
) {
    match status {
        StatusCode::OK => dst.put_slice(b"HTTP/1.1 200 OK\r\n"),
        status => {
            dst.put_slice(b"HTTP/1.1 ");
            dst.put_slice(status.as_str().as_bytes());
            dst.put_u8(b' ');
            dst.put_slice(status.canonical_reason().unwrap_or("").as_bytes());
            dst.put_slice(b"\r\n");
        }
    }
    let ResponseFields { headers, content_type, server } = fields;
    let keeps_length = framing == BodyFraming::None && may_have_length(status);
    if headers.is_empty() {
        dst.put_slice(server.both);
    } else {
        put_fields(headers, keeps_length, dst);
        if !headers.contains_key(header::DATE) {
            dst.put_slice(server.date);
        }
        if !headers.contains_key(header::SERVER) {
            dst.put_slice(server.server);
        }
    }
    if let Some(content_type) = content_type
        && !headers.contains_key(header::CONTENT_TYPE)
    {
        put_field(b"content-type", content_type.as_bytes(), dst);
    }
    put_framing(framing, connection, dst);
}

/// Appends the head of a request. `target` is the request target in the form that the connection needs: for a server the
/// path with the query, for a proxy the whole URI. Bytes that no target has, such as spaces and line ends, are
/// percent-encoded: a target cannot split a request.
///
/// ```
/// use bytes::BytesMut;
/// use http::{HeaderMap, HeaderValue, Method};
/// use waterwheel_http::{BodyFraming, ConnectionField, encode_request_head};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("host", HeaderValue::from_static("example.org"));
/// let mut bytes = BytesMut::new();
/// encode_request_head(&Method::GET, "/a?b", &headers, BodyFraming::None, ConnectionField::Absent, &mut bytes);
/// assert_eq!(bytes, "GET /a?b HTTP/1.1\r\nhost: example.org\r\n\r\n");
/// ```
pub fn encode_request_head(
    method: &Method,
    target: &str,
    headers: &HeaderMap,
    framing: BodyFraming,
    connection: ConnectionField,
    dst: &mut BytesMut,
) {
    dst.put_slice(method.as_str().as_bytes());
    dst.put_u8(b' ');
    put_target(target, dst);
    dst.put_slice(b" HTTP/1.1\r\n");
    put_fields(headers, false, dst);
    put_framing(framing, connection, dst);
}

fn put_target(target: &str, dst: &mut BytesMut) {
    if target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return dst.put_slice(target.as_bytes());
    }
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => dst.put_u8(byte),
            // Writing to memory does not fail.
            _ => _ = write!(dst.writer(), "%{byte:02X}"),
        }
    }
}

/// Returns the target of a request to a server: the path with the query.
pub(crate) fn origin_form(uri: &Uri) -> &str {
    match uri.path_and_query() {
        Some(target) if !target.as_str().is_empty() => target.as_str(),
        _ => "/",
    }
}

/// True if a message of this status without a body may say how long the body would be.
fn may_have_length(status: StatusCode) -> bool {
    status == StatusCode::NOT_MODIFIED || may_have_body(status)
}

fn put_fields(headers: &HeaderMap, keeps_length: bool, dst: &mut BytesMut) {
    for (name, value) in headers {
        if is_framing(name) && !(keeps_length && *name == header::CONTENT_LENGTH) {
            continue;
        }
        put_field(name.as_str().as_bytes(), value.as_bytes(), dst);
    }
}

fn is_framing(name: &HeaderName) -> bool {
    *name == header::CONTENT_LENGTH
        || *name == header::TRANSFER_ENCODING
        || *name == header::CONNECTION
}

#[inline]
fn put_field(name: &[u8], value: &[u8], dst: &mut BytesMut) {
    dst.reserve(name.len() + value.len() + 4);
    dst.put_slice(name);
    dst.put_slice(b": ");
    dst.put_slice(value);
    dst.put_slice(b"\r\n");
}

/// Appends the fields of the framing and of the connection, and the end of the head.
fn put_framing(framing: BodyFraming, connection: ConnectionField, dst: &mut BytesMut) {
    match connection {
        ConnectionField::Absent => {}
        ConnectionField::Close => dst.put_slice(b"connection: close\r\n"),
        ConnectionField::KeepAlive => dst.put_slice(b"connection: keep-alive\r\n"),
        ConnectionField::Upgrade => dst.put_slice(b"connection: upgrade\r\n"),
    }
    match framing {
        BodyFraming::Length(length) => {
            dst.put_slice(b"content-length: ");
            put_decimal(length, dst);
            dst.put_slice(b"\r\n\r\n");
        }
        BodyFraming::Chunked => dst.put_slice(b"transfer-encoding: chunked\r\n\r\n"),
        BodyFraming::None | BodyFraming::UntilClose => dst.put_slice(b"\r\n"),
    }
}

fn put_decimal(mut number: u64, dst: &mut BytesMut) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    dst.put_slice(&digits[at..]);
}

/// The bytes after the data of a chunk.
pub(crate) const CHUNK_END: Bytes = Bytes::from_static(b"\r\n");

/// Appends the line before the data of a chunk; `\r\n` follows the data. Appends nothing for a chunk without data, which
/// would end the body.
///
/// ```
/// use bytes::BytesMut;
/// use waterwheel_http::{encode_body_end, encode_chunk_start};
///
/// let mut bytes = BytesMut::new();
/// encode_chunk_start(5, &mut bytes);
/// bytes.extend_from_slice(b"hello\r\n");
/// encode_body_end(None, &mut bytes);
/// assert_eq!(bytes, "5\r\nhello\r\n0\r\n\r\n");
/// ```
pub fn encode_chunk_start(len: u64, dst: &mut BytesMut) {
    if len > 0 {
        // Writing to memory does not fail.
        let _ = write!(dst.writer(), "{len:x}\r\n");
    }
}

/// Appends the last chunk and the trailers. Fields of the framing and of the connection are left out.
pub fn encode_body_end(trailers: Option<&HeaderMap>, dst: &mut BytesMut) {
    dst.put_slice(b"0\r\n");
    if let Some(trailers) = trailers {
        put_fields(trailers, false, dst);
    }
    dst.put_slice(b"\r\n");
}

/// Appends an interim response without fields: `100 Continue`.
pub(crate) fn put_continue(dst: &mut BytesMut) {
    dst.put_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
}

/// Returns `host: port` of a URI as a field value, without the port that is the default of its scheme.
pub(crate) fn host_value(uri: &Uri) -> Option<HeaderValue> {
    let authority = uri.authority()?;
    let host = authority.host();
    let default_port = match uri.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    match authority.port_u16() {
        Some(port) if port != default_port => HeaderValue::from_str(&format!("{host}:{port}")).ok(),
        _ => HeaderValue::from_str(host).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    fn response(
        status: u16,
        fields: &[(&'static str, &'static str)],
        framing: BodyFraming,
    ) -> String {
        let mut dst = BytesMut::new();
        let status = StatusCode::from_u16(status).unwrap();
        encode_response_head(status, &headers(fields), framing, ConnectionField::Absent, &mut dst);
        String::from_utf8(dst.to_vec()).unwrap()
    }

    #[test]
    fn h03_a_message_has_one_framing_whatever_its_fields_say() {
        let wrong = [
            ("content-length", "7"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("a", "b"),
        ];
        assert_eq!(
            response(200, &wrong, BodyFraming::Length(123)),
            "HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 123\r\n\r\n"
        );
        assert_eq!(
            response(200, &wrong, BodyFraming::Chunked),
            "HTTP/1.1 200 OK\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            response(304, &wrong, BodyFraming::None),
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\na: b\r\n\r\n"
        );
        assert_eq!(
            response(204, &wrong, BodyFraming::None),
            "HTTP/1.1 204 No Content\r\na: b\r\n\r\n"
        );
        assert_eq!(response(299, &[], BodyFraming::UntilClose), "HTTP/1.1 299 \r\n\r\n");
    }

    #[test]
    fn h13_date_and_server_are_added_once() {
        let server = ServerFields {
            date: b"date: D\r\n",
            server: b"server: S\r\n",
            both: b"date: D\r\nserver: S\r\n",
        };
        let encode = |fields: &[(&'static str, &'static str)]| {
            let (mut dst, headers) = (BytesMut::new(), headers(fields));
            let fields =
                ResponseFields { headers: &headers, content_type: Some("text/plain"), server };
            encode_response(
                StatusCode::OK,
                &fields,
                BodyFraming::Length(0),
                ConnectionField::Close,
                &mut dst,
            );
            String::from_utf8(dst.to_vec()).unwrap()
        };
        let tail = "connection: close\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(
            encode(&[]),
            format!(
                "HTTP/1.1 200 OK\r\ndate: D\r\nserver: S\r\ncontent-type: text/plain\r\n{tail}"
            )
        );
        assert_eq!(
            encode(&[("date", "mine"), ("content-type", "a/b")]),
            format!("HTTP/1.1 200 OK\r\ndate: mine\r\ncontent-type: a/b\r\nserver: S\r\n{tail}")
        );
    }

    #[test]
    fn h03_a_target_cannot_split_a_request() {
        for (target, line) in [
            ("/a?b", "GET /a?b HTTP/1.1"),
            ("/a b", "GET /a%20b HTTP/1.1"),
            ("/ HTTP/1.1\r\nx: y", "GET /%20HTTP/1.1%0D%0Ax:%20y HTTP/1.1"),
            ("/\u{e9}\0\u{7f}", "GET /%C3%A9%00%7F HTTP/1.1"),
        ] {
            let mut dst = BytesMut::new();
            let (framing, connection) = (BodyFraming::None, ConnectionField::Absent);
            encode_request_head(
                &Method::GET,
                target,
                &HeaderMap::new(),
                framing,
                connection,
                &mut dst,
            );
            assert_eq!(dst, format!("{line}\r\n\r\n"));
        }
    }

    #[test]
    fn h01_chunks_and_numbers() {
        let mut dst = BytesMut::new();
        encode_chunk_start(0x1af, &mut dst);
        encode_body_end(Some(&headers(&[("x", "y"), ("content-length", "3")])), &mut dst);
        assert_eq!(dst, "1af\r\n0\r\nx: y\r\n\r\n");
        for number in [0, 7, 10, 1234567890, u64::MAX] {
            let mut dst = BytesMut::new();
            put_decimal(number, &mut dst);
            assert_eq!(dst, number.to_string());
        }
    }
}
