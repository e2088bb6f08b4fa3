//! Keep-alive and close: when a connection stays after an answer (RFC 9112, 9.3 and 9.6; RFC 9110, 7.6.1).

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, concat, get, post};

pub(crate) fn h04_keep_alive() -> Vec<Case> {
    let mut group = CaseGroup::new("h04_keep_alive");
    add_close(&mut group);
    add_no_close(&mut group);
    add_close_of_other_answers(&mut group);
    add_http_1_0_closing(&mut group);
    add_http_1_0_staying(&mut group);
    group.finish()
}

fn add_close(group: &mut CaseGroup) {
    for fields in [
        "Connection: close\r\n",
        "connection: close\r\n",
        "CONNECTION: CLOSE\r\n",
        "Connection: Close\r\n",
        "Connection: cLoSe\r\n",
        "Connection:close\r\n",
        "Connection: \t close \t \r\n",
        "Connection: close, foo\r\n",
        "Connection: foo, close\r\n",
        "Connection: foo,close,bar\r\n",
        "Connection: foo\t,\tclose\t,\tbar\r\n",
        "Connection: ,close\r\n",
        "Connection: close,\r\n",
        "Connection: , ,close, ,\r\n",
        "Connection: close, close\r\n",
        "Connection: keep-alive, close\r\n",
        "Connection: close, keep-alive\r\n",
        "Connection: Upgrade, close\r\nUpgrade: foo\r\n",
        "Connection: foo\r\nConnection: close\r\n",
        "Connection: close\r\nConnection: foo\r\n",
        "Connection: close\r\nConnection: keep-alive\r\n",
        "Connection: keep-alive\r\nX: y\r\nConnection: close\r\n",
        "Connection:\r\nConnection: close\r\n",
        "X: y\r\nConnection: close\r\nZ: z\r\n",
        "Connection: close\r\nKeep-Alive: timeout=5\r\n",
    ] {
        group.last("9112 9.6", format!("close by {fields:?}"), get(fields), AnswerRule::hello());
    }
}

fn add_no_close(group: &mut CaseGroup) {
    for fields in [
        "",
        "Connection:\r\n",
        "Connection: ,\r\n",
        "Connection: keep-alive\r\n",
        "Connection: Keep-Alive\r\n",
        "Connection: foo\r\n",
        "Connection: foo, bar\r\n",
        "Connection: closed\r\n",
        "Connection: xclose\r\n",
        "Connection: no-close\r\n",
        "Connection: close-not\r\n",
        "Connection: clos\r\n",
        "Connection: c, lose\r\n",
        "Connection: \"close\"\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n",
        "Upgrade: h2c\r\n",
        "Proxy-Connection: close\r\n",
        "X-Connection: close\r\n",
        "Connections: close\r\n",
        "Keep-Alive: close\r\n",
        "Close: close\r\n",
        "Keep-Alive: timeout=5, max=1\r\n",
        "Connection: Keep-Alive, TE\r\nTE: trailers\r\n",
    ] {
        group.accept("9112 9.3", format!("stays by {fields:?}"), get(fields));
    }
}

fn add_close_of_other_answers(group: &mut CaseGroup) {
    let hello = AnswerRule::hello_to_head();
    for (start, rule) in [
        ("HEAD /plaintext", hello),
        ("POST /plaintext", AnswerRule::not_allowed("GET")),
        ("DELETE /echo", AnswerRule::not_allowed("POST")),
        ("GET /nothing", AnswerRule::status(404)),
        ("FOO /nothing", AnswerRule::status(404)),
        ("HEAD /nothing", AnswerRule::status(404).for_head()),
    ] {
        let bytes = format!("{start} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        group.last("9112 9.6", format!("close after {start}"), bytes, rule.clone());
        let bytes = format!("{start} HTTP/1.1\r\nHost: a\r\n\r\n");
        group.answer("9112 9.3", format!("stays after {start}"), bytes, rule);
    }
    let hello = AnswerRule::with_body("hello");
    let bytes = post("Connection: close\r\nContent-Length: 5\r\n", "hello");
    group.last("9112 9.6", "close after a sized body", bytes, hello.clone());
    let bytes =
        post("Transfer-Encoding: chunked\r\nConnection: close\r\n", "5\r\nhello\r\n0\r\n\r\n");
    group.last("9112 9.6", "close after a chunked body", bytes, hello);
    let bytes = post("Connection: close\r\n", "");
    group.last("9112 9.6", "close after no body", bytes, AnswerRule::with_body(""));
}

/// An answer to HTTP/1.0: no transfer coding, whatever becomes of the connection.
fn to_http_1_0(rule: AnswerRule) -> AnswerRule {
    rule.absent("transfer-encoding")
}

fn add_http_1_0_closing(group: &mut CaseGroup) {
    for fields in [
        "",
        "Host: a\r\n",
        "Connection: close\r\n",
        "Connection: foo\r\n",
        "Connection:\r\n",
        "Connection: keep\r\n",
        "Connection: keep-alived\r\n",
        "Connection: keepalive\r\n",
        "Connection: keep-alive, close\r\n",
        "Connection: close, keep-alive\r\n",
        "Connection: keep-alive\r\nConnection: close\r\n",
        "Keep-Alive: timeout=5\r\n",
        "Proxy-Connection: keep-alive\r\n",
    ] {
        let bytes = format!("GET /plaintext HTTP/1.0\r\n{fields}\r\n").into_bytes();
        let expectation = Expectation::new([to_http_1_0(AnswerRule::hello())], Ending::Closed);
        let name = format!("HTTP/1.0 closes by {fields:?}");
        group.custom("9112 9.3", name, vec![bytes, PROBE.to_vec()], [expectation]);
    }
    for (name, bytes, rule) in [
        ("get_of_an_unknown_path", "GET /nothing HTTP/1.0\r\n\r\n", AnswerRule::status(404)),
        ("wrong_method", "PUT /echo HTTP/1.0\r\n\r\n", AnswerRule::not_allowed("POST")),
        ("post_without_length", "POST /echo HTTP/1.0\r\n\r\n", AnswerRule::with_body("")),
        (
            "post_with_length",
            "POST /echo HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
            AnswerRule::with_body("hello"),
        ),
        ("absolute_form", "GET http://a/plaintext HTTP/1.0\r\n\r\n", AnswerRule::hello()),
        ("a_query", "GET /plaintext?a HTTP/1.0\r\n\r\n", AnswerRule::hello()),
    ] {
        let expectation = Expectation::new([to_http_1_0(rule)], Ending::Closed);
        let pieces = vec![bytes.as_bytes().to_vec(), PROBE.to_vec()];
        group.custom("9112 9.3", format!("HTTP/1.0 {name}"), pieces, [expectation]);
    }
    for (name, bytes) in [
        ("bare_lf", "GET /plaintext HTTP/1.0\nHost: a\r\n\r\n"),
        ("no_colon", "GET /plaintext HTTP/1.0\r\nX\r\n\r\n"),
        ("two_spaces", "GET  /plaintext HTTP/1.0\r\n\r\n"),
    ] {
        group.malformed("9112 2.2", format!("HTTP/1.0 {name}"), bytes);
    }
}

fn add_http_1_0_staying(group: &mut CaseGroup) {
    let kept = |rule| to_http_1_0(rule).has_token("connection", "keep-alive");
    for fields in [
        "Connection: keep-alive\r\n",
        "Connection: Keep-Alive\r\n",
        "connection: KEEP-ALIVE\r\n",
        "Connection: foo, keep-alive\r\n",
        "Connection: keep-alive,\r\n",
        "Connection: foo\r\nConnection: keep-alive\r\n",
        "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n",
        "Host: a\r\nConnection: keep-alive\r\n",
    ] {
        let bytes = format!("GET /plaintext HTTP/1.0\r\n{fields}\r\n");
        let name = format!("HTTP/1.0 stays by {fields:?}");
        group.answer("9112 9.3", name, bytes, kept(AnswerRule::hello()));
    }
    for (start, rest, rule) in [
        ("HEAD /plaintext", "\r\n", AnswerRule::hello_to_head()),
        ("GET /nothing", "\r\n", AnswerRule::status(404)),
        ("PUT /echo", "\r\n", AnswerRule::not_allowed("POST")),
        ("POST /echo", "Content-Length: 2\r\n\r\nhi", AnswerRule::with_body("hi")),
        ("POST /nothing", "Content-Length: 2\r\n\r\nhi", AnswerRule::status(404)),
    ] {
        let bytes = format!("{start} HTTP/1.0\r\nConnection: keep-alive\r\n{rest}");
        group.answer("9112 9.3", format!("HTTP/1.0 stays after {start}"), bytes, kept(rule));
    }
    let one = b"GET /plaintext HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let last = b"GET /plaintext HTTP/1.0\r\n\r\n";
    let pieces = vec![concat(&[one, one]), last.to_vec(), PROBE.to_vec()];
    let answers =
        [kept(AnswerRule::hello()), kept(AnswerRule::hello()), to_http_1_0(AnswerRule::hello())];
    let expectation = Expectation::new(answers, Ending::Closed);
    group.custom("9112 9.3", "HTTP/1.0 stays until a request without it", pieces, [expectation]);
}
