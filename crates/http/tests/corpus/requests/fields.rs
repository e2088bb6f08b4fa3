//! Field lines: names, values, white space and line ends (RFC 9112, 5; RFC 9110, 5).

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{
    GET, byte_name, concat, controls_but_tab, get, is_token_byte, obs_text, visible,
};

pub(crate) fn h03_fields() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_fields");
    add_valid_lines(&mut group);
    add_names(&mut group);
    add_values(&mut group);
    add_white_space_and_folds(&mut group);
    add_line_ends(&mut group);
    group.finish()
}

fn add_valid_lines(group: &mut CaseGroup) {
    for (name, line) in [
        ("without_white_space", "X:a\r\n"),
        ("with_a_space", "X: a\r\n"),
        ("with_a_tab", "X:\ta\r\n"),
        ("with_white_space_around", "X: \t  a\t \t\r\n"),
        ("empty_value", "X:\r\n"),
        ("value_of_a_space", "X: \r\n"),
        ("value_of_tabs", "X:\t\t\t\r\n"),
        ("value_with_colons", "X: a:b:c\r\n"),
        ("value_of_a_colon", "X::\r\n"),
        ("value_with_white_space_inside", "X: a b\tc  d\r\n"),
        ("value_with_quotes", "X: \"a\\\"b\"\r\n"),
        ("value_with_an_open_quote", "X: \"a\r\n"),
        ("value_with_brackets", "X: <a>(b)[c]{d}\r\n"),
        ("value_with_percent", "X: %0d%0aY: z\r\n"),
        ("value_with_escapes", "X: a\\r\\nb\r\n"),
        ("value_like_a_request_line", "X: GET / HTTP/1.1\r\n"),
        ("value_like_a_chunk", "X: 0\r\n"),
        ("value_in_utf_8", "X: grün\r\n"),
        ("name_of_a_digit", "1: a\r\n"),
        ("name_of_one_letter", "x: a\r\n"),
        ("name_with_dashes", "-x--y-: a\r\n"),
        ("name_with_underscores", "X_Y: a\r\n"),
        ("name_with_dots", "X.Y: a\r\n"),
        ("repeated", "X: a\r\nX: b\r\nx: c\r\n"),
        ("cookie", "Cookie: a=b; c=d; e=\"f\"\r\n"),
        ("unknown_fields_of_the_method", "Sec-Fetch-Mode: cors\r\nDNT: 1\r\n"),
        ("if_none_match", "If-None-Match: \"a\"\r\n"),
        ("range", "Range: bytes=0-1\r\n"),
    ] {
        group.accept("9112 5", format!("valid {name}"), get(line));
    }
    for length in [100, 1000, 4000, 8000, 12_000] {
        let line = format!("X: {}\r\n", "a".repeat(length));
        group.accept("9110 5.4", format!("value_of_{length}_bytes"), get(line));
        let line = format!("{}: a\r\n", "x".repeat(length));
        group.accept("9110 5.4", format!("name_of_{length}_bytes"), get(line));
    }
}

fn add_names(group: &mut CaseGroup) {
    for byte in visible().filter(|byte| is_token_byte(*byte)) {
        let line = concat(&[&[byte, b':'], b" a\r\n"]);
        group.accept("9110 5.6.2", byte_name("name_of_byte", byte), get(line));
    }
    for byte in (0..=255).filter(|byte| !is_token_byte(*byte) && *byte != b':') {
        let line = concat(&[b"X", &[byte], b"Y: a\r\n"]);
        group.malformed("9110 5.6.2", byte_name("inside_a_name", byte), get(line));
        let line = concat(&[&[byte], b"X: a\r\n"]);
        group.malformed("9110 5.6.2", byte_name("before_a_name", byte), get(line));
        let line = concat(&[b"X", &[byte], b": a\r\n"]);
        group.malformed("9112 5.1", byte_name("before_the_colon", byte), get(line));
    }
    for (name, line) in [
        ("empty_name", ": a\r\n"),
        ("empty_name_and_value", ":\r\n"),
        ("no_colon", "X\r\n"),
        ("no_colon_but_a_value", "X a\r\n"),
        ("no_colon_but_equals", "X=a\r\n"),
        ("a_dot", ".\r\n"),
        ("a_chunk_size", "0\r\n"),
        ("quoted_name", "\"X\": a\r\n"),
        ("name_of_two_words", "X Y: a\r\n"),
        ("name_in_brackets", "[X]: a\r\n"),
        ("name_in_parentheses", "(X): a\r\n"),
        ("name_with_a_slash", "X/Y: a\r\n"),
        ("name_in_utf_8", "Grün: a\r\n"),
        ("second_request_line", "GET / HTTP/1.1\r\n"),
        ("header_of_http_2", ":path: /\r\n"),
    ] {
        group.malformed("9112 5", format!("malformed {name}"), get(line));
        let bytes = concat(&[b"GET /plaintext HTTP/1.1\r\n", line.as_bytes(), b"Host: a\r\n\r\n"]);
        group.malformed("9112 5", format!("malformed {name} as the first field"), bytes);
    }
}

fn add_values(group: &mut CaseGroup) {
    for byte in controls_but_tab() {
        for (place, before, behind) in [
            ("before_a_value", "X: ", "a"),
            ("inside_a_value", "X: a", "b"),
            ("behind_a_value", "X: a", ""),
            ("inside_a_known_value", "User-Agent: a", "b"),
        ] {
            let line = concat(&[before.as_bytes(), &[byte], behind.as_bytes(), b"\r\n"]);
            group.malformed("9110 5.5", byte_name(place, byte), get(line));
        }
    }
    for byte in obs_text() {
        let line = concat(&[b"X: a", &[byte], b"b\r\n"]);
        group.accept("9110 5.5", byte_name("inside_a_value", byte), get(line));
    }
    for byte in visible() {
        let line = concat(&[b"X: ", &[byte], b"\r\n"]);
        group.accept("9110 5.5", byte_name("value_of_byte", byte), get(line));
    }
    let all: Vec<u8> = visible().chain(obs_text()).chain(*b" \t").collect();
    let line = concat(&[b"X: ", &all, b"\r\n"]);
    group.accept("9110 5.5", "value_of_all_valid_bytes", get(line));
}

fn add_white_space_and_folds(group: &mut CaseGroup) {
    for (name, line) in [
        ("space_before_the_colon", "X : a\r\n"),
        ("tab_before_the_colon", "X\t: a\r\n"),
        ("white_space_before_the_colon", "X \t : a\r\n"),
        ("space_before_the_name", " X: a\r\n"),
        ("tab_before_the_name", "\tX: a\r\n"),
        ("folded_by_a_space", "X: a\r\n b\r\n"),
        ("folded_by_a_tab", "X: a\r\n\tb\r\n"),
        ("folded_twice", "X: a\r\n b\r\n c\r\n"),
        ("folded_behind_the_colon", "X:\r\n a\r\n"),
        ("folded_with_a_colon", "X: a\r\n Y: b\r\n"),
        ("folded_to_a_line_of_a_space", "X: a\r\n \r\n"),
        ("folded_to_a_line_of_a_tab", "X: a\r\n\t\r\n"),
        ("folded_before_another_field", "X: a\r\n b\r\nY: c\r\n"),
        ("host_folded", " b\r\n"),
    ] {
        group.malformed("9112 5.2", name, get(line));
    }
    for (name, start) in [
        ("space_before_the_first_field", " Host: a\r\n"),
        ("tab_before_the_first_field", "\tHost: a\r\n"),
        ("line_of_a_space_before_the_first_field", " \r\nHost: a\r\n"),
        ("line_with_white_space_before_host", " X: a\r\nHost: a\r\n"),
        ("host_with_a_space_before_the_colon", "Host : a\r\n"),
        ("host_folded_behind_the_colon", "Host:\r\n a\r\n"),
    ] {
        let bytes = format!("GET /plaintext HTTP/1.1\r\n{start}\r\n");
        group.malformed("9112 2.2", name, bytes);
    }
}

fn add_line_ends(group: &mut CaseGroup) {
    for (name, rest) in [
        ("lf", "X: a\nY: b\r\n\r\n"),
        ("cr", "X: a\rY: b\r\n\r\n"),
        ("cr_cr_lf", "X: a\r\r\nY: b\r\n\r\n"),
        ("lf_cr", "X: a\n\rY: b\r\n\r\n"),
        ("lf_before_a_fold", "X: a\n b\r\n\r\n"),
        ("cr_before_a_fold", "X: a\r b\r\n\r\n"),
        ("lf_at_the_end", "X: a\n\r\n"),
        ("lf_twice_at_the_end", "X: a\n\n"),
        ("cr_twice_at_the_end", "X: a\r\r"),
        ("nul_before_crlf", "X: a\0\r\n\r\n"),
        ("next_line", "X: a\r\nY\u{85}: b\r\n\r\n"),
        ("line_separator_in_a_name", "X\u{2028}: b\r\n\r\n"),
        ("lf_behind_an_empty_value", "X:\n\r\n"),
        ("lf_behind_a_colonless_line", "X\n\r\n"),
    ] {
        group.malformed("9112 2.2", format!("line_end {name}"), concat(&[GET, rest.as_bytes()]));
    }
}
