//! Trailer fields behind the last chunk (RFC 9112, 7.1.2; RFC 9110, 6.5).

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{
    byte_name, concat, controls_but_tab, is_token_byte, obs_text, post, post_chunked, visible,
};

pub(crate) fn h03_trailers() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_trailers");
    add_valid(&mut group);
    add_ignored(&mut group);
    add_malformed(&mut group);
    add_bytes(&mut group);
    group.finish()
}

/// A chunked `hello` with these trailer lines, each with its own line end.
fn hello_with(trailers: impl AsRef<[u8]>) -> Vec<u8> {
    post_chunked(concat(&[b"5\r\nhello\r\n0\r\n", trailers.as_ref(), b"\r\n"]))
}

fn add_valid(group: &mut CaseGroup) {
    for (name, trailers) in [
        ("none", ""),
        ("one", "X: a\r\n"),
        ("two", "X: a\r\nY: b\r\n"),
        ("repeated", "X: a\r\nX: a\r\n"),
        ("empty_value", "X:\r\n"),
        ("white_space_around", "X: \t a \t \r\n"),
        ("colons_in_the_value", "X: a:b\r\n"),
        ("quotes_in_the_value", "X: \"a\r\n"),
        ("digest", "Content-Digest: sha-256=:AAAA:\r\n"),
        ("server_timing", "Server-Timing: a;dur=1\r\n"),
        ("long_value", &format!("X: {}\r\n", "a".repeat(8000))),
        ("long_name", &format!("{}: a\r\n", "x".repeat(8000))),
    ] {
        group.echo("9112 7.1.2", format!("valid {name}"), hello_with(trailers), "hello");
    }
    let fields = "Trailer: X, Y\r\nTransfer-Encoding: chunked\r\n";
    let bytes = post(fields, "5\r\nhello\r\n0\r\nX: a\r\nY: b\r\n\r\n");
    group.echo("9110 6.6.2", "announced", bytes, "hello");
    let bytes = post(fields, "5\r\nhello\r\n0\r\nZ: a\r\n\r\n");
    group.echo("9110 6.6.2", "announced_and_others_sent", bytes, "hello");
    let bytes = post(fields, "5\r\nhello\r\n0\r\n\r\n");
    group.echo("9110 6.6.2", "announced_and_none_sent", bytes, "hello");
    group.echo("9112 7.1.2", "behind_an_empty_body", post_chunked("0\r\nX: a\r\n\r\n"), "");
}

/// Fields that frame, route or control a message mean nothing in trailers (RFC 9110, 6.5.1).
fn add_ignored(group: &mut CaseGroup) {
    for trailer in [
        "Content-Length: 0",
        "Content-Length: 5",
        "Content-Length: 100",
        "content-length: 100",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "transfer-encoding: chunked",
        "Host: b",
        "Host: a",
        "Expect: 100-continue",
        "TE: trailers",
        "Trailer: X",
        "Content-Encoding: gzip",
        "Content-Type: text/plain",
        "Content-Range: bytes 0-1/2",
        "Authorization: Basic YTpi",
        "Cookie: a=b",
        "Upgrade: websocket",
        "Max-Forwards: 0",
        "Range: bytes=0-1",
        "If-None-Match: *",
    ] {
        let name = format!("ignored {trailer}");
        group.echo("9110 6.5.1", name, hello_with(format!("{trailer}\r\n")), "hello");
    }
    for (name, trailers) in [
        ("two_hosts", "Host: a\r\nHost: b\r\n"),
        ("two_lengths", "Content-Length: 1\r\nContent-Length: 2\r\n"),
        ("length_and_coding", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
        ("length_of_the_next_request", "Content-Length: 49\r\nX: y\r\n"),
        ("connection_keep_alive", "Connection: keep-alive\r\n"),
        ("connection_close", "Connection: close\r\n"),
    ] {
        group.echo("9110 6.5.1", format!("ignored {name}"), hello_with(trailers), "hello");
    }
}

fn add_malformed(group: &mut CaseGroup) {
    for (name, trailers) in [
        ("no_colon", "X\r\n"),
        ("no_colon_but_a_value", "X a\r\n"),
        ("empty_name", ": a\r\n"),
        ("colon_alone", ":\r\n"),
        ("space_before_the_colon", "X : a\r\n"),
        ("tab_before_the_colon", "X\t: a\r\n"),
        ("space_before_the_name", " X: a\r\n"),
        ("tab_before_the_name", "\tX: a\r\n"),
        ("line_of_a_space", " \r\n"),
        ("folded_by_a_space", "X: a\r\n b\r\n"),
        ("folded_by_a_tab", "X: a\r\n\tb\r\n"),
        ("folded_to_an_empty_line", "X: a\r\n \r\n"),
        ("space_in_the_name", "X Y: a\r\n"),
        ("quoted_name", "\"X\": a\r\n"),
        ("name_in_utf_8", "Grün: a\r\n"),
        ("ended_by_lf", "X: a\n"),
        ("first_ended_by_lf", "X: a\nY: b\r\n"),
        ("first_ended_by_cr", "X: a\rY: b\r\n"),
        ("ended_by_cr_cr_lf", "X: a\r\r\n"),
        ("second_malformed", "X: a\r\nY\r\n"),
        ("ignored_field_with_a_space_before_the_colon", "Content-Length : 5\r\n"),
        ("request_line", "GET /plaintext HTTP/1.1\r\nHost: a\r\n"),
        ("chunk", "5\r\nhello\r\n"),
    ] {
        group.malformed("9112 7.1.2", format!("malformed {name}"), hello_with(trailers));
    }
    for (name, chunks) in [
        ("end_by_lf", "5\r\nhello\r\n0\r\nX: a\r\n\n"),
        ("end_by_two_lf", "5\r\nhello\r\n0\r\nX: a\n\n"),
        ("end_by_cr", "5\r\nhello\r\n0\r\nX: a\r\n\rX"),
        ("end_without_trailers_by_lf", "5\r\nhello\r\n0\r\n\n"),
        ("end_missing", "5\r\nhello\r\n0\r\nX: a\r\n"),
    ] {
        group.malformed("9112 7.1.2", format!("malformed {name}"), post_chunked(chunks));
    }
}

fn add_bytes(group: &mut CaseGroup) {
    for byte in (0..=255).filter(|byte| !is_token_byte(*byte) && *byte != b':') {
        let trailer = concat(&[b"X", &[byte], b"Y: a\r\n"]);
        group.malformed("9110 5.6.2", byte_name("inside_a_name", byte), hello_with(trailer));
    }
    for byte in controls_but_tab() {
        let trailer = concat(&[b"X: a", &[byte], b"b\r\n"]);
        group.malformed("9110 5.5", byte_name("inside_a_value", byte), hello_with(trailer));
        let trailer = concat(&[b"X: a", &[byte], b"\r\n"]);
        group.malformed("9110 5.5", byte_name("behind_a_value", byte), hello_with(trailer));
    }
    for byte in obs_text().chain(visible()) {
        let trailer = concat(&[b"X: a", &[byte], b"b\r\n"]);
        group.echo("9110 5.5", byte_name("inside_a_value", byte), hello_with(trailer), "hello");
    }
}
