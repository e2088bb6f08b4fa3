//! Bodies and services: every byte comes through, and a body that is not read is skipped (RFC 9112, 6.3 and 9.3).

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, chunk, concat, get, pattern, post, post_chunked, post_sized};

/// Bytes of a body that are skipped so that the connection goes on.
const SKIPPED: usize = 64 * 1024;

/// A body too large to be skipped.
const NOT_SKIPPED: usize = 1024 * 1024;

pub(crate) fn h04_bodies() -> Vec<Case> {
    let mut group = CaseGroup::new("h04_bodies");
    add_echoes(&mut group);
    add_lookalikes(&mut group);
    add_skipped(&mut group);
    add_not_skipped(&mut group);
    group.finish()
}

fn add_echoes(group: &mut CaseGroup) {
    for length in
        [0, 1, 2, 13, 100, 1023, 1024, 4096, 16_384, 65_535, 65_536, 65_537, 300_000, 1 << 20]
    {
        let body = pattern(length);
        group.echo("9112 6.2", format!("sized_body_of_{length}"), post_sized(&body), &body);
    }
    for length in [300_000, 1 << 20] {
        let body = pattern(length);
        let chunks: Vec<u8> = body.chunks(10_007).flat_map(chunk).collect();
        let bytes = post_chunked(concat(&[&chunks, b"0\r\n\r\n"]));
        group.echo("9112 7.1", format!("chunked_body_of_{length}"), bytes, &body);
    }
    for byte in 0..=255u8 {
        let body = [byte];
        group.echo("9112 6.2", format!("body_of_the_byte_0x{byte:02x}"), post_sized(body), body);
    }
    let all: Vec<u8> = (0..=255).collect();
    group.echo("9112 6.2", "body_of_all_bytes", post_sized(&all), &all);
    for kind in ["text/plain", "application/octet-stream", "application/x-www-form-urlencoded", "x"]
    {
        let bytes = post(format!("Content-Type: {kind}\r\nContent-Length: 3\r\n"), "a=b");
        group.echo("9110 8.3", format!("content_type {kind}"), bytes, "a=b");
    }
    let bytes = post("Content-Encoding: gzip\r\nContent-Length: 3\r\n", "abc");
    group.echo("9110 8.4", "content_coding_is_left_as_it_is", bytes, "abc");
}

/// Bodies that look like parts of a message are still bodies.
fn add_lookalikes(group: &mut CaseGroup) {
    for body in [
        "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Connection: close\r\n\r\n",
    ] {
        group.echo("9112 6.3", format!("sized body {body:?}"), post_sized(body), body);
        let bytes = post_chunked(concat(&[&chunk(body), b"0\r\n\r\n"]));
        group.echo("9112 6.3", format!("chunked body {body:?}"), bytes, body);
    }
}

fn add_skipped(group: &mut CaseGroup) {
    for length in [0, 1, 5, 1000, 16_384, SKIPPED - 1, SKIPPED] {
        for (start, rule) in [
            ("GET /plaintext", AnswerRule::hello()),
            ("HEAD /plaintext", AnswerRule::hello_to_head()),
            ("POST /plaintext", AnswerRule::not_allowed("GET")),
            ("PUT /echo", AnswerRule::not_allowed("POST")),
            ("DELETE /nothing", AnswerRule::status(404)),
            ("POST /nothing", AnswerRule::status(404)),
            ("FOO /nothing", AnswerRule::status(404)),
        ] {
            let head = format!("{start} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            let bytes = concat(&[head.as_bytes(), &pattern(length)]);
            group.answer("9112 9.3", format!("skipped body of {length}: {start}"), bytes, rule);
        }
    }
    for (start, rule) in [
        ("GET /plaintext", AnswerRule::hello()),
        ("POST /plaintext", AnswerRule::not_allowed("GET")),
        ("POST /nothing", AnswerRule::status(404)),
    ] {
        let head = format!("{start} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (name, chunks) in [
            ("no_data", "0\r\n\r\n"),
            ("one_chunk", "5\r\nhello\r\n0\r\n\r\n"),
            ("chunks_and_trailers", "5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n"),
            ("a_request_inside", "24\r\nGET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n"),
        ] {
            let name = format!("skipped chunks: {start} with {name}");
            group.answer(
                "9112 9.3",
                name,
                concat(&[head.as_bytes(), chunks.as_bytes()]),
                rule.clone(),
            );
        }
        let chunks: Vec<u8> = pattern(30_000).chunks(1000).flat_map(chunk).collect();
        let bytes = concat(&[head.as_bytes(), &chunks, b"0\r\n\r\n"]);
        let name = format!("skipped chunks: {start} with 30_000 bytes");
        group.answer("9112 9.3", name, bytes, rule.clone());
    }
    let bytes = get("Content-Length: 50\r\nConnection: close\r\n");
    group.last("9112 9.3", "unread_body_and_close", bytes, AnswerRule::hello());
}

fn add_not_skipped(group: &mut CaseGroup) {
    let large = pattern(NOT_SKIPPED);
    for (start, rule) in [
        ("GET /plaintext", AnswerRule::hello()),
        ("POST /plaintext", AnswerRule::not_allowed("GET")),
        ("POST /nothing", AnswerRule::status(404)),
    ] {
        let head = format!("{start} HTTP/1.1\r\nHost: a\r\nContent-Length: {NOT_SKIPPED}\r\n\r\n");
        group.last(
            "9112 9.3",
            format!("too much to skip: {start}, not sent"),
            head.clone(),
            rule.clone(),
        );
        let bytes = concat(&[head.as_bytes(), &large]);
        group.last("9112 9.3", format!("too much to skip: {start}, sent"), bytes, rule.clone());
        // The answer to chunks may be on its way when their sum turns out to be too much.
        let head = format!("{start} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunks: Vec<u8> = large.chunks(1000).flat_map(chunk).collect();
        let bytes = concat(&[head.as_bytes(), &chunks, b"0\r\n\r\n"]);
        let expectation = Expectation::new([rule], Ending::Closed);
        let name = format!("too much to skip in chunks: {start}");
        group.custom("9112 9.3", name, vec![bytes, PROBE.to_vec()], [expectation]);
    }
}
