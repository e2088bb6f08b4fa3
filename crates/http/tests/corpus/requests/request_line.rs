//! The request line and what may stand before it (RFC 9112, 2.2 and 3).

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, byte_name, concat, controls, get, obs_text, with_line};

pub(crate) fn h03_request_line() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_request_line");
    add_before_the_line(&mut group);
    add_parts_and_spaces(&mut group);
    add_wrong_separators(&mut group);
    add_line_ends(&mut group);
    add_other_protocols(&mut group);
    group.finish()
}

/// Empty lines before the request line are skipped, other bytes are not.
fn add_before_the_line(group: &mut CaseGroup) {
    for count in [1, 2, 3, 10] {
        let bytes = concat(&[&b"\r\n".repeat(count), &get("")]);
        group.accept("9112 2.2", format!("{count}_empty_lines_before"), bytes);
    }
    for (name, before) in [
        ("bare_lf_before", "\n"),
        ("bare_cr_before", "\r"),
        ("two_cr_and_lf_before", "\r\r\n"),
        ("crlf_and_bare_lf_before", "\r\n\n"),
        ("lf_and_cr_before", "\n\r"),
        ("space_before", " "),
        ("tab_before", "\t"),
        ("line_of_a_space_before", " \r\n"),
        ("line_of_a_tab_before", "\t\r\n"),
        ("byte_order_mark_before", "\u{feff}"),
    ] {
        group.malformed("9112 2.2", name, concat(&[before.as_bytes(), &get("")]));
    }
    for byte in controls().chain(obs_text().step_by(9)) {
        let bytes = concat(&[&[byte], &*get("")]);
        group.malformed("9112 2.2", byte_name("byte_before", byte), bytes);
    }
    group.wait("9112 2.2", "empty_lines_and_nothing_else", "\r\n\r\n");
    group.wait("9112 2.2", "nothing_but_a_cr", "\r");
    group.wait("9112 3", "part_of_a_method", "GE");
    group.wait("9112 3", "line_without_its_end", "GET /plaintext HTTP/1.1");
    group.wait("9112 3", "line_with_half_of_its_end", "GET /plaintext HTTP/1.1\r");
    group.wait("9112 3", "line_without_fields", "GET /plaintext HTTP/1.1\r\n");
    group.wait("9112 2.1", "head_without_its_end", "GET /plaintext HTTP/1.1\r\nHost: a\r\n");
    group.wait("9112 2.1", "head_with_half_of_its_end", "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r");
}

fn add_parts_and_spaces(group: &mut CaseGroup) {
    for (name, line) in [
        ("two_spaces_behind_the_method", "GET  /plaintext HTTP/1.1"),
        ("three_spaces_behind_the_method", "GET   /plaintext HTTP/1.1"),
        ("two_spaces_before_the_version", "GET /plaintext  HTTP/1.1"),
        ("tab_and_space_behind_the_method", "GET\t /plaintext HTTP/1.1"),
        ("space_and_tab_behind_the_method", "GET \t/plaintext HTTP/1.1"),
        ("tab_and_space_before_the_version", "GET /plaintext\t HTTP/1.1"),
        ("space_and_tab_before_the_version", "GET /plaintext \tHTTP/1.1"),
        ("space_at_the_end", "GET /plaintext HTTP/1.1 "),
        ("tab_at_the_end", "GET /plaintext HTTP/1.1\t"),
        ("two_spaces_at_the_end", "GET /plaintext HTTP/1.1  "),
        ("space_inside_the_target", "GET /plain text HTTP/1.1"),
        ("space_inside_the_query", "GET /plaintext?a b HTTP/1.1"),
        ("tab_inside_the_target", "GET /plain\ttext HTTP/1.1"),
        ("fourth_part", "GET /plaintext HTTP/1.1 HTTP/1.1"),
        ("two_versions", "GET /plaintext HTTP/1.0 HTTP/1.1"),
        ("no_method", "/plaintext HTTP/1.1"),
        ("no_method_but_a_space", " /plaintext HTTP/1.1"),
        ("no_target", "GET HTTP/1.1"),
        ("no_target_but_two_spaces", "GET  HTTP/1.1"),
        ("no_version", "GET /plaintext"),
        ("no_version_but_a_space", "GET /plaintext "),
        ("method_alone", "GET"),
        ("method_and_space", "GET "),
        ("method_and_two_spaces", "GET  "),
        ("target_alone", "/plaintext"),
        ("version_alone", "HTTP/1.1"),
        ("no_spaces", "GET/plaintextHTTP/1.1"),
        ("no_space_behind_the_method", "GET/plaintext HTTP/1.1"),
        ("no_space_before_the_version", "GET /plaintextHTTP/1.1"),
        ("order_reversed", "HTTP/1.1 /plaintext GET"),
        ("quoted_target", "GET \"/plaintext\" HTTP/1.1"),
        ("target_in_angle_brackets", "GET </plaintext> HTTP/1.1"),
        ("comma_behind_the_method", "GET, /plaintext HTTP/1.1"),
        ("status_line", "HTTP/1.1 200 OK"),
        ("field_line", "Host: b"),
    ] {
        group.malformed("9112 3", name, with_line(line));
    }
    // HTTP/0.9 ends its request here and never sends fields.
    group.malformed("9112 3", "simple_request_and_empty_line", "GET /plaintext\r\n\r\n");
    group.malformed("9112 3", "simple_request_of_one_line", "GET /plaintext\r\n");
}

/// Only SP separates the parts: RFC 9112 lets a lenient server take other white space, this one is strict.
fn add_wrong_separators(group: &mut CaseGroup) {
    for byte in controls().chain([0xa0, 0x85]) {
        let line = concat(&[b"GET", &[byte], b"/plaintext HTTP/1.1"]);
        group.malformed("9112 3", byte_name("behind_the_method", byte), with_line(line));
        let line = concat(&[b"GET /plaintext", &[byte], b"HTTP/1.1"]);
        group.malformed("9112 3", byte_name("before_the_version", byte), with_line(line));
    }
}

fn add_line_ends(group: &mut CaseGroup) {
    for (name, bytes) in [
        ("line_ended_by_lf", "GET /plaintext HTTP/1.1\nHost: a\r\n\r\n"),
        ("line_ended_by_cr", "GET /plaintext HTTP/1.1\rHost: a\r\n\r\n"),
        ("line_ended_by_cr_cr_lf", "GET /plaintext HTTP/1.1\r\r\nHost: a\r\n\r\n"),
        ("line_ended_by_lf_cr", "GET /plaintext HTTP/1.1\n\rHost: a\r\n\r\n"),
        ("all_lines_ended_by_lf", "GET /plaintext HTTP/1.1\nHost: a\n\n"),
        ("all_lines_ended_by_cr", "GET /plaintext HTTP/1.1\rHost: a\r\r"),
        ("head_ended_by_lf", "GET /plaintext HTTP/1.1\r\nHost: a\r\n\n"),
        ("head_ended_by_cr", "GET /plaintext HTTP/1.1\r\nHost: a\r\n\rX"),
        ("last_field_and_head_ended_by_lf", "GET /plaintext HTTP/1.1\r\nHost: a\n\n"),
        ("last_field_ended_by_lf", "GET /plaintext HTTP/1.1\r\nHost: a\n\r\n"),
    ] {
        group.malformed("9112 2.2", name, bytes);
    }
}

fn add_other_protocols(group: &mut CaseGroup) {
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    // Two rules refuse the preface of HTTP/2: `*` is for OPTIONS alone, and the version is not known.
    group.refuse("9113 3.4", "preface_of_http_2", &[400, 505], preface);
    for (name, bytes) in [
        ("tls_client_hello", &b"\x16\x03\x01\x00\x30\x01\x00\x00\x2c\x03\x03"[..]),
        ("ssh_banner", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("proxy_v1_line", b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\n"),
        ("proxy_v2_signature", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"),
        ("socks_5_greeting", b"\x05\x01\x00"),
        ("smtp_greeting", b"EHLO example.com\r\n"),
        ("redis_array", b"*1\r\n$4\r\nPING\r\n"),
        ("rtsp_request", b"DESCRIBE /plaintext RTSP/1.0\r\nHost: a\r\n\r\n"),
        ("sip_request", b"OPTIONS sip:a SIP/2.0\r\nHost: a\r\n\r\n"),
        ("shttp_request", b"GET /plaintext Secure-HTTP/1.4\r\nHost: a\r\n\r\n"),
        ("zero_bytes", &[0; 64]),
        ("high_bytes", &[0xff; 64]),
    ] {
        group.malformed("9112 3", name, bytes);
    }
    group.accept("9112 3", "the_probe_itself", PROBE);
}
