//! The chunked coding: sizes, extensions and line ends (RFC 9112, 7.1).

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{
    byte_name, chunk, concat, controls, controls_but_tab, is_token_byte, obs_text, pattern,
    post_chunked, visible,
};

/// The last chunk and the end of the trailers.
const END: &[u8] = b"0\r\n\r\n";

pub(crate) fn h03_chunks() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_chunks");
    add_valid_bodies(&mut group);
    add_valid_size_lines(&mut group);
    add_malformed_size_lines(&mut group);
    add_size_line_bytes(&mut group);
    add_extensions(&mut group);
    add_data_ends(&mut group);
    add_last_chunks(&mut group);
    add_unfinished(&mut group);
    group.finish()
}

/// One chunk of `hello` behind this size line, and the end.
fn hello_with(size_line: impl AsRef<[u8]>) -> Vec<u8> {
    post_chunked(concat(&[size_line.as_ref(), b"\r\nhello\r\n", END]))
}

fn add_valid_bodies(group: &mut CaseGroup) {
    group.echo("9112 7.1", "no_chunk_but_the_last", post_chunked(END), "");
    for length in [1, 2, 9, 10, 15, 16, 17, 255, 256, 257, 4095, 4096, 65_535, 65_536, 100_000] {
        let body = pattern(length);
        let bytes = post_chunked(concat(&[&chunk(&body), END]));
        group.echo("9112 7.1", format!("one_chunk_of_{length}"), bytes, body);
    }
    for (size, count) in [(1, 2), (1, 100), (1, 5000), (7, 30), (16, 64), (1000, 50)] {
        let body = pattern(size * count);
        let chunks: Vec<u8> = body.chunks(size).flat_map(chunk).collect();
        let bytes = post_chunked(concat(&[&chunks, END]));
        group.echo("9112 7.1", format!("{count}_chunks_of_{size}"), bytes, body);
    }
    for data in
        ["\r\n", "\r\n\r\n", "0\r\n\r\n", "\n", "\r", "\0", "5\r\nhello\r\n0\r\n\r\n", ";", ":"]
    {
        let bytes = post_chunked(concat(&[&chunk(data), END]));
        group.echo("9112 7.1", format!("data {data:?}"), bytes, data);
    }
    let all: Vec<u8> = (0..=255).collect();
    group.echo("9112 7.1", "data_of_all_bytes", post_chunked(concat(&[&chunk(&all), END])), all);
}

fn add_valid_size_lines(group: &mut CaseGroup) {
    for zeros in [1, 2, 7, 15, 16, 17, 31, 64] {
        let line = format!("{}5", "0".repeat(zeros));
        group.echo("9112 7.1", format!("{zeros}_leading_zeros"), hello_with(line), "hello");
        let bytes = post_chunked(format!("5\r\nhello\r\n{}0\r\n\r\n", "0".repeat(zeros)));
        group.echo("9112 7.1", format!("last_chunk_of_{zeros}_more_zeros"), bytes, "hello");
    }
    for digit in "aAbBcCdDeEfF".chars() {
        let body = pattern(digit.to_digit(16).unwrap_or(0) as usize);
        let bytes = post_chunked(concat(&[format!("{digit}\r\n").as_bytes(), &body, b"\r\n", END]));
        group.echo("9112 7.1", format!("size_{digit}"), bytes, body);
    }
    for size in ["1A", "1a", "aB", "Ff", "0fF"] {
        let body = pattern(usize::from_str_radix(size, 16).unwrap_or(0));
        let bytes = post_chunked(concat(&[format!("{size}\r\n").as_bytes(), &body, b"\r\n", END]));
        group.echo("9112 7.1", format!("size_{size}"), bytes, body);
    }
}

fn add_malformed_size_lines(group: &mut CaseGroup) {
    for line in [
        "",
        " ",
        " 5",
        "\t5",
        "5 ",
        "5\t",
        " 5 ",
        "5  ",
        "0 5",
        "5 5",
        "+5",
        "-5",
        "+0",
        "-0",
        "0x5",
        "0X5",
        "x5",
        "5h",
        "5x",
        "g",
        "G",
        "5g",
        "5.",
        "5.0",
        "5,5",
        "5:5",
        "5/5",
        "5_0",
        "'5'",
        "\"5\"",
        "5=5",
        "$5",
        "５",
        "٥",
        "hello",
        "5hello",
        "10000000000000000",
        "10000000000000005",
        "00010000000000000005",
        "FFFFFFFFFFFFFFFFF",
        "100000000000000000000000000000005",
        "fffffffffffffffffffffffffffffffffffffffff",
        "-FFFFFFFFFFFFFFFB",
    ] {
        group.malformed("9112 7.1", format!("size line '{line}'"), hello_with(line));
    }
    let digits = format!("{}5", "f".repeat(1000));
    group.malformed("9112 7.1", "size_of_a_thousand_digits", hello_with(digits));
    for (name, chunks) in [
        ("size_line_ended_by_lf", "5\nhello\r\n0\r\n\r\n"),
        ("size_line_ended_by_cr", "5\rhello\r\n0\r\n\r\n"),
        ("size_line_ended_by_cr_cr_lf", "5\r\r\nhello\r\n0\r\n\r\n"),
        ("size_line_ended_by_lf_cr", "5\n\rhello\r\n0\r\n\r\n"),
        ("size_line_with_lf_inside", "5\n5\r\nhello\r\n0\r\n\r\n"),
        ("empty_line_before_the_size", "\r\n5\r\nhello\r\n0\r\n\r\n"),
        ("bare_lf_before_the_size", "\n5\r\nhello\r\n0\r\n\r\n"),
        ("empty_line_before_the_second_size", "5\r\nhello\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        ("data_without_a_size", "hello\r\n0\r\n\r\n"),
        ("everything_ended_by_lf", "5\nhello\n0\n\n"),
        ("second_size_malformed", "5\r\nhello\r\nx\r\nhello\r\n0\r\n\r\n"),
        ("second_size_overflows", "5\r\nhello\r\n10000000000000000\r\nhello\r\n0\r\n\r\n"),
        ("second_size_negative", "5\r\nhello\r\n-5\r\nhello\r\n0\r\n\r\n"),
    ] {
        group.malformed("9112 7.1", name, post_chunked(chunks));
    }
}

fn add_size_line_bytes(group: &mut CaseGroup) {
    for byte in controls().chain(obs_text().step_by(3)) {
        for (place, before, behind) in [
            ("before_the_size", "", "5"),
            ("behind_the_size", "5", ""),
            ("inside_the_size", "0", "5"),
        ] {
            let line = concat(&[before.as_bytes(), &[byte], behind.as_bytes()]);
            group.malformed("9112 7.1", byte_name(place, byte), hello_with(line));
        }
    }
    for byte in visible().filter(|byte| !byte.is_ascii_hexdigit() && *byte != b';') {
        group.malformed("9112 7.1", byte_name("behind_the_size", byte), hello_with([b'5', byte]));
        group.malformed("9112 7.1", byte_name("before_the_size", byte), hello_with([byte, b'5']));
    }
}

fn add_extensions(group: &mut CaseGroup) {
    for extension in [
        ";a",
        ";a=b",
        ";a=\"b\"",
        ";a=\"\"",
        ";a=\"b c\"",
        ";a=\"b\tc\"",
        ";a=\"b;c=d\"",
        ";a=\"b\\\"c\"",
        ";a=\"\\\\\"",
        ";a=\"\\;\"",
        ";a=\"{}<>[]()@,:?/\"",
        ";a=\"ä\"",
        ";a;b;c",
        ";a=b;c=d",
        ";a;b=c;d=\"e\"",
        ";a=1",
        ";1=a",
        ";0",
        ";A=B",
        ";!#$%&'*+-.^_`|~=!#$%&'*+-.^_`|~",
        ";a=b;a=b",
        " ;a",
        "\t;a",
        "; a",
        ";\ta",
        " ; a=b",
        " \t ; \t a=b",
        ";a ;b",
        ";a; b",
        ";a=b ; c=d",
        ";a=\"b\" ; c",
    ] {
        let name = format!("valid extension {extension:?}");
        group.echo("9112 7.1.1", name, hello_with(format!("5{extension}")), "hello");
        let bytes = post_chunked(format!("5\r\nhello\r\n0{extension}\r\n\r\n"));
        group.echo("9112 7.1.1", format!("of the last chunk {extension:?}"), bytes, "hello");
    }
    for extension in [
        ";",
        "; ",
        " ;",
        ";;",
        ";;a",
        ";a;",
        ";a; ",
        ";a;;b",
        ";=",
        ";=b",
        ";a=",
        ";a=;b",
        ";a==b",
        ";a=b=c",
        ";a b",
        ";a=b c",
        ";a ",
        ";a\t",
        ";a=b ",
        ";a=\"b\" ",
        ";a=\"b",
        ";a=b\"",
        ";a=\"b\"c",
        ";a=\"b\"\"c\"",
        ";a=\"b\\\"",
        ";a=\"\\",
        ";\"a\"",
        ";\"a\"=b",
        ";a='b c'",
        ";a/b",
        ";a=b/c",
        ";a:b",
        ";a,b",
        ";a=b,c",
        ";(a)",
        ";a@b",
        ";[a]",
        ";a={b}",
        ";ä",
        ";a=ä",
        ",a",
        ":a",
        "=a",
        " a",
        "\"a\"",
        "; ;",
    ] {
        let name = format!("malformed extension {extension:?}");
        group.malformed("9112 7.1.1", name, hello_with(format!("5{extension}")));
        let bytes = post_chunked(format!("5\r\nhello\r\n0{extension}\r\n\r\n"));
        group.malformed("9112 7.1.1", format!("malformed, of the last chunk {extension:?}"), bytes);
    }
    for byte in controls_but_tab() {
        for (place, before, behind) in [
            ("in_an_extension_name", "5;a", "b"),
            ("in_an_extension_value", "5;a=b", "c"),
            ("in_a_quoted_value", "5;a=\"b", "c\""),
            ("escaped_in_a_quoted_value", "5;a=\"b\\", "c\""),
            ("before_the_semicolon", "5", ";a"),
            ("behind_the_semicolon", "5;", "a"),
            ("behind_an_extension", "5;a", ""),
        ] {
            let line = concat(&[before.as_bytes(), &[byte], behind.as_bytes()]);
            group.malformed("9112 7.1.1", byte_name(place, byte), hello_with(line));
        }
    }
    for byte in visible().filter(|byte| !is_token_byte(*byte) && !b";=".contains(byte)) {
        let line = concat(&[b"5;a", &[byte], b"b"]);
        group.malformed("9112 7.1.1", byte_name("in_an_extension_name", byte), hello_with(line));
    }
    for (name, chunks) in [
        ("extension_ended_by_lf", "5;a\nhello\r\n0\r\n\r\n"),
        ("extension_ended_by_cr", "5;a\rhello\r\n0\r\n\r\n"),
        ("quoted_value_with_a_line_end", "5;a=\"b\r\nhello\r\n0\r\n\r\n\"\r\n"),
        ("quoted_value_with_lf", "5;a=\"b\nc\"\r\nhello\r\n0\r\n\r\n"),
        // A reader that skips to LF finds 5 bytes here, one that skips to CRLF finds others.
        ("lf_hides_a_chunk", "2;\nxx\r\n45\r\nhe\r\n0\r\n\r\n"),
    ] {
        group.malformed("9112 7.1.1", name, post_chunked(chunks));
    }
}

fn add_data_ends(group: &mut CaseGroup) {
    for (name, chunks) in [
        ("one_byte_more_than_the_size", "5\r\nhello!\r\n0\r\n\r\n"),
        ("one_byte_less_than_the_size", "5\r\nhell\r\n0\r\n\r\n"),
        ("two_bytes_less_than_the_size", "5\r\nhel\r\n0\r\n\r\n"),
        ("many_bytes_more_than_the_size", "5\r\nhello, world\r\n0\r\n\r\n"),
        ("no_line_end", "5\r\nhello0\r\n\r\n"),
        ("lf_alone", "5\r\nhello\n0\r\n\r\n"),
        ("cr_alone", "5\r\nhello\r0\r\n\r\n"),
        ("lf_and_cr", "5\r\nhello\n\r0\r\n\r\n"),
        ("cr_cr_lf", "5\r\nhello\r\r\n0\r\n\r\n"),
        ("lf_lf", "5\r\nhello\n\n0\r\n\r\n"),
        ("space_before_the_line_end", "5\r\nhello \r\n0\r\n\r\n"),
        ("two_line_ends", "5\r\nhello\r\n\r\n0\r\n\r\n"),
        ("two_other_bytes", "5\r\nhelloXY0\r\n\r\n"),
        ("second_chunk_too_long", "5\r\nhello\r\n1\r\n!!\r\n0\r\n\r\n"),
        ("second_chunk_without_line_end", "5\r\nhello\r\n1\r\n!0\r\n\r\n"),
    ] {
        group.malformed("9112 7.1", format!("data end {name}"), post_chunked(chunks));
    }
    for byte in controls().chain(b"0;: ".iter().copied()).filter(|byte| *byte != b'\r') {
        let chunks = concat(&[b"5\r\nhello", &[byte], b"\n0\r\n\r\n"]);
        group.malformed("9112 7.1", byte_name("in_place_of_cr", byte), post_chunked(chunks));
    }
    for byte in controls().chain(b"0;: ".iter().copied()).filter(|byte| *byte != b'\n') {
        let chunks = concat(&[b"5\r\nhello\r", &[byte], b"0\r\n\r\n"]);
        group.malformed("9112 7.1", byte_name("in_place_of_lf", byte), post_chunked(chunks));
    }
}

fn add_last_chunks(group: &mut CaseGroup) {
    for (name, chunks) in [
        ("ended_by_lf", "5\r\nhello\r\n0\n\r\n"),
        ("ended_by_cr", "5\r\nhello\r\n0\r0\r\n"),
        ("empty_line_ended_by_lf", "5\r\nhello\r\n0\r\n\n"),
        ("empty_line_of_two_cr", "5\r\nhello\r\n0\r\n\r\r\n"),
        ("line_of_a_space", "5\r\nhello\r\n0\r\n \r\n\r\n"),
        ("with_data", "5\r\nhello\r\n0\r\nhello\r\n\r\n"),
        ("space_behind", "5\r\nhello\r\n0 \r\n\r\n"),
        ("space_before", "5\r\nhello\r\n 0\r\n\r\n"),
        ("minus_zero", "5\r\nhello\r\n-0\r\n\r\n"),
        ("hexadecimal_prefix", "5\r\nhello\r\n0x0\r\n\r\n"),
        ("letter_o", "5\r\nhello\r\nO\r\n\r\n"),
        ("empty", "5\r\nhello\r\n\r\n\r\n"),
        ("repeated", "5\r\nhello\r\n0\r\n0\r\n\r\n"),
        // The request behind is read as a trailer, and has no colon in its first line.
        ("empty_line_missing", "5\r\nhello\r\n0\r\n"),
    ] {
        group.malformed("9112 7.1", format!("last chunk {name}"), post_chunked(chunks));
    }
}

fn add_unfinished(group: &mut CaseGroup) {
    let whole = "5\r\nhello\r\n0\r\n\r\n";
    for length in 0..whole.len() {
        let bytes = post_chunked(&whole[..length]);
        group.wait("9112 7.1", format!("unfinished at {length}"), bytes);
    }
    group.wait("9112 7.1.1", "unfinished_in_an_extension", post_chunked("5;a=\"b"));
    group.wait(
        "9112 7.1.2",
        "unfinished_in_a_trailer",
        post_chunked("5\r\nhello\r\n0\r\nX: y\r\n"),
    );
}
