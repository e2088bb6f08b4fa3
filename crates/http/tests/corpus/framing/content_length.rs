//! The field Content-Length (RFC 9110, 8.6; RFC 9112, 6.2 and 6.3).

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{byte_name, concat, controls, obs_text, post, visible};

pub(crate) fn h03_content_length() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_content_length");
    add_valid(&mut group);
    add_repeated(&mut group);
    add_malformed(&mut group);
    add_bytes(&mut group);
    add_unfinished(&mut group);
    group.finish()
}

fn add_valid(group: &mut CaseGroup) {
    for (name, fields) in [
        ("plain", "Content-Length: 5\r\n"),
        ("lower_case_name", "content-length: 5\r\n"),
        ("upper_case_name", "CONTENT-LENGTH: 5\r\n"),
        ("mixed_case_name", "cOnTeNt-LeNgTh: 5\r\n"),
        ("without_white_space", "Content-Length:5\r\n"),
        ("white_space_around", "Content-Length: \t 5 \t \r\n"),
        ("leading_zero", "Content-Length: 05\r\n"),
        ("leading_zeros", "Content-Length: 0000000005\r\n"),
        (
            "more_zeros_than_a_u64_has_digits",
            "Content-Length: 00000000000000000000000000000005\r\n",
        ),
        ("behind_other_fields", "X: 6\r\nContent-Length: 5\r\nY: 4\r\n"),
        (
            "similar_names_beside",
            "X-Content-Length: 9\r\nContent-Length: 5\r\nContent-Lengths: 1\r\n",
        ),
        ("underscore_name_beside", "Content_Length: 9\r\nContent-Length: 5\r\n"),
        ("named_by_connection", "Connection: Content-Length\r\nContent-Length: 5\r\n"),
    ] {
        group.echo("9112 6.2", format!("valid {name}"), post(fields, "hello"), "hello");
    }
    for value in ["0", "00", "000000000000000000000000"] {
        let bytes = post(format!("Content-Length: {value}\r\n"), "");
        group.echo("9112 6.2", format!("no_body_by_length_{value}"), bytes, "");
    }
    group.echo("9112 6.3", "no_body_without_length", post("", ""), "");
    group.echo("9112 6.3", "similar_names_are_no_length", post("Content_Length: 5\r\n", ""), "");
}

fn add_repeated(group: &mut CaseGroup) {
    for (name, fields) in [
        ("two_equal_lines", "Content-Length: 5\r\nContent-Length: 5\r\n"),
        ("two_different_lines", "Content-Length: 5\r\nContent-Length: 6\r\n"),
        ("larger_first", "Content-Length: 6\r\nContent-Length: 5\r\n"),
        ("different_letters", "Content-Length: 5\r\ncontent-length: 5\r\n"),
        ("a_field_between", "Content-Length: 5\r\nX: y\r\nContent-Length: 5\r\n"),
        ("zero_and_five", "Content-Length: 0\r\nContent-Length: 5\r\n"),
        ("five_and_zero", "Content-Length: 5\r\nContent-Length: 0\r\n"),
        ("two_zeros", "Content-Length: 0\r\nContent-Length: 0\r\n"),
        ("equal_in_value_only", "Content-Length: 5\r\nContent-Length: 05\r\n"),
        ("one_empty", "Content-Length: 5\r\nContent-Length:\r\n"),
        ("one_empty_first", "Content-Length:\r\nContent-Length: 5\r\n"),
        ("one_invalid", "Content-Length: 5\r\nContent-Length: x\r\n"),
        ("three_lines", "Content-Length: 5\r\nContent-Length: 5\r\nContent-Length: 5\r\n"),
    ] {
        group.malformed("9112 6.3", format!("repeated {name}"), post(fields, "hello"));
    }
    for value in
        ["5,5", "5, 5", "5 ,5", "5,6", "5,", ",5", ",", "5,,5", "5;5", "5 5", "5, 5, 5", "5,x"]
    {
        let bytes = post(format!("Content-Length: {value}\r\n"), "hello");
        group.malformed("9112 6.3", format!("list {value}"), bytes);
    }
}

fn add_malformed(group: &mut CaseGroup) {
    for value in [
        "",
        " ",
        "\t",
        "+5",
        "-5",
        "+0",
        "-0",
        "--5",
        "+ 5",
        "- 5",
        "5+",
        "5-",
        "0x5",
        "0X5",
        "x5",
        "5h",
        "0b101",
        "0o5",
        "5.",
        ".5",
        "5.0",
        "5.5",
        "5e0",
        "5E1",
        "1_0",
        "1'0",
        "1 0",
        "1\t0",
        "0 5",
        "five",
        "a",
        "A",
        "\"5\"",
        "'5'",
        "(5)",
        "<5>",
        "[5]",
        "{5}",
        "=5",
        ":5",
        "5:",
        "5;",
        "5; a=b",
        "5 bytes",
        "5/10",
        "5-5",
        "*",
        "%35",
        "&#53;",
        "٥",
        "５",
        "²",
        "∞",
        "NaN",
        "inf",
        "null",
        "true",
        "chunked",
        "18446744073709551616",
        "18446744073709551621",
        "36893488147419103237",
        "99999999999999999999",
        "100000000000000000000",
        "340282366920938463463374607431768211461",
        "-18446744073709551611",
        "00018446744073709551616",
    ] {
        let bytes = post(format!("Content-Length: {value}\r\n"), "hello");
        group.malformed("9112 6.3", format!("malformed '{value}'"), bytes);
    }
    for (name, fields) in [
        ("folded_value", "Content-Length: 5\r\n 0\r\n"),
        ("folded_before_the_value", "Content-Length:\r\n 5\r\n"),
        ("space_before_the_colon", "Content-Length : 5\r\n"),
        ("tab_before_the_colon", "Content-Length\t: 5\r\n"),
        ("space_before_the_name", " Content-Length: 5\r\n"),
        ("space_in_the_name", "Content Length: 5\r\n"),
        ("two_colons", "Content-Length:: 5\r\n"),
        ("no_colon", "Content-Length 5\r\n"),
        ("ended_by_lf", "Content-Length: 5\nX: y\r\n"),
        ("ended_by_cr", "Content-Length: 5\rX: y\r\n"),
    ] {
        group.malformed("9112 5", name, post(fields, "hello"));
    }
    let many = format!("Content-Length: {}5\r\n", "9".repeat(1000));
    group.malformed("9112 6.3", "value_of_a_thousand_digits", post(many, "hello"));
    let bytes = "GET /plaintext HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n";
    group.malformed("9112 6.3", "malformed_length_of_a_get", bytes);
    let bytes = "GET /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n";
    group.malformed("9112 6.3", "malformed_length_of_an_unknown_path", bytes);
    let bytes = "POST /echo HTTP/1.0\r\nContent-Length: +5\r\n\r\nhello";
    group.malformed("9112 6.3", "malformed_length_in_http_1_0", bytes);
    let bytes = "POST /echo HTTP/1.0\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello";
    group.malformed("9112 6.3", "repeated_length_in_http_1_0", bytes);
}

/// Every byte that is no digit, on both sides of a digit. White space around the value is trimmed, so it stays out.
fn add_bytes(group: &mut CaseGroup) {
    let others = visible().filter(|byte| !byte.is_ascii_digit());
    for byte in controls().filter(|byte| *byte != b'\t').chain(others).chain(obs_text().step_by(5))
    {
        let fields = concat(&[b"Content-Length: 5", &[byte], b"\r\n"]);
        group.malformed("9112 6.3", byte_name("behind_the_digits", byte), post(fields, "hello"));
        let fields = concat(&[b"Content-Length: ", &[byte], b"5\r\n"]);
        group.malformed("9112 6.3", byte_name("before_the_digits", byte), post(fields, "hello"));
    }
}

fn add_unfinished(group: &mut CaseGroup) {
    for (name, length, body) in [
        ("no_byte_of_one", "1", ""),
        ("four_bytes_of_five", "5", "hell"),
        ("a_line_end_missing", "7", "hello\r"),
        ("a_request_as_part_of_a_body", "100", "GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        let bytes = post(format!("Content-Length: {length}\r\n"), body);
        group.wait("9112 6.3", name, bytes);
    }
}
