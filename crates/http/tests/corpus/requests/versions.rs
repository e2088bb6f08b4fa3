//! The protocol version (RFC 9112, 2.3; RFC 9110, 2.5).

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, byte_name, concat, controls, obs_text, visible, with_line};

pub(crate) fn h02_versions() -> Vec<Case> {
    let mut group = CaseGroup::new("h02_versions");
    for major in 0..10 {
        for minor in (0..10).filter(|minor| major != 1 || *minor > 1) {
            let bytes = with_line(format!("GET /plaintext HTTP/{major}.{minor}"));
            group.refuse("9110 15.6.6", format!("HTTP/{major}.{minor}"), &[505], bytes);
        }
    }
    group.accept("9112 2.3", "HTTP/1.1", with_line("GET /plaintext HTTP/1.1"));
    let expectation = Expectation::new([AnswerRule::hello()], Ending::Closed);
    let pieces = vec![with_line("GET /plaintext HTTP/1.0"), PROBE.to_vec()];
    group.custom("9112 2.3", "HTTP/1.0", pieces, [expectation]);
    let bytes = "POST /echo HTTP/2.0\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    group.refuse("9110 15.6.6", "HTTP/2.0 with a body", &[505], bytes);
    for version in [
        "http/1.1",
        "Http/1.1",
        "HTTp/1.1",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/.1",
        "HTTP/.",
        "HTTP/",
        "HTTP",
        "HTTP/11",
        "HTTP/2",
        "HTTP/1.10",
        "HTTP/1.11",
        "HTTP/1.01",
        "HTTP/01.1",
        "HTTP/11.1",
        "HTTP/1.1.1",
        "HTTP/1,1",
        "HTTP/1-1",
        "HTTP/1:1",
        "HTTP/1.1;",
        "HTTP/1.1x",
        "HTTP/1.x",
        "HTTP/x.1",
        "HTTP/1.+1",
        "HTTP/+1.1",
        "HTTP/-1.1",
        "HTTP/1.-1",
        "HTTP/1.A",
        "HTTP/A.1",
        "HTTP/1..1",
        "HTTP//1.1",
        "HTTP\\1.1",
        "HTTP 1.1",
        "HTTP/ 1.1",
        "HTTP/1 .1",
        "HTTP/1. 1",
        "HTTP-1.1",
        "HTTP1.1",
        "HTTPS/1.1",
        "HTTP2/1.1",
        "XHTTP/1.1",
        "HTT/1.1",
        "HTTPP/1.1",
        "/1.1",
        "1.1",
        "HTTP/4294967297.1",
        "HTTP/1.4294967297",
        "HTTP/99999999999999999999.1",
        "HTTP/１.1",
        "\"HTTP/1.1\"",
    ] {
        let bytes = with_line(format!("GET /plaintext {version}"));
        group.malformed("9112 2.3", format!("malformed {version}"), bytes);
    }
    for byte in controls().chain(visible().filter(|byte| !byte.is_ascii_digit())).chain(obs_text())
    {
        for (place, before, behind) in
            [("as_the_minor", "HTTP/1.", ""), ("as_the_major", "HTTP/", ".1")]
        {
            let parts = [b"GET /plaintext ", before.as_bytes(), &[byte], behind.as_bytes()];
            group.malformed("9112 2.3", byte_name(place, byte), with_line(concat(&parts)));
        }
    }
    group.finish()
}
