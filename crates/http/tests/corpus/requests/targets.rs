//! The request target in its four forms (RFC 9112, 3.2).

use super::super::case::{AnswerRule, Case};
use super::super::group::CaseGroup;
use super::super::messages::{byte_name, concat, controls, obs_text, with_line};

pub(crate) fn h03_targets() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_targets");
    add_origin_form(&mut group);
    add_bytes(&mut group);
    add_absolute_form(&mut group);
    add_malformed_absolute_form(&mut group);
    add_asterisk_form(&mut group);
    add_authority_form(&mut group);
    group.finish()
}

fn add_origin_form(group: &mut CaseGroup) {
    for target in ["/plaintext", "/plaintext?", "/plaintext?a=b", "/plaintext?/?:@!$&'()*+,;=-._~"]
    {
        group.accept("9112 3.2.1", target, with_line(format!("GET {target} HTTP/1.1")));
    }
    for target in [
        "/",
        "/?",
        "/?plaintext",
        "//",
        "//plaintext",
        "//a/plaintext",
        "/plaintext/",
        "/plaintext/x",
        "/Plaintext",
        "/PLAINTEXT",
        "/plaintex",
        "/plaintextx",
        "/plaintext;x",
        "/http://a/plaintext",
        "/*",
        "/:80",
        "/@",
        "/a%20b",
        "/%C3%A4",
        "/-._~!$&'()*+,;=:@",
    ] {
        let bytes = with_line(format!("GET {target} HTTP/1.1"));
        group.answer("9112 3.2.1", target, bytes, AnswerRule::status(404));
    }
    for target in [
        "plaintext",
        "a/plaintext",
        "./plaintext",
        "../plaintext",
        "?",
        "?a=b",
        "a",
        "a.b",
        "a?b",
        "\\",
        "\\plaintext",
        "%2Fplaintext",
        ":",
        ":80",
        "a:80",
        "-",
        "@",
        "=",
        "&",
        "+",
        "~",
    ] {
        let name = format!("no origin form: {target}");
        group.malformed("9112 3.2.1", name, with_line(format!("GET {target} HTTP/1.1")));
    }
}

/// Bytes that no target may hold. `{|}[]` and the query's marks are left to the server.
fn add_bytes(group: &mut CaseGroup) {
    for byte in controls().chain(obs_text()) {
        for (place, before, behind) in [
            ("in_the_path", "/plain", "text"),
            ("at_the_paths_end", "/plaintext", ""),
            ("in_the_query", "/plaintext?a", "b"),
        ] {
            let parts = [b"GET ", before.as_bytes(), &[byte], behind.as_bytes(), b" HTTP/1.1"];
            group.malformed("9112 3.2", byte_name(place, byte), with_line(concat(&parts)));
        }
    }
    for byte in *b"#\"<>\\^`" {
        let line = concat(&[b"GET /plain", &[byte], b"text HTTP/1.1"]);
        group.malformed("9112 3.2", byte_name("in_the_path", byte), with_line(line));
    }
    for target in
        ["/plaintext#", "/plaintext#a", "/plaintext?a#b", "/#/plaintext", "#", "#/plaintext"]
    {
        let name = format!("fragment: {target}");
        group.malformed("9112 3.2", name, with_line(format!("GET {target} HTTP/1.1")));
    }
}

fn add_absolute_form(group: &mut CaseGroup) {
    for authority in [
        "a",
        "a:80",
        "a:",
        "a:0",
        "a:65535",
        "A.Example",
        "a.example.",
        "other.example:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "[::1]",
        "[::1]:8080",
        "[2001:db8::1:2]",
        "xn--bcher-kva.example",
        "a-b_c~d.example",
    ] {
        for scheme in ["http", "https"] {
            let target = format!("{scheme}://{authority}/plaintext");
            group.accept("9112 3.2.2", &target, with_line(format!("GET {target} HTTP/1.1")));
        }
    }
    for target in ["HTTP://a/plaintext", "Https://a/plaintext", "http://a/plaintext?b=c://d@e"] {
        group.accept("9112 3.2.2", target, with_line(format!("GET {target} HTTP/1.1")));
    }
    for target in
        ["http://a", "http://a/", "http://a:80", "http://a?b", "http://a/?b", "http://a//plaintext"]
    {
        let bytes = with_line(format!("GET {target} HTTP/1.1"));
        group.answer("9112 3.2.2", target, bytes, AnswerRule::status(404));
    }
    let bytes = "POST http://a/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    group.echo("9112 3.2.2", "absolute_form_with_a_body", bytes, "hi");
    let bytes = "GET http://a/plaintext HTTP/1.1\r\nHost: b\r\n\r\n";
    group.accept("9112 3.2.2", "another_host_in_the_field_is_ignored", bytes);
    let bytes = "GET http://a/plaintext HTTP/1.1\r\nHost:\r\n\r\n";
    group.accept("9112 3.2.2", "empty_host_field_is_ignored", bytes);
    let bytes = "GET http://a/plaintext HTTP/1.1\r\n\r\n";
    group.malformed("9112 3.2", "absolute_form_without_host_field", bytes);
    let bytes = "GET http://a/plaintext HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n";
    group.malformed("9112 3.2", "absolute_form_with_two_host_fields", bytes);
    let bytes = "GET http://a/plaintext HTTP/1.1\r\nHost: a b\r\n\r\n";
    group.malformed("9112 3.2", "absolute_form_with_an_invalid_host_field", bytes);
}

fn add_malformed_absolute_form(group: &mut CaseGroup) {
    for target in [
        "http://",
        "http:///",
        "http:///plaintext",
        "http://?a",
        "http://:80/plaintext",
        "http://@/plaintext",
        "http://u@a/plaintext",
        "http://u:p@a/plaintext",
        "http://u@a:80/plaintext",
        "http://a@b@c/plaintext",
        "http://a:b/plaintext",
        "http://a:80b/plaintext",
        "http://a:-1/plaintext",
        "http://a:+1/plaintext",
        "http://a:65536/plaintext",
        "http://a:99999999999/plaintext",
        "http://a:80:80/plaintext",
        "http://::1/plaintext",
        "http://[::1/plaintext",
        "http://::1]/plaintext",
        "http://[]/plaintext",
        "http://[a]/plaintext",
        "http://[1.2.3.4]/plaintext",
        "http://[::1]a/plaintext",
        "http://a[::1]/plaintext",
        "http://[::1]80/plaintext",
        "http://[:::1]/plaintext",
        "http://[::1%25eth0]/plaintext",
        "http://a%/plaintext",
        "http://a%2/plaintext",
        "http://a%zz/plaintext",
        "http://a\\b/plaintext",
        "http://a^b/plaintext",
        "http://a\"/plaintext",
        "http://a<b/plaintext",
        "http://a{b/plaintext",
        "http://a|b/plaintext",
        "http://a/plaintext#b",
        "http://a#b",
        "http:/a/plaintext",
        "http:a/plaintext",
        "http:",
        "http",
        "http//a/plaintext",
        "http:\\\\a\\plaintext",
        "://a/plaintext",
        "ftp://a/plaintext",
        "ws://a/plaintext",
        "file:///plaintext",
        "httpx://a/plaintext",
        "htt://a/plaintext",
        "urn:a:b",
        "mailto:a@b",
        "javascript:x",
        " http://a/plaintext",
    ] {
        let name = format!("malformed absolute form: {target}");
        group.malformed("9112 3.2.2", name, with_line(format!("GET {target} HTTP/1.1")));
    }
    for byte in controls().chain(obs_text().step_by(7)) {
        let line = concat(&[b"GET http://a", &[byte], b"b/plaintext HTTP/1.1"]);
        group.malformed("9112 3.2.2", byte_name("in_the_authority", byte), with_line(line));
    }
}

fn add_asterisk_form(group: &mut CaseGroup) {
    let any = AnswerRule::any_of(&[200, 204, 404, 405]);
    group.answer("9112 3.2.4", "options_asterisk", with_line("OPTIONS * HTTP/1.1"), any.clone());
    let last = b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    group.last("9112 3.2.4", "options_asterisk_and_close", last, any.clone());
    let line = with_line("OPTIONS http://a HTTP/1.1");
    group.answer("9112 3.2.4", "options_of_a_server_in_absolute_form", line, any);
    let not_allowed = AnswerRule::not_allowed("GET");
    let line = with_line("OPTIONS /plaintext HTTP/1.1");
    group.answer("9112 3.2.1", "options_of_a_path", line, not_allowed);
    for method in
        ["GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "PATCH", "CONNECT", "FOO", "options"]
    {
        let bytes = with_line(format!("{method} * HTTP/1.1"));
        // A refusal of HEAD has no body either.
        let rule = match method {
            "HEAD" => AnswerRule::status(400).for_head(),
            _ => AnswerRule::status(400),
        };
        group.last("9112 3.2.4", format!("asterisk with {method}"), bytes, rule);
    }
    for target in ["**", "*/", "*?", "*?a", "*a", "*:80", "%2a", "*/plaintext"] {
        let name = format!("no asterisk form: {target}");
        group.malformed("9112 3.2.4", name, with_line(format!("OPTIONS {target} HTTP/1.1")));
    }
}

fn add_authority_form(group: &mut CaseGroup) {
    let refused = AnswerRule::any_of(&[404, 405]);
    for target in [
        "a:80",
        "a:443",
        "a:65535",
        "a.example:1",
        "127.0.0.1:80",
        "[::1]:443",
        "[2001:db8::1]:8443",
        "plaintext:80",
    ] {
        let bytes = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        group.last("9112 3.2.3", format!("connect {target}"), bytes, refused.clone());
    }
    for target in [
        "a",
        "a:",
        ":",
        ":80",
        "a:b",
        "a:80b",
        "a:-1",
        "a:65536",
        "a:80:80",
        "u@a:80",
        "u:p@a:80",
        "a:80/",
        "a:80/x",
        "a:80?x",
        "a:80#x",
        "[::1]",
        "[::1:80",
        "::1:80",
        "[]:80",
        "[::1]80",
        "/",
        "/plaintext",
        "http://a/",
        "http://a:80",
        "https://a/plaintext",
        "//a:80",
        "a%zz:80",
        "a b:80",
        "a\\b:80",
    ] {
        let name = format!("no authority form: {target}");
        group.malformed("9112 3.2.3", name, with_line(format!("CONNECT {target} HTTP/1.1")));
    }
    for method in ["GET", "POST", "OPTIONS", "FOO", "connect"] {
        for target in ["a:80", "127.0.0.1:80", "[::1]:80"] {
            let bytes = with_line(format!("{method} {target} HTTP/1.1"));
            group.malformed("9112 3.2.3", format!("authority form with {method}: {target}"), bytes);
        }
    }
}
