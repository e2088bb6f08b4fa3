//! Probes of well-known protocols.

use super::probe::{Detection, Probe};

/// The probe of a well-known protocol, for a server: it recognises the bytes of a client.
///
/// | probe | matches | after at most |
/// |---|---|---|
/// | `Tls` | the record of a ClientHello: SSL 3.0 to TLS 1.3 | 6 bytes |
/// | `Http1` | a request line: `METHOD target HTTP/1.x` | the request line |
/// | `Http2` | the connection preface, `PRI * HTTP/2.0…` | 24 bytes |
/// | `Resp` | a command of Redis as an array: `*2\r\n` | 13 bytes |
/// | `Proxy` | the beginning of a PROXY header, version 1 or 2 | 12 bytes |
///
/// All of them answer `NoMatch` at the first byte that differs, so their order does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StockProbe {
    /// TLS. The hello of SSL 2.0, which clients of twenty years ago sent for TLS 1.0 too, does not match.
    Tls,
    /// HTTP/1.0 and 1.1. A method has upper-case letters and hyphens, at most 24. `GET /` without a version (HTTP/0.9)
    /// does not match, nor does an empty line before the request. A request line that is longer than the detector's
    /// limit of bytes is not recognised.
    Http1,
    /// HTTP/2 with prior knowledge. (Over TLS it is chosen by ALPN.)
    Http2,
    /// RESP, versions 2 and 3. Inline commands (`PING\r\n`, as typed into telnet) are lines like any others and do not
    /// match: if only RESP speaks in lines on this port, make it the fallback.
    Resp,
    /// The PROXY protocol. Only the beginning is looked at: a malformed header matches too, so that it is refused by
    /// the decoder and not taken for another protocol. The initialiser adds a `ProxyServer` and after it another
    /// detector, for the protocol behind the header.
    ///
    /// Version 2 begins with two empty lines: after a `\r\n` more bytes are needed.
    Proxy,
}

impl Probe for StockProbe {
    fn probe(&self, bytes: &[u8], seen: usize) -> Detection {
        match self {
            StockProbe::Tls => probe_tls(bytes),
            StockProbe::Http1 => probe_http1(bytes, seen),
            StockProbe::Http2 => Detection::of_prefix(bytes, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
            StockProbe::Resp => probe_resp(bytes),
            StockProbe::Proxy if bytes.first() == Some(&b'P') => {
                Detection::of_prefix(bytes, b"PROXY ")
            }
            StockProbe::Proxy => Detection::of_prefix(bytes, b"\r\n\r\n\0\r\nQUIT\n"),
        }
    }
}

/// Checks the header of a TLS record, and the type of the handshake message in it.
fn probe_tls(bytes: &[u8]) -> Detection {
    const HANDSHAKE: u8 = 22;
    const CLIENT_HELLO: u8 = 1;
    /// Maximum length of a record that is not encrypted (RFC 8446, 5.1). A hello may be spread over several records.
    const MAX_RECORD: u16 = 1 << 14;

    let field = |at: usize| bytes.get(at).copied();
    let is_other = field(0).is_some_and(|kind| kind != HANDSHAKE)
        || field(1).is_some_and(|major| major != 3)
        || field(2).is_some_and(|minor| minor > 4)
        || field(3).is_some_and(|high| u16::from(high) > MAX_RECORD >> 8)
        || bytes.get(3..5).is_some_and(|length| {
            !(1..=MAX_RECORD).contains(&u16::from_be_bytes([length[0], length[1]]))
        })
        || field(5).is_some_and(|message| message != CLIENT_HELLO);
    match bytes.len() {
        _ if is_other => Detection::NoMatch,
        0..6 => Detection::NeedMore,
        _ => Detection::Match,
    }
}

/// Checks a request line up to the minor version.
fn probe_http1(bytes: &[u8], seen: usize) -> Detection {
    /// The longest registered method has 17 letters (UPDATEREDIRECTREF).
    const MAX_METHOD: usize = 24;
    const VERSION: &[u8] = b"HTTP/1.";

    let method = &bytes[..bytes.len().min(MAX_METHOD + 1)];
    let is_letter = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    let Some(method_end) = method.iter().position(|byte| !is_letter(byte)) else {
        let is_too_long = method.len() > MAX_METHOD;
        return if is_too_long { Detection::NoMatch } else { Detection::NeedMore };
    };
    if method_end == 0 || bytes[method_end] != b' ' {
        return Detection::NoMatch;
    }
    let target = method_end + 1;
    // The bytes seen before are part of the target, except for a space and an incomplete version at their end.
    let from = target.max(seen.saturating_sub(VERSION.len() + 1));
    let is_target = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    let Some(length) = bytes[from..].iter().position(|byte| !is_target(byte)) else {
        return Detection::NeedMore;
    };
    let target_end = from + length;
    if bytes[target_end] != b' ' || target_end == target {
        return Detection::NoMatch;
    }
    let version = &bytes[target_end + 1..];
    match (Detection::of_prefix(version, VERSION), version.get(VERSION.len())) {
        (Detection::Match, None) => Detection::NeedMore,
        (Detection::Match, Some(minor)) if !minor.is_ascii_digit() => Detection::NoMatch,
        (answer, _) => answer,
    }
}

/// Checks the header of an array with a length of at most ten digits.
fn probe_resp(bytes: &[u8]) -> Detection {
    const MAX_DIGITS: usize = 10;

    let Some((b'*', rest)) = bytes.split_first() else { return Detection::NoMatch };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match digits {
        0 if rest.is_empty() => Detection::NeedMore,
        1..=MAX_DIGITS => Detection::of_prefix(&rest[digits..], b"\r\n"),
        _ => Detection::NoMatch,
    }
}
