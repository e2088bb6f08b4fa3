//! Request targets and their four forms (RFC 9112, section 3.2).

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Method, Uri};

use super::authority::is_host_and_port;
use super::error::{Malformation, MessageError};

/// Checks a target that begins with a slash: a path with a query, which fits every method but CONNECT.
///
/// | form | example | method |
/// |---|---|---|
/// | origin | `/where?q=now` | any but CONNECT |
/// | absolute | `http://example.org/` | any but CONNECT |
/// | authority | `example.org:80` | CONNECT |
/// | asterisk | `*` | OPTIONS |
#[inline]
pub(super) fn check_origin_form(target: &[u8]) -> Result<(), MessageError> {
    match is_path_and_query(target) && target.len() <= MAX_URI_LEN {
        true => Ok(()),
        false => Err(Malformation::Target.into()),
    }
}

/// The longest target that `Uri` takes.
const MAX_URI_LEN: usize = u16::MAX as usize - 1;

/// Parses a target that does not begin with a slash, and checks that its form fits the method.
pub(super) fn parse_other_form(target: Bytes, method: &Method) -> Result<Uri, MessageError> {
    if *method == Method::CONNECT {
        return parse_authority_form(target);
    }
    match target.first() {
        Some(b'*') if target.len() == 1 => match *method {
            Method::OPTIONS => parse_uri(target),
            _ => Err(Malformation::TargetForm.into()),
        },
        Some(_) => parse_absolute_form(target),
        None => Err(Malformation::RequestLine.into()),
    }
}

/// Parses `host:port`. The port is required: nothing says which one is meant without it.
fn parse_authority_form(target: Bytes) -> Result<Uri, MessageError> {
    let has_port = target.last().is_some_and(u8::is_ascii_digit)
        && target
            .iter()
            .rposition(|byte| *byte == b':')
            .is_some_and(|colon| colon > 0 && target[colon + 1..].iter().all(u8::is_ascii_digit));
    if !has_port || !is_host_and_port(&target) {
        return Err(Malformation::TargetForm.into());
    }
    parse_uri(target)
}

/// Parses `http://host/path`, or the same with `https`.
fn parse_absolute_form(target: Bytes) -> Result<Uri, MessageError> {
    if !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
        return Err(Malformation::Target.into());
    }
    let uri = parse_uri(target)?;
    let is_http =
        uri.scheme().is_some_and(|scheme| *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS);
    let is_valid = |authority: &Authority| {
        !authority.host().is_empty() && is_host_and_port(authority.as_str().as_bytes())
    };
    if is_http && uri.authority().is_some_and(is_valid) {
        Ok(uri)
    } else {
        Err(Malformation::Target.into())
    }
}

/// True if the bytes may be a path with a query. `Uri` accepts more: bytes above 0x7f, and a fragment, which it drops.
#[inline]
fn is_path_and_query(target: &[u8]) -> bool {
    let mut bytes = target.iter();
    for byte in &mut bytes {
        match TARGET_BYTES[usize::from(*byte)] {
            TargetByte::Path => {}
            TargetByte::QuestionMark => break,
            TargetByte::Query | TargetByte::None => return false,
        }
    }
    bytes.all(|byte| !matches!(TARGET_BYTES[usize::from(*byte)], TargetByte::None))
}

/// The places where a byte may stand in a target.
#[derive(Clone, Copy)]
enum TargetByte {
    None,
    /// In the path, and in the query.
    Path,
    /// In the query only. Browsers leave more characters there as they are than the grammar has.
    Query,
    QuestionMark,
}

static TARGET_BYTES: [TargetByte; 256] = {
    let mut table = [TargetByte::None; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = match byte as u8 {
            b'?' => TargetByte::QuestionMark,
            b'#' | b'"' | b'<' | b'>' => TargetByte::None,
            b'\\' | b'^' | b'`' => TargetByte::Query,
            _ => TargetByte::Path,
        };
        byte += 1;
    }
    table
};

#[inline]
fn parse_uri(target: Bytes) -> Result<Uri, MessageError> {
    Uri::from_maybe_shared(target).map_err(|_| Malformation::Target.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &'static str, method: Method) -> Result<Uri, MessageError> {
        if target.starts_with('/') && method != Method::CONNECT {
            check_origin_form(target.as_bytes())?;
            return Ok(Uri::from_static(target));
        }
        parse_other_form(Bytes::from_static(target.as_bytes()), &method)
    }

    #[test]
    fn h03_each_form_of_a_target_has_its_methods() {
        for good in [
            "/",
            "/a?b",
            "/a%20b",
            "//a",
            "http://a/",
            "https://a:1/b?c",
            "HTTP://a",
            "http://[::1]/x",
        ] {
            assert!(parse(good, Method::GET).is_ok(), "{good}");
            assert!(parse(good, Method::CONNECT).is_err(), "CONNECT {good}");
        }
        assert_eq!(parse("*", Method::OPTIONS).unwrap().path(), "*");
        assert_eq!(parse("*", Method::GET), Err(Malformation::TargetForm.into()));
        for good in ["a:80", "[::1]:443", "1.2.3.4:1"] {
            assert!(parse(good, Method::CONNECT).is_ok(), "{good}");
            assert!(parse(good, Method::GET).is_err(), "GET {good}");
        }
        for bad in ["a", "a:", ":80", "u@a:80", "a:b", "*", "a:70000"] {
            assert!(parse(bad, Method::CONNECT).is_err(), "CONNECT {bad}");
        }
    }

    #[test]
    fn h03_every_target_that_is_accepted_is_a_uri() {
        for byte in 0..=255u8 {
            for target in [vec![b'/', byte], vec![b'/', b'?', byte], vec![b'/', byte, b'?', byte]] {
                let is_accepted = check_origin_form(&target).is_ok();
                let uri = Uri::from_maybe_shared(Bytes::from(target.clone()));
                let path_and_query = uri.ok().and_then(|uri| uri.path_and_query().cloned());
                let is_whole = path_and_query.is_some_and(|uri| uri.as_str().as_bytes() == target);
                assert!(!is_accepted || is_whole, "{}", target.escape_ascii());
            }
        }
        let longest = [b"/".as_slice(), &vec![b'a'; MAX_URI_LEN - 1]].concat();
        assert!(
            check_origin_form(&longest).is_ok()
                && Uri::from_maybe_shared(Bytes::from(longest.clone())).is_ok()
        );
        assert!(check_origin_form(&[&longest[..], b"a"].concat()).is_err());
    }

    #[test]
    fn h03_targets_that_are_no_uri_are_refused() {
        let bad = [
            "a",
            "a/b",
            "**",
            "/a#b",
            "/\u{e9}",
            "/<a>",
            "http://",
            "http:///a",
            "http://u@a/",
            "ftp://a/",
            "http:/a",
            "http://a b/",
            "?a",
            "http://a:70000/",
            "http://a#b",
            "/a\\b\u{7f}",
        ];
        for bad in bad {
            assert!(parse(bad, Method::GET).is_err(), "{bad}");
        }
    }
}
