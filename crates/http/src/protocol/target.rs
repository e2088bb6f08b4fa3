//! Request targets and their four forms (RFC 9112, section 3.2).

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Method, Uri};

use super::authority::is_host_and_port;
use super::error::{Malformation, MessageError};

/// Parses a request target, and checks that its form fits the method.
///
/// | form | example | method |
/// |---|---|---|
/// | origin | `/where?q=now` | any but CONNECT |
/// | absolute | `http://example.org/` | any but CONNECT |
/// | authority | `example.org:80` | CONNECT |
/// | asterisk | `*` | OPTIONS |
#[inline]
pub(super) fn parse_target(target: Bytes, method: &Method) -> Result<Uri, MessageError> {
    if *method == Method::CONNECT {
        return parse_authority_form(target);
    }
    match target.first() {
        Some(b'/') => {
            // `Uri` accepts bytes above 0x7f, and drops a fragment; neither belongs into a target.
            if !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
                return Err(Malformation::Target.into());
            }
            parse_uri(target)
        }
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

#[inline]
fn parse_uri(target: Bytes) -> Result<Uri, MessageError> {
    Uri::from_maybe_shared(target).map_err(|_| Malformation::Target.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(target: &'static str, method: Method) -> Result<Uri, MessageError> {
        parse_target(Bytes::from_static(target.as_bytes()), &method)
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
