//! Limits, each with its own answer, after which the connection is closed.
//!
//! What exactly counts towards the size of a head (line ends, the empty line) differs between servers by a few bytes:
//! a head of the limit in all is accepted, and one is refused whose lines exceed it without their ends.

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{GET, chunk, concat, get, pattern, post, post_chunked, with_line};

/// Bytes of a head, and of the trailers: request line and field lines.
const HEAD_BYTES: usize = 16 * 1024;

/// Field lines of a head, and of the trailers.
const FIELD_LINES: usize = 128;

/// Bytes of a body.
const BODY_BYTES: usize = 8 * 1024 * 1024;

/// Bytes of all chunk extensions of a body.
const EXTENSION_BYTES: usize = 16 * 1024;

pub(crate) fn h02_limits() -> Vec<Case> {
    let mut group = CaseGroup::new("h02_limits");
    add_request_lines(&mut group);
    add_head_bytes(&mut group);
    add_field_lines(&mut group);
    add_sized_bodies(&mut group);
    add_chunked_bodies(&mut group);
    add_extensions(&mut group);
    add_trailers(&mut group);
    group.finish()
}

fn add_request_lines(group: &mut CaseGroup) {
    let letters = |length| "a".repeat(length);
    for length in [100, 1000, 8000, 16_000] {
        let bytes = with_line(format!("GET /{} HTTP/1.1", letters(length)));
        group.answer("9112 3", format!("path_of_{length}"), bytes, AnswerRule::status(404));
        let bytes = with_line(format!("GET /plaintext?{} HTTP/1.1", letters(length)));
        group.accept("9112 3", format!("query_of_{length}"), bytes);
    }
    for length in [HEAD_BYTES, HEAD_BYTES + 1, 20_000, 40_000, 100_000] {
        for (name, line) in [
            ("path", format!("GET /{} HTTP/1.1", letters(length))),
            ("query", format!("GET /plaintext?{} HTTP/1.1", letters(length))),
            ("absolute_form", format!("GET http://a/{} HTTP/1.1", letters(length))),
            ("method", format!("{} /plaintext HTTP/1.1", letters(length))),
        ] {
            let name = format!("too long: {name}_of_{length}");
            group.refuse("9110 15.5.15", name, &[414], with_line(line));
        }
        let name = format!("too long: line_of_{length}_without_its_end");
        group.refuse("9110 15.5.15", name, &[414], format!("GET /{}", letters(length)));
    }
    let bytes = concat(&[b"\r\n\r\n", &*with_line(format!("GET /{} HTTP/1.1", letters(20_000)))]);
    group.refuse("9110 15.5.15", "too long: behind empty lines", &[414], bytes);
}

/// A request for the greeting whose head has `length` bytes in all, its end included.
fn head_of(length: usize) -> Vec<u8> {
    let rest = length - GET.len() - "X: \r\n\r\n".len();
    get(format!("X: {}\r\n", "a".repeat(rest)))
}

fn add_head_bytes(group: &mut CaseGroup) {
    for length in [1000, 8192, 16_000, HEAD_BYTES - 1, HEAD_BYTES] {
        group.accept("6585 5", format!("head_of_{length}"), head_of(length));
    }
    // Three lines, and the empty one, have eight bytes of line ends.
    for length in [HEAD_BYTES + 9, HEAD_BYTES + 100, 20_000, 40_000, 100_000] {
        group.refuse("6585 5", format!("head_of_{length}"), &[431], head_of(length));
    }
    let value = "a".repeat(20_000);
    for (name, rest) in [
        ("value_without_its_end", format!("X: {value}")),
        ("name_without_its_end", value.clone()),
        ("name", format!("{value}: a\r\n\r\n")),
        ("white_space_before_a_value", format!("X: {}a\r\n\r\n", " ".repeat(20_000))),
        ("white_space_behind_a_value", format!("X: a{}\r\n\r\n", " ".repeat(20_000))),
        ("cookie", format!("Cookie: a={value}\r\n\r\n")),
        ("a_hundred_long_fields", format!("X: {}\r\n", "a".repeat(500)).repeat(100)),
        ("last_of_several", format!("X: a\r\nY: b\r\nZ: {value}\r\n\r\n")),
        ("two_of_10_000", format!("X: {0}\r\nX: {0}\r\n\r\n", &value[..10_000])),
    ] {
        let bytes = concat(&[GET, rest.as_bytes()]);
        group.refuse("6585 5", format!("too large: {name}"), &[431], bytes);
    }
    let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\nX: ", &value[..10_000]);
    let bytes = format!("{line}{}\r\n\r\n", &value[..10_000]);
    group.refuse("6585 5", "too large: line and fields together", &[431], bytes);
    let rules = [AnswerRule::hello(), AnswerRule::hello()];
    let expectation = Expectation::new(rules, Ending::Open);
    let pieces = vec![head_of(HEAD_BYTES).repeat(2)];
    group.custom("6585 5", "the_limit_is_for_each_head", pieces, [expectation]);
}

fn add_field_lines(group: &mut CaseGroup) {
    // Host is one of the lines.
    let lines =
        |count: usize| -> String { (1..count).map(|line| format!("X{line}: a\r\n")).collect() };
    for count in [1, 2, 50, 100, FIELD_LINES - 1, FIELD_LINES] {
        group.accept("6585 5", format!("{count}_field_lines"), get(lines(count)));
        let same = "X: a\r\n".repeat(count - 1);
        group.accept("6585 5", format!("{count}_lines_of_one_name"), get(same));
    }
    for count in [FIELD_LINES + 1, FIELD_LINES + 2, 200, 1000] {
        group.refuse("6585 5", format!("{count}_field_lines"), &[431], get(lines(count)));
        let same = "X: a\r\n".repeat(count - 1);
        group.refuse("6585 5", format!("{count}_lines_of_one_name"), &[431], get(same));
        let empty = "X:\r\n".repeat(count - 1);
        group.refuse("6585 5", format!("{count}_lines_without_a_value"), &[431], get(empty));
    }
}

fn add_sized_bodies(group: &mut CaseGroup) {
    let body = pattern(BODY_BYTES);
    let bytes = post(format!("Content-Length: {BODY_BYTES}\r\n"), &body);
    group.echo("9110 15.5.14", "sized_body_of_the_limit", bytes, &body);
    for length in [
        "8388609",
        "8388610",
        "10000000",
        "4294967295",
        "4294967296",
        "4294967301",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "0018446744073709551615",
    ] {
        let bytes = post(format!("Content-Length: {length}\r\n"), "");
        group.refuse("9110 15.5.14", format!("length {length}, not sent"), &[413], bytes);
    }
    let bytes = post("Content-Length: 8388609\r\n", concat(&[&body, b"!"]));
    group.refuse("9110 15.5.14", "length 8388609, sent", &[413], bytes);
}

fn add_chunked_bodies(group: &mut CaseGroup) {
    let body = pattern(BODY_BYTES);
    let bytes = post_chunked(concat(&[&chunk(&body), b"0\r\n\r\n"]));
    group.echo("9110 15.5.14", "one_chunk_of_the_limit", bytes, &body);
    let chunks: Vec<u8> = body.chunks(100_000).flat_map(chunk).collect();
    let bytes = post_chunked(concat(&[&chunks, b"0\r\n\r\n"]));
    group.echo("9110 15.5.14", "chunks_up_to_the_limit", bytes, &body);
    let bytes = post_chunked(concat(&[&chunks, b"1\r\n!\r\n0\r\n\r\n"]));
    group.refuse("9110 15.5.14", "chunks_beyond_the_limit", &[413], bytes);
    let large = concat(&[&body, b"!"]);
    let bytes = post_chunked(concat(&[&chunk(&large), b"0\r\n\r\n"]));
    group.refuse("9110 15.5.14", "one_chunk_beyond_the_limit", &[413], bytes);
    // Sizes that are valid, and more than anybody sends: refused by the size or by the data.
    for size in [
        "800001",
        "ffffffff",
        "100000005",
        "7fffffffffffffff",
        "FFFFFFFFFFFFFFFF",
        "00FFFFFFFFFFFFFFFF",
    ] {
        let bytes = post_chunked(concat(&[size.as_bytes(), b"\r\n", &large]));
        group.refuse("9110 15.5.14", format!("chunk size {size}"), &[413], bytes);
    }
    let bytes = post_chunked(concat(&[b"1\r\n!\r\nFFFFFFFFFFFFFFFF\r\n", &large]));
    group.refuse("9110 15.5.14", "sum_of_sizes_overflows", &[413], bytes);
}

fn add_extensions(group: &mut CaseGroup) {
    let letters = |length| "a".repeat(length);
    for length in [100, 1000, 8000, 16_000] {
        let bytes = post_chunked(format!("5;{}\r\nhello\r\n0\r\n\r\n", letters(length)));
        group.echo("9112 7.1.1", format!("extension_of_{length}"), bytes, "hello");
        let bytes = post_chunked(format!("5;a=\"{}\"\r\nhello\r\n0\r\n\r\n", letters(length)));
        group.echo("9112 7.1.1", format!("quoted_extension_of_{length}"), bytes, "hello");
        let half = letters(length / 2);
        let bytes = post_chunked(format!("5;{half}\r\nhello\r\n0;{half}\r\n\r\n"));
        group.echo("9112 7.1.1", format!("two_extensions_of_{length}_in_all"), bytes, "hello");
    }
    for length in [EXTENSION_BYTES + 8, 20_000, 100_000] {
        let bytes = post_chunked(format!("5;{}\r\nhello\r\n0\r\n\r\n", letters(length)));
        group.refuse("9112 7.1.1", format!("extension_of_{length}"), &[431], bytes);
        let bytes = post_chunked(format!("5;a=\"{}\"\r\nhello\r\n0\r\n\r\n", letters(length)));
        group.refuse("9112 7.1.1", format!("quoted_extension_of_{length}"), &[431], bytes);
        let bytes = post_chunked(format!("5;{}", letters(length)));
        group.refuse("9112 7.1.1", format!("extension_of_{length}_without_its_end"), &[431], bytes);
        let bytes = post_chunked(format!("5\r\nhello\r\n0;{}\r\n\r\n", letters(length)));
        group.refuse("9112 7.1.1", format!("last_chunks_extension_of_{length}"), &[431], bytes);
        let half = letters(length / 2);
        let bytes = post_chunked(format!("5;{half}\r\nhello\r\n0;{half}\r\n\r\n"));
        group.refuse("9112 7.1.1", format!("two_extensions_of_{length}_in_all"), &[431], bytes);
    }
    let chunks = "1;a=bbbbbbbbbb\r\nx\r\n".repeat(2000);
    let bytes = post_chunked(format!("{chunks}0\r\n\r\n"));
    group.refuse("9112 7.1.1", "many_short_extensions", &[431], bytes);
    let chunks = "1;a=bbbbbbbbbb\r\nx\r\n".repeat(1000);
    let bytes = post_chunked(format!("{chunks}0\r\n\r\n"));
    group.echo("9112 7.1.1", "some_short_extensions", bytes, "x".repeat(1000));
}

fn add_trailers(group: &mut CaseGroup) {
    let with_trailers = |trailers: &str| post_chunked(format!("5\r\nhello\r\n0\r\n{trailers}\r\n"));
    for count in [1, 50, FIELD_LINES - 1, FIELD_LINES] {
        let bytes = with_trailers(&"X: a\r\n".repeat(count));
        group.echo("9112 7.1.2", format!("{count}_trailers"), bytes, "hello");
    }
    for count in [FIELD_LINES + 1, 200, 1000] {
        let bytes = with_trailers(&"X: a\r\n".repeat(count));
        group.refuse("9112 7.1.2", format!("{count}_trailers"), &[431], bytes);
        // Fields that mean nothing in trailers count as lines like others.
        let bytes = with_trailers(&"Content-Length: 5\r\n".repeat(count));
        group.refuse("9112 7.1.2", format!("{count}_ignored_trailers"), &[431], bytes);
    }
    for length in [1000, 8000, 16_000] {
        let bytes = with_trailers(&format!("X: {}\r\n", "a".repeat(length)));
        group.echo("9112 7.1.2", format!("trailer_of_{length}"), bytes, "hello");
    }
    for length in [HEAD_BYTES + 8, 20_000, 100_000] {
        let bytes = with_trailers(&format!("X: {}\r\n", "a".repeat(length)));
        group.refuse("9112 7.1.2", format!("trailer_of_{length}"), &[431], bytes);
        let bytes = with_trailers(&format!("{}: a\r\n", "x".repeat(length)));
        group.refuse("9112 7.1.2", format!("trailer_name_of_{length}"), &[431], bytes);
        let bytes = post_chunked(format!("0\r\nX: {}", "a".repeat(length)));
        group.refuse("9112 7.1.2", format!("trailer_of_{length}_without_its_end"), &[431], bytes);
        let half = "a".repeat(length / 2);
        let bytes = with_trailers(&format!("X: {half}\r\nY: {half}\r\n"));
        group.refuse("9112 7.1.2", format!("two_trailers_of_{length}_in_all"), &[431], bytes);
    }
}
