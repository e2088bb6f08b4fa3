//! Combinations by which two readers of one message come to different ends of it (RFC 9112, 6.3, 11.1 and 11.2).
//!
//! Bytes behind such a message are a request in one reading. The server answers once, and never that request.

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{GET, concat, get, post};

/// A request that must not be answered.
const HIDDEN: &str = "GET /plaintext HTTP/1.1\r\nHost: hidden\r\n\r\n";

pub(crate) fn h03_smuggling() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_smuggling");
    add_lengths_with_codings(&mut group);
    add_known_attacks(&mut group);
    add_chunk_tricks(&mut group);
    add_head_tricks(&mut group);
    add_harmless_lookalikes(&mut group);
    group.finish()
}

/// Every length with every coding, in both orders: refused whatever the two say.
fn add_lengths_with_codings(group: &mut CaseGroup) {
    let lengths = ["0", "5", "15", "05", "x", "", "+5", "5, 5", "18446744073709551616"];
    let codings = [
        ("chunked", &[400][..]),
        ("Chunked", &[400]),
        ("chunked, chunked", &[400]),
        ("identity", &[400]),
        ("gzip", &[400]),
        ("", &[400]),
        ("xchunked", &[400]),
        ("\"chunked\"", &[400]),
        ("chunked\u{b}", &[400]),
        // Either rule refuses it: an unknown coding, or the length beside the coding.
        ("gzip, chunked", &[400, 501]),
        ("identity, chunked", &[400, 501]),
    ];
    for length in lengths {
        for (coding, statuses) in codings {
            let length_line = format!("Content-Length: {length}\r\n");
            let coding_line = format!("Transfer-Encoding: {coding}\r\n");
            let body = format!("0\r\n\r\n{HIDDEN}");
            let name = format!("length '{length}' before coding '{coding}'");
            let bytes = post(format!("{length_line}{coding_line}"), &body);
            group.refuse("9112 6.1", name, statuses, bytes);
            let name = format!("length '{length}' behind coding '{coding}'");
            let bytes = post(format!("{coding_line}X: y\r\n{length_line}"), &body);
            group.refuse("9112 6.1", name, statuses, bytes);
        }
    }
}

/// Shapes known from published attacks, by the field the first and the second reader go by.
fn add_known_attacks(group: &mut CaseGroup) {
    for (name, fields, body) in [
        ("cl_te", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nG"),
        (
            "te_cl",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            "5c\r\nGPOST / HTTP/1.1\r\n",
        ),
        ("cl_cl", "Content-Length: 0\r\nContent-Length: 44\r\n", HIDDEN),
        ("te_te_x", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n"),
        ("te_te_cow", "Transfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n", "0\r\n\r\n"),
        ("te_space_colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        ("te_vertical_tab", "Transfer-Encoding:\x0bchunked\r\n", "0\r\n\r\n"),
        ("te_form_feed", "Transfer-Encoding:\x0cchunked\r\n", "0\r\n\r\n"),
        ("te_leading_line", "X: X\r\n\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("te_behind_lf", "X: X\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("te_folded", "Transfer-Encoding\r\n: chunked\r\n", "0\r\n\r\n"),
        ("te_folded_value", "Transfer-Encoding:\r\n\tchunked\r\n", "0\r\n\r\n"),
        ("te_leading_space", " Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("te_nul", "Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n"),
        ("te_nul_in_the_name", "Transfer-Encoding\0: chunked\r\n", "0\r\n\r\n"),
        ("te_nbsp", "Transfer-Encoding:\u{a0}chunked\r\n", "0\r\n\r\n"),
        ("te_quoted", "Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n"),
        ("te_cr_in_the_value", "Transfer-Encoding: chunked\rX\r\n", "0\r\n\r\n"),
        (
            "te_comma_first_and_cl",
            "Transfer-Encoding: ,chunked\r\nContent-Length: 5\r\n",
            "0\r\n\r\n",
        ),
        ("cl_space_colon", "Content-Length : 44\r\n", HIDDEN),
        ("cl_folded", "Content-Length:\r\n 44\r\n", HIDDEN),
        ("cl_leading_space", " Content-Length: 44\r\n", HIDDEN),
        ("cl_plus", "Content-Length: +44\r\n", HIDDEN),
        ("cl_comma", "Content-Length: 0,44\r\n", HIDDEN),
        ("cl_nul", "Content-Length: 44\0\r\n", HIDDEN),
        ("cl_nul_between", "Content-Length: 4\x004\r\n", HIDDEN),
        ("cl_vertical_tab", "Content-Length: 44\x0b\r\n", HIDDEN),
        ("cl_space_between", "Content-Length: 4 4\r\n", HIDDEN),
        ("cl_behind_cr", "X: y\rContent-Length: 44\r\n", HIDDEN),
        ("cl_behind_lf", "X: y\nContent-Length: 44\r\n", HIDDEN),
        ("cl_minus_zero", "Content-Length: -0\r\n", HIDDEN),
        ("cl_hexadecimal", "Content-Length: 0x2c\r\n", HIDDEN),
        ("cl_empty", "Content-Length:\r\n", HIDDEN),
    ] {
        group.malformed("9112 11.2", format!("attack {name}"), post(fields, body));
    }
    for (name, fields) in [
        ("length_of_a_get_twice", "Content-Length: 0\r\nContent-Length: 44\r\n"),
        ("length_and_coding_of_a_get", "Content-Length: 44\r\nTransfer-Encoding: chunked\r\n"),
        ("coding_of_a_get_not_last", "Transfer-Encoding: chunked, identity\r\n"),
    ] {
        let bytes = concat(&[&get(fields), HIDDEN.as_bytes()]);
        group.malformed("9112 11.2", format!("attack {name}"), bytes);
    }
}

fn add_chunk_tricks(group: &mut CaseGroup) {
    let hidden_size = format!("{:x}", HIDDEN.len());
    for (name, chunks) in [
        ("size_cut_at_a_space", format!("0 {hidden_size}\r\n\r\n{HIDDEN}")),
        ("size_cut_at_x", format!("0x{hidden_size}\r\n{HIDDEN}\r\n0\r\n\r\n")),
        ("size_that_wraps_to_zero", format!("10000000000000000\r\n\r\n{HIDDEN}")),
        ("size_that_wraps_to_five", "10000000000000005\r\nhello\r\n0\r\n\r\n".to_owned()),
        ("size_that_wraps_in_32_bits", "1000000000000000005\r\nhello\r\n0\r\n\r\n".to_owned()),
        ("minus_zero", format!("-0\r\n\r\n{HIDDEN}")),
        ("extension_ended_by_lf", format!("0;a\n\r\n{HIDDEN}")),
        ("extension_with_cr", format!("0;a\rb\r\n\r\n{HIDDEN}")),
        ("data_ended_by_any_two_bytes", format!("1\r\naXX0\r\n\r\n{HIDDEN}")),
        ("last_chunk_ended_by_lf", format!("0\n\n{HIDDEN}")),
        ("trailer_with_a_space_before_the_colon", format!("0\r\nX : y\r\n\r\n{HIDDEN}")),
        ("trailer_folded", format!("0\r\nX: y\r\n z\r\n\r\n{HIDDEN}")),
        ("trailer_is_the_next_request", format!("0\r\n{HIDDEN}")),
        ("empty_size", format!("\r\n\r\n{HIDDEN}")),
        ("size_of_semicolon", format!(";\r\n\r\n{HIDDEN}")),
    ] {
        let bytes = post("Transfer-Encoding: chunked\r\n", chunks);
        group.malformed("9112 7.1", format!("chunk trick {name}"), bytes);
    }
}

fn add_head_tricks(group: &mut CaseGroup) {
    for (name, rest) in [
        ("request_behind_lf_lf", format!("X: y\n\n{HIDDEN}")),
        ("request_behind_cr_cr", format!("X: y\r\r{HIDDEN}")),
        ("request_behind_lf_crlf", format!("X: y\n\r\n{HIDDEN}")),
        ("request_behind_crlf_lf", format!("X: y\r\n\n{HIDDEN}")),
        ("request_behind_cr_lf_cr", format!("X: y\r\n\r{HIDDEN}")),
        ("request_in_a_folded_line", format!("X: y\r\n {HIDDEN}")),
        ("request_in_a_colonless_line", HIDDEN.to_owned()),
        ("second_host", format!("Host: b\r\n\r\n{HIDDEN}")),
        ("host_behind_a_bare_cr", "X: y\rHost: b\r\n\r\n".to_owned()),
    ] {
        let bytes = concat(&[GET, rest.as_bytes()]);
        group.malformed("9112 11.1", format!("head trick {name}"), bytes);
    }
    for (name, line) in [
        ("line_with_a_field", "GET /plaintext HTTP/1.1\rContent-Length: 44"),
        ("target_with_a_line_end", "GET /plain\rtext HTTP/1.1"),
        ("target_with_lf_and_a_request", "GET /a\nGET /plaintext HTTP/1.1"),
        ("target_with_a_version", "GET /plaintext HTTP/1.1 /nothing HTTP/1.1"),
        ("target_with_nul", "GET /plaintext\0/nothing HTTP/1.1"),
    ] {
        let bytes = format!("{line}\r\nHost: a\r\n\r\n{HIDDEN}");
        group.malformed("9112 11.1", format!("head trick {name}"), bytes);
    }
}

/// Messages that only look dangerous are served, and their ends are found.
fn add_harmless_lookalikes(group: &mut CaseGroup) {
    let length = HIDDEN.len();
    let bytes = post(format!("Content-Length: {length}\r\n"), HIDDEN);
    group.echo("9112 6.3", "request_inside_of_a_body", bytes, HIDDEN);
    let chunks = format!("{length:x}\r\n{HIDDEN}\r\n0\r\n\r\n");
    let bytes = post("Transfer-Encoding: chunked\r\n", chunks);
    group.echo("9112 6.3", "request_inside_of_a_chunk", bytes, HIDDEN);
    let fields = format!("Content-Length: {length}\r\n");
    group.accept(
        "9112 6.3",
        "request_inside_of_a_gets_body",
        concat(&[&get(fields), HIDDEN.as_bytes()]),
    );
    for line in [
        "X: Transfer-Encoding: chunked",
        "X: y, Content-Length: 44",
        "X: \\r\\nContent-Length: 44",
        "X: %0d%0aContent-Length: 44",
        "Content-Length-: 44",
        "-Content-Length: 44",
        "Content_Length: 44",
        "Transfer_Encoding: chunked",
        "X-HTTP-Method-Override: POST",
        "X-Forwarded-Host: b",
        "X-Original-URL: /nothing",
        "Connection: Host",
        "Connection: Content-Length",
        "Keep-Alive: timeout=0",
        "Proxy-Connection: close",
    ] {
        group.accept("9112 6.3", format!("harmless {line}"), get(format!("{line}\r\n")));
    }
}
