//! `Expect: 100-continue`: an interim answer before the body, or the final one at once (RFC 9110, 10.1.1).

use super::super::case::{AnswerRule, Case, Ending, Expectation, Interim};
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, concat, get, post};

pub(crate) fn h04_expect() -> Vec<Case> {
    let mut group = CaseGroup::new("h04_expect");
    add_continued(&mut group);
    add_not_needed(&mut group);
    add_final_at_once(&mut group);
    add_refused(&mut group);
    add_others(&mut group);
    group.finish()
}

/// Head, body and probe as three pieces, answered with this body after the interim answers of the rule.
fn add_parts(
    group: &mut CaseGroup,
    name: impl AsRef<str>,
    head: Vec<u8>,
    body: &str,
    (echo, interim): (&str, Interim),
) {
    let answers = [AnswerRule::with_body(echo).interim(interim), AnswerRule::hello()];
    let pieces = vec![head, body.as_bytes().to_vec(), PROBE.to_vec()];
    group.custom("9110 10.1.1", name, pieces, [Expectation::new(answers, Ending::Open)]);
}

fn add_continued(group: &mut CaseGroup) {
    let asked = ("hello", Interim::Required);
    for expect in [
        "Expect: 100-continue\r\n",
        "expect: 100-continue\r\n",
        "EXPECT: 100-CONTINUE\r\n",
        "Expect: 100-Continue\r\n",
        "Expect:100-continue\r\n",
        "Expect: \t 100-continue \t\r\n",
    ] {
        let head = post(format!("{expect}Content-Length: 5\r\n"), "");
        add_parts(group, format!("sized body, {expect:?}"), head, "hello", asked);
        let head = post(format!("Transfer-Encoding: chunked\r\n{expect}"), "");
        let chunks = "5\r\nhello\r\n0\r\n\r\n";
        add_parts(group, format!("chunked body, {expect:?}"), head, chunks, asked);
    }
    let head = post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "");
    add_parts(group, "chunked body without data", head, "0\r\n\r\n", ("", Interim::Required));
    let head = post("Expect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n", "");
    let rule = AnswerRule::with_body("hello").interim(Interim::Required);
    let pieces = vec![head, b"hello".to_vec(), PROBE.to_vec()];
    let expectation = Expectation::new([rule], Ending::Announced);
    group.custom("9110 10.1.1", "continued and closed", pieces, [expectation]);

    let head = post("Expect: 100-continue\r\nContent-Length: 5\r\n", "");
    let rules = vec![AnswerRule::with_body("hello").interim(Interim::Required); 3];
    let pieces = vec![
        head.clone(),
        concat(&[b"hello"]),
        head.clone(),
        concat(&[b"hello"]),
        head,
        concat(&[b"hello"]),
    ];
    let expectation = Expectation::new(rules, Ending::Open);
    group.custom("9110 10.1.1", "three times on one connection", pieces, [expectation]);
    let rules = [AnswerRule::hello(), AnswerRule::with_body("hello").interim(Interim::Required)];
    let head = concat(&[&get(""), &post("Expect: 100-continue\r\nContent-Length: 5\r\n", "")]);
    let expectation = Expectation::new(rules, Ending::Open);
    let pieces = vec![head, b"hello".to_vec()];
    group.custom("9110 10.1.1", "behind a pipelined get", pieces, [expectation]);
}

/// No interim answer is needed when the body, or a part of it, came with the head; in single bytes it did not.
fn add_not_needed(group: &mut CaseGroup) {
    let rule = AnswerRule::with_body("hello").interim(Interim::Optional);
    let bytes = post("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello");
    group.answer("9110 10.1.1", "whole body in the first piece", bytes, rule.clone());
    let bytes =
        post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n");
    group.answer("9110 10.1.1", "whole chunked body in the first piece", bytes, rule);
    let head = post("Expect: 100-continue\r\nContent-Length: 5\r\n", "he");
    add_parts(
        group,
        "part of the body in the first piece",
        head,
        "llo",
        ("hello", Interim::Optional),
    );
    for (name, fields) in [
        ("length_of_zero", "Expect: 100-continue\r\nContent-Length: 0\r\n"),
        ("no_length", "Expect: 100-continue\r\n"),
    ] {
        group.echo("9110 10.1.1", format!("no body by {name}"), post(fields, ""), "");
    }
    group.accept("9110 10.1.1", "get without a body", get("Expect: 100-continue\r\n"));
}

/// A service that does not read the body answers at once. The client may or may not send the body then, so the
/// server may close.
fn add_final_at_once(group: &mut CaseGroup) {
    for (start, rule) in [
        ("POST /nothing", AnswerRule::status(404)),
        ("POST /plaintext", AnswerRule::not_allowed("GET")),
        ("PUT /echo", AnswerRule::not_allowed("POST")),
        ("GET /plaintext", AnswerRule::hello()),
        ("HEAD /plaintext", AnswerRule::hello_to_head()),
    ] {
        for framing in
            ["Content-Length: 5", "Content-Length: 1000000", "Transfer-Encoding: chunked"]
        {
            let head =
                format!("{start} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n");
            let expectation = Expectation::new([rule.clone()], Ending::Any);
            let name = format!("final at once: {start}, {framing}");
            group.custom("9110 10.1.1", name, vec![head.into_bytes()], [expectation]);
        }
    }
}

fn add_refused(group: &mut CaseGroup) {
    for (name, statuses, fields) in [
        ("too_large", &[413][..], "Content-Length: 8388609\r\n"),
        ("far_too_large", &[413], "Content-Length: 18446744073709551615\r\n"),
        ("malformed_length", &[400], "Content-Length: x\r\n"),
        ("length_and_coding", &[400], "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        ("unknown_coding", &[501], "Transfer-Encoding: gzip, chunked\r\n"),
        ("second_host", &[400], "Content-Length: 5\r\nHost: b\r\n"),
        ("malformed_field", &[400], "Content-Length: 5\r\nX\r\n"),
    ] {
        let bytes = post(format!("Expect: 100-continue\r\n{fields}"), "");
        group.refuse("9110 10.1.1", format!("refused without interim: {name}"), statuses, bytes);
    }
    let bytes =
        "POST /echo HTTP/3.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    group.refuse("9110 10.1.1", "refused without interim: version", &[505], bytes);
    let head = post("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "");
    let rule = AnswerRule::status(400).interim(Interim::Required);
    let pieces = vec![head, b"x\r\n".to_vec(), PROBE.to_vec()];
    let expectation = Expectation::new([rule], Ending::Announced);
    group.custom("9110 10.1.1", "continued and then a malformed chunk", pieces, [expectation]);
}

/// HTTP/1.0 knows no interim answers; other expectations are ignored.
fn add_others(group: &mut CaseGroup) {
    let none = ("hello", Interim::Never);
    for expect in [
        "Expect: foo\r\n",
        "Expect:\r\n",
        "Expect: 100\r\n",
        "Expect: 100-continued\r\n",
        "Expect: x100-continue\r\n",
        "Expect: 100-continue=1\r\n",
        "Expect: 200-ok\r\n",
        "Expect: \"100-continue\"\r\n",
        "X-Expect: 100-continue\r\n",
        "Expected: 100-continue\r\n",
    ] {
        let head = post(format!("{expect}Content-Length: 5\r\n"), "");
        add_parts(group, format!("ignored {expect:?}"), head, "hello", none);
        group.accept("9110 10.1.1", format!("ignored on a get {expect:?}"), get(expect));
    }
    let head = b"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let rule = AnswerRule::with_body("hello").absent("transfer-encoding");
    let pieces = vec![head.to_vec(), b"hello".to_vec(), PROBE.to_vec()];
    let expectation = Expectation::new([rule.clone()], Ending::Closed);
    group.custom("9110 10.1.1", "ignored in HTTP/1.0", pieces, [expectation]);
    let head = b"POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let pieces = vec![head.to_vec(), b"hello".to_vec(), PROBE.to_vec()];
    let expectation = Expectation::new([rule, AnswerRule::hello()], Ending::Open);
    group.custom("9110 10.1.1", "ignored in HTTP/1.0 that stays", pieces, [expectation]);
}
