//! Methods: known and unknown ones, and the answers to HEAD (RFC 9110, 9; RFC 9112, 3.1).

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, byte_name, concat, is_token_byte, visible, with_line};

pub(crate) fn h04_methods() -> Vec<Case> {
    let mut group = CaseGroup::new("h04_methods");
    add_known_methods(&mut group);
    add_tokens(&mut group);
    add_head(&mut group);
    group.finish()
}

fn add_known_methods(group: &mut CaseGroup) {
    for method in
        ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "PURGE", "QUERY"]
    {
        let bytes = with_line(format!("{method} /plaintext HTTP/1.1"));
        let rule = AnswerRule::not_allowed("GET");
        group.answer("9110 15.5.6", format!("{method} on /plaintext"), bytes, rule);
    }
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "QUERY"] {
        let bytes = with_line(format!("{method} /echo HTTP/1.1"));
        let rule = AnswerRule::not_allowed("POST");
        group.answer("9110 15.5.6", format!("{method} on /echo"), bytes, rule);
    }
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "FOO"] {
        let bytes = with_line(format!("{method} /nothing HTTP/1.1"));
        let rule = AnswerRule::status(404);
        group.answer("9110 15.5.5", format!("{method} on an unknown path"), bytes, rule);
    }
    group.accept("9110 9.3.1", "GET on /plaintext", with_line("GET /plaintext HTTP/1.1"));
    let not_allowed = AnswerRule::not_allowed("HEAD");
    let bytes = with_line("PUT /plaintext HTTP/1.1");
    group.answer("9110 10.2.1", "Allow names HEAD where GET is", bytes, not_allowed);
}

/// A method is any token, and its letters' case matters.
fn add_tokens(group: &mut CaseGroup) {
    for method in ["get", "Get", "gET", "GETT", "GE", "G", "X-GET", "GET1", "1", "HTTP"] {
        let bytes = with_line(format!("{method} /plaintext HTTP/1.1"));
        let rule = AnswerRule::not_allowed("GET");
        group.answer("9110 9.1", format!("unknown method {method}"), bytes, rule);
    }
    for length in [20, 100, 1000] {
        let bytes = with_line(format!("{} /plaintext HTTP/1.1", "M".repeat(length)));
        let rule = AnswerRule::not_allowed("GET");
        group.answer("9110 9.1", format!("method_of_{length}_bytes"), bytes, rule);
    }
    for byte in visible().filter(|byte| is_token_byte(*byte)) {
        let bytes = with_line(concat(&[&[byte], b" /plaintext HTTP/1.1"]));
        let rule = AnswerRule::not_allowed("GET");
        group.answer("9110 9.1", byte_name("method_of_byte", byte), bytes, rule);
    }
    for byte in (0..=255).filter(|byte| !is_token_byte(*byte)) {
        let line = concat(&[b"G", &[byte], b"ET /plaintext HTTP/1.1"]);
        group.malformed("9112 3.1", byte_name("inside_a_method", byte), with_line(line));
        let line = concat(&[b"GET", &[byte], b" /plaintext HTTP/1.1"]);
        group.malformed("9112 3.1", byte_name("behind_a_method", byte), with_line(line));
    }
}

fn add_head(group: &mut CaseGroup) {
    let hello = AnswerRule::hello_to_head();
    group.answer("9110 9.3.2", "head", with_line("HEAD /plaintext HTTP/1.1"), hello.clone());
    let bytes = with_line("HEAD /plaintext?a=b HTTP/1.1");
    group.answer("9110 9.3.2", "head_with_a_query", bytes, hello.clone());
    let bytes = with_line("HEAD http://a/plaintext HTTP/1.1");
    group.answer("9110 9.3.2", "head_in_absolute_form", bytes, hello.clone());
    let bytes = with_line("HEAD /nothing HTTP/1.1");
    group.answer(
        "9110 9.3.2",
        "head_of_an_unknown_path",
        bytes,
        AnswerRule::status(404).for_head(),
    );
    let bytes = with_line("HEAD /echo HTTP/1.1");
    let rule = AnswerRule::not_allowed("POST").for_head();
    group.answer("9110 9.3.2", "head_of_a_path_without_get", bytes, rule);
    let bytes = "HEAD /plaintext HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    group.last("9110 9.3.2", "head_and_close", bytes, hello.clone());
    let bytes = "HEAD /plaintext HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    group.answer("9110 9.3.2", "head_with_a_body", bytes, hello.clone());
    let bytes =
        "HEAD /plaintext HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    group.answer("9110 9.3.2", "head_with_an_empty_chunked_body", bytes, hello.clone());
    let expectation = Expectation::new([hello], Ending::Closed);
    let pieces = vec![b"HEAD /plaintext HTTP/1.0\r\n\r\n".to_vec(), PROBE.to_vec()];
    group.custom("9110 9.3.2", "head_by_http_1_0", pieces, [expectation]);
    let bytes = with_line("head /plaintext HTTP/1.1");
    let rule = AnswerRule::not_allowed("GET");
    group.answer("9110 9.1", "head_in_lower_case_is_another_method", bytes, rule);
    let bytes = "HEAD /plaintext HTTP/1.1\r\n\r\n";
    group.last("9112 3.2", "head_without_host", bytes, AnswerRule::status(400).for_head());
}
