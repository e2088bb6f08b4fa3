//! The field Host: its count and its syntax (RFC 9112, 3.2; RFC 9110, 7.2; RFC 3986, 3.2).

use super::super::case::{AnswerRule, Case, Ending, Expectation};
use super::super::group::CaseGroup;
use super::super::messages::{PROBE, byte_name, concat, controls_but_tab, obs_text};

pub(crate) fn h03_host() -> Vec<Case> {
    let mut group = CaseGroup::new("h03_host");
    add_counts(&mut group);
    add_valid_values(&mut group);
    add_invalid_values(&mut group);
    add_bytes(&mut group);
    group.finish()
}

fn with_host(value: impl AsRef<[u8]>) -> Vec<u8> {
    concat(&[b"GET /plaintext HTTP/1.1\r\nHost: ", value.as_ref(), b"\r\n\r\n"])
}

fn add_counts(group: &mut CaseGroup) {
    for (name, fields) in [
        ("no_host", ""),
        ("no_host_but_another_field", "X: a\r\n"),
        ("another_name_that_begins_with_host", "Hosts: a\r\n"),
        ("another_name_that_ends_with_host", "X-Host: a\r\n"),
        ("two_equal_hosts", "Host: a\r\nHost: a\r\n"),
        ("two_different_hosts", "Host: a\r\nHost: b\r\n"),
        ("two_hosts_in_different_letters", "Host: a\r\nhOST: a\r\n"),
        ("two_hosts_with_a_field_between", "Host: a\r\nX: y\r\nHost: a\r\n"),
        ("two_empty_hosts", "Host:\r\nHost:\r\n"),
        ("an_empty_host_and_another", "Host:\r\nHost: a\r\n"),
        ("another_host_and_an_empty_one", "Host: a\r\nHost:\r\n"),
        ("three_hosts", "Host: a\r\nHost: a\r\nHost: a\r\n"),
        ("two_hosts_one_invalid", "Host: a\r\nHost: a b\r\n"),
    ] {
        let bytes = format!("GET /plaintext HTTP/1.1\r\n{fields}\r\n");
        group.malformed("9112 3.2", name, bytes);
    }
    for (name, fields) in [
        ("lower_case_name", "host: a\r\n"),
        ("upper_case_name", "HOST: a\r\n"),
        ("mixed_case_name", "hOsT: a\r\n"),
        ("as_the_last_field", "X: y\r\nHost: a\r\n"),
        ("between_fields", "X: y\r\nHost: a\r\nZ: z\r\n"),
        ("without_white_space", "Host:a\r\n"),
        ("with_white_space_around", "Host: \t a \t \r\n"),
        ("empty", "Host:\r\n"),
        ("of_white_space_only", "Host: \t \r\n"),
    ] {
        let bytes = format!("GET /plaintext HTTP/1.1\r\n{fields}\r\n");
        group.accept("9112 3.2", format!("host_{name}"), bytes);
    }
    let hello = AnswerRule::hello().absent("transfer-encoding");
    for (name, fields) in
        [("no_host", ""), ("one_host", "Host: a\r\n"), ("empty_host", "Host:\r\n")]
    {
        let bytes = format!("GET /plaintext HTTP/1.0\r\n{fields}\r\n").into_bytes();
        let expectation = Expectation::new([hello.clone()], Ending::Closed);
        let pieces = vec![bytes, PROBE.to_vec()];
        group.custom("9112 3.2", format!("http_1_0_with_{name}"), pieces, [expectation]);
    }
    for (name, fields) in [
        ("two_hosts", "Host: a\r\nHost: a\r\n"),
        ("a_host_with_a_space", "Host: a b\r\n"),
        ("a_host_with_userinfo", "Host: u@a\r\n"),
        ("a_host_with_a_wrong_port", "Host: a:b\r\n"),
    ] {
        let bytes = format!("GET /plaintext HTTP/1.0\r\n{fields}\r\n");
        group.malformed("9112 3.2", format!("http_1_0_with_{name}"), bytes);
    }
}

fn add_valid_values(group: &mut CaseGroup) {
    let label = "a".repeat(63);
    for value in [
        "a",
        "A",
        "localhost",
        "example.com",
        "Example.COM",
        "example.com.",
        "example.com:80",
        "example.com:",
        "example.com:0",
        "example.com:1",
        "example.com:65535",
        "example.com:00080",
        "a-b",
        "-a-",
        "a_b",
        "a~b",
        "a.b.c.d.e.f",
        "1",
        "1.2",
        "127.0.0.1",
        "127.0.0.1:8080",
        "255.255.255.255",
        "256.256.256.256",
        "1.2.3.4.5",
        "xn--bcher-kva.example",
        "b%C3%BCcher.example",
        "%61",
        "%61:80",
        "a%2fb",
        "!$&'()*+,;=",
        "a!b",
        "a,b",
        "a;b",
        "a=b",
        "a'b",
        "(a)",
        "[::]",
        "[::1]",
        "[::1]:80",
        "[::1]:",
        "[::1]:65535",
        "[2001:db8::1]",
        "[2001:DB8::A]",
        "[1:2:3:4:5:6:7:8]",
        "[1::8]",
        "[1:2:3:4:5:6:7::]",
        "[::2:3:4:5:6:7:8]",
        "[::ffff:192.0.2.1]",
        "[64:ff9b::192.0.2.33]:80",
        "[0000:0000:0000:0000:0000:0000:0000:0000]",
        "[v1.x]",
        "[v1.x]:80",
        "[vF.a:b]",
        "[v1a.!$&'()*+,;=-._~:]",
        "[V1.x]",
        &label,
    ] {
        group.accept("3986 3.2.2", format!("valid {value}"), with_host(value));
    }
}

fn add_invalid_values(group: &mut CaseGroup) {
    for value in [
        "u@a",
        "u:p@a",
        "u:p@a:80",
        "@a",
        "a@",
        "@",
        "a/",
        "/",
        "a/b",
        "/a",
        "//a",
        "http://a",
        "http://a/",
        "https://a:80",
        "a?",
        "a?b",
        "?",
        "a#",
        "a#b",
        "#",
        "a b",
        "a\tb",
        "a :80",
        "a: 80",
        "a:8 0",
        "a:\t80",
        "a, b",
        "a; b",
        "a:b",
        "a:80b",
        "a:b80",
        "a:0x50",
        "a:-80",
        "a:+80",
        "a:80.0",
        "a:65536",
        "a:99999",
        "a:100000",
        "a:4294967376",
        "a:18446744073709551696",
        "a:99999999999999999999999",
        "a:80:80",
        "a::80",
        "a::",
        "::",
        "::1",
        "::1:80",
        "1:2:3:4:5:6:7:8",
        "[",
        "]",
        "[]",
        "[]:80",
        "[::1",
        "::1]",
        "[[::1]]",
        "[::1]]",
        "[[::1]",
        "[::1]a",
        "a[::1]",
        "[::1]80",
        "[::1]:b",
        "[::1]:65536",
        "[::1]::80",
        "[::1] :80",
        "[ ::1]",
        "[::1 ]",
        "[a]",
        "[a.b]",
        "[1]",
        "[1.2.3.4]",
        "[:]",
        "[:::]",
        "[::1::2]",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1:2:3:4:5:6:7:8::]",
        "[::12345]",
        "[::g]",
        "[::1.2.3]",
        "[::1.2.3.4.5]",
        "[::1.2.3.256]",
        "[::1%eth0]",
        "[::1%25eth0]",
        "[::1/64]",
        "[v.x]",
        "[v1]",
        "[v1.]",
        "[vg.x]",
        "[1.x]",
        "[v1.x/y]",
        "[v1.x@y]",
        "[v1.x%20]",
        "a[b",
        "a]b",
        "%",
        "a%",
        "a%2",
        "a%zz",
        "a%2g",
        "a%g2",
        "%%61",
        "%u0061",
        "a\\b",
        "a^b",
        "a`b",
        "a{b}",
        "a|b",
        "a\"b",
        "\"a\"",
        "<a>",
        "a<b",
        "bücher.example",
    ] {
        group.malformed("3986 3.2.2", format!("invalid {value}"), with_host(value));
    }
}

fn add_bytes(group: &mut CaseGroup) {
    for byte in controls_but_tab().chain(obs_text().step_by(5)) {
        let value = concat(&[b"a", &[byte], b"b"]);
        group.malformed("9112 3.2", byte_name("in_the_host", byte), with_host(value));
        let value = concat(&[b"a:8", &[byte], b"0"]);
        group.malformed("9112 3.2", byte_name("in_the_port", byte), with_host(value));
        let value = concat(&[b"[::", &[byte], b"1]"]);
        group.malformed("9112 3.2", byte_name("in_the_brackets", byte), with_host(value));
    }
}
