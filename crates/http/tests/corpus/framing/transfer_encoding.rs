//! The field Transfer-Encoding (RFC 9112, 6.1, 6.3 and 7).

use super::super::case::Case;
use super::super::group::CaseGroup;
use super::super::messages::{byte_name, concat, controls_but_tab, obs_text, post, visible};

/// The chunks of `hello`.
const HELLO: &str = "5\r\nhello\r\n0\r\n\r\n";

pub(crate) fn h03_transfer_encoding() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_transfer_encoding");
    add_chunked(&mut group);
    add_unknown_codings(&mut group);
    add_wrong_orders(&mut group);
    add_malformed(&mut group);
    add_http_1_0(&mut group);
    group.finish()
}

fn coded(value: &str) -> Vec<u8> {
    post(format!("Transfer-Encoding: {value}\r\n"), HELLO)
}

fn add_chunked(group: &mut CaseGroup) {
    for (name, fields) in [
        ("plain", "Transfer-Encoding: chunked\r\n"),
        ("capital", "Transfer-Encoding: Chunked\r\n"),
        ("upper_case", "TRANSFER-ENCODING: CHUNKED\r\n"),
        ("mixed_case", "tRaNsFeR-eNcOdInG: cHuNkEd\r\n"),
        ("without_white_space", "Transfer-Encoding:chunked\r\n"),
        ("white_space_around", "Transfer-Encoding: \t chunked \t \r\n"),
        ("behind_other_fields", "X: gzip\r\nTransfer-Encoding: chunked\r\nY: z\r\n"),
        ("content_encoding_beside", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
        ("te_beside", "TE: trailers, gzip\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n"),
        ("named_by_connection", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n"),
        ("similar_name_beside", "Transfer-Encodings: gzip\r\nTransfer-Encoding: chunked\r\n"),
        ("trailer_announced", "Trailer: X\r\nTransfer-Encoding: chunked\r\n"),
    ] {
        group.echo("9112 6.1", format!("chunked {name}"), post(fields, HELLO), "hello");
    }
    for (name, fields) in [
        ("underscore", "Transfer_Encoding: chunked\r\n"),
        ("prefix", "X-Transfer-Encoding: chunked\r\n"),
        ("plural", "Transfer-Encodings: chunked\r\n"),
        ("te", "TE: chunked\r\n"),
        ("content_encoding", "Content-Encoding: chunked\r\n"),
    ] {
        group.echo("9112 6.1", format!("another field by {name}"), post(fields, ""), "");
    }
}

fn add_unknown_codings(group: &mut CaseGroup) {
    for value in [
        "gzip, chunked",
        "x-gzip, chunked",
        "deflate, chunked",
        "compress, chunked",
        "br, chunked",
        "zstd, chunked",
        "identity, chunked",
        "foo, chunked",
        "GZIP, CHUNKED",
        "gzip,chunked",
        "gzip ,\tchunked",
        "gzip, deflate, chunked",
        "foo;a=b, chunked",
        "foo; a=\"b\", chunked",
        "trailers, chunked",
        "xchunked, chunked",
    ] {
        group.refuse("9112 6.1", format!("unknown: {value}"), &[501], coded(value));
    }
    for (name, fields) in [
        ("in_two_lines", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"),
        (
            "with_a_field_between",
            "Transfer-Encoding: foo\r\nX: y\r\ntransfer-encoding: chunked\r\n",
        ),
    ] {
        group.refuse("9112 6.1", format!("unknown {name}"), &[501], post(fields, HELLO));
    }
    let bytes =
        "GET /plaintext HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
    group.refuse("9112 6.1", "unknown coding of a get", &[501], bytes);
}

fn add_wrong_orders(group: &mut CaseGroup) {
    for value in [
        "gzip",
        "deflate",
        "identity",
        "foo",
        "trailers",
        "none",
        "*",
        "chunked, gzip",
        "chunked, identity",
        "chunked, foo",
        "chunked, chunked",
        "chunked,chunked",
        "Chunked, CHUNKED",
        "chunked, chunked, chunked",
        "chunked, foo, bar",
        "gzip, deflate",
    ] {
        group.malformed("9112 6.3", format!("chunked not once and last: {value}"), coded(value));
    }
    // Two rules refuse these: an unknown coding, and chunked more than once.
    for value in ["gzip, chunked, chunked", "chunked, gzip, chunked", "chunked, identity, chunked"]
    {
        let name = format!("chunked twice with an unknown coding: {value}");
        group.refuse("9112 6.1", name, &[400, 501], coded(value));
    }
    for (name, fields) in [
        ("two_lines_of_chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ("chunked_in_another_case", "Transfer-Encoding: chunked\r\ntransfer-encoding: Chunked\r\n"),
        (
            "identity_in_a_second_line",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        ),
        (
            "gzip_in_a_second_line",
            "Transfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding: gzip\r\n",
        ),
    ] {
        group.malformed("9112 6.3", name, post(fields, HELLO));
    }
    let bytes = "GET /plaintext HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n";
    group.malformed("9112 6.3", "gzip_alone_on_a_get", bytes);
    let bytes = "GET /nothing HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n";
    group.malformed("9112 6.3", "chunked_not_last_on_an_unknown_path", bytes);
}

fn add_malformed(group: &mut CaseGroup) {
    for value in [
        "",
        " ",
        "\t",
        ",",
        ", ,",
        "chunke",
        "hunked",
        "chunkedx",
        "xchunked",
        "x chunked",
        "chunked x",
        "chunked chunked",
        "chun ked",
        "chunked\tx",
        "\"chunked\"",
        "'chunked'",
        "(chunked)",
        "chunked\\",
        "chunked/1",
        "chunked:",
        ":chunked",
        "chunked=1",
        "=chunked",
        "[chunked]",
        "<chunked>",
        "{chunked}",
        "chunked.",
        "chunked-",
        "-chunked",
        "chunked*",
        "ch%75nked",
        "chunKed\u{212a}",
        "chun\u{212a}ed",
        "\u{a0}chunked",
        "chunked\u{a0}",
        "ｃｈｕｎｋｅｄ",
    ] {
        group.malformed("9112 6.3", format!("malformed '{value}'"), coded(value));
    }
    // Chunked has no parameters, and a recipient should take them for an error: not chunked, or not known.
    for value in ["chunked;", "chunked;a=b", "chunked; a=\"b\"", "chunked ; a=b", ";chunked"] {
        let name = format!("parameter: {value}");
        group.refuse("9112 7.1", name, &[400, 501], coded(value));
    }
    for (name, fields) in [
        ("one_line_empty", "Transfer-Encoding:\r\n"),
        ("folded_before_the_value", "Transfer-Encoding:\r\n chunked\r\n"),
        ("folded_behind_the_value", "Transfer-Encoding: chunked\r\n gzip\r\n"),
        ("folded_in_the_list", "Transfer-Encoding: gzip,\r\n chunked\r\n"),
        ("space_before_the_colon", "Transfer-Encoding : chunked\r\n"),
        ("tab_before_the_colon", "Transfer-Encoding\t: chunked\r\n"),
        ("space_before_the_name", " Transfer-Encoding: chunked\r\n"),
        ("space_in_the_name", "Transfer Encoding: chunked\r\n"),
        ("nul_in_the_name", "Transfer-\0Encoding: chunked\r\n"),
        ("no_colon", "Transfer-Encoding chunked\r\n"),
        ("two_colons", "Transfer-Encoding:: chunked\r\n"),
        ("behind_a_bare_lf", "X: y\nTransfer-Encoding: chunked\r\n"),
        ("behind_a_bare_cr", "X: y\rTransfer-Encoding: chunked\r\n"),
        ("behind_a_nul", "X: y\0Transfer-Encoding: chunked\r\n"),
    ] {
        group.malformed("9112 6.3", format!("malformed line {name}"), post(fields, HELLO));
    }
    let letters = visible().filter(|byte| !b",;".contains(byte));
    for byte in controls_but_tab().chain(letters).chain(obs_text().step_by(5)) {
        let fields = concat(&[b"Transfer-Encoding: chunked", &[byte], b"\r\n"]);
        group.malformed("9112 6.3", byte_name("behind_chunked", byte), post(fields, HELLO));
        let fields = concat(&[b"Transfer-Encoding: ", &[byte], b"chunked\r\n"]);
        group.malformed("9112 6.3", byte_name("before_chunked", byte), post(fields, HELLO));
    }
}

/// HTTP/1.0 has no transfer codings; a message that has one was forwarded without care.
fn add_http_1_0(group: &mut CaseGroup) {
    for fields in [
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding:\r\n",
    ] {
        let bytes = format!("POST /echo HTTP/1.0\r\nHost: a\r\n{fields}\r\n{HELLO}");
        group.malformed("9112 6.1", format!("in HTTP/1.0: {fields:?}"), bytes);
    }
    let bytes = format!("POST /echo HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{HELLO}");
    group.refuse("9112 6.1", "unknown coding in HTTP/1.0", &[400, 501], bytes);
    let bytes = "GET /plaintext HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    group.malformed("9112 6.1", "chunked get in HTTP/1.0", bytes);
}
