//! Pieces of requests from which cases are put together.

/// The request sent behind most cases. Its answer shows that the server found the end of what came before.
pub(crate) const PROBE: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: probe.example\r\n\r\n";

/// Request line and Host of a request for the greeting, without the empty line.
pub(crate) const GET: &[u8] = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n";

/// Request line and Host of a request that wants its body back, without the empty line.
pub(crate) const POST: &[u8] = b"POST /echo HTTP/1.1\r\nHost: a\r\n";

/// Joins parts into one vector.
pub(crate) fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A request with this request line, and Host.
pub(crate) fn with_line(line: impl AsRef<[u8]>) -> Vec<u8> {
    concat(&[line.as_ref(), b"\r\nHost: a\r\n\r\n"])
}

/// A request for the greeting with further field lines, each with its own line end.
pub(crate) fn get(fields: impl AsRef<[u8]>) -> Vec<u8> {
    concat(&[GET, fields.as_ref(), b"\r\n"])
}

/// A request to `/echo` with these field lines, each with its own line end, and these bytes behind the head.
pub(crate) fn post(fields: impl AsRef<[u8]>, rest: impl AsRef<[u8]>) -> Vec<u8> {
    concat(&[POST, fields.as_ref(), b"\r\n", rest.as_ref()])
}

/// A request to `/echo` whose `Content-Length` is right.
pub(crate) fn post_sized(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    post(format!("Content-Length: {}\r\n", body.len()), body)
}

/// A request to `/echo` in chunks, with these bytes behind the head.
pub(crate) fn post_chunked(chunks: impl AsRef<[u8]>) -> Vec<u8> {
    post("Transfer-Encoding: chunked\r\n", chunks)
}

/// One chunk with its size line and its line end.
pub(crate) fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    concat(&[format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"])
}

/// `length` bytes in a pattern whose period is a prime, so that a shifted copy differs.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..251u8).cycle().take(length).collect()
}

/// A byte as part of a case's name.
pub(crate) fn byte_name(what: &str, byte: u8) -> String {
    format!("{what}_0x{byte:02x}")
}

/// Control bytes: 0x00 to 0x1f, and DEL.
pub(crate) fn controls() -> impl Iterator<Item = u8> {
    (0..0x20).chain([0x7f])
}

/// Control bytes but HTAB, which are legal nowhere in a head.
pub(crate) fn controls_but_tab() -> impl Iterator<Item = u8> {
    controls().filter(|byte| *byte != b'\t')
}

/// Visible ASCII, space excluded.
pub(crate) fn visible() -> impl Iterator<Item = u8> {
    0x21..0x7f
}

/// Bytes outside of ASCII, which the grammar calls obs-text.
pub(crate) fn obs_text() -> impl Iterator<Item = u8> {
    0x80..=0xff
}

/// True for the bytes of methods and field names (RFC 9110, 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
