//! The syntax of a host with a port, as in the Host field and in request targets (RFC 3986, section 3.2).

use std::net::Ipv6Addr;

/// True if the bytes are `host [":" port]`, without userinfo. The host may be empty, and so may the port.
pub(crate) fn is_host_and_port(bytes: &[u8]) -> bool {
    let (host_is_valid, port) = match bytes.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            (is_ip_literal(&rest[..end]), &rest[end + 1..])
        }
        None => {
            let end = bytes.iter().position(|byte| !REG_NAME[usize::from(*byte)]);
            let Some(end) = end else { return true };
            if bytes[end] == b'%' {
                return is_escaped_host(bytes);
            }
            (true, &bytes[end..])
        }
    };
    host_is_valid && is_port_suffix(port)
}

/// True for nothing, or a colon with a port of 16 bits or none.
fn is_port_suffix(bytes: &[u8]) -> bool {
    let Some(digits) = bytes.strip_prefix(b":") else { return bytes.is_empty() };
    let mut port = 0u32;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return false;
        }
        port = port * 10 + u32::from(digit - b'0');
        if port > u32::from(u16::MAX) {
            return false;
        }
    }
    true
}

/// True for the inside of brackets: an IPv6 address, or a future version of addresses.
fn is_ip_literal(bytes: &[u8]) -> bool {
    if let Some(future) = bytes.strip_prefix(b"v").or_else(|| bytes.strip_prefix(b"V")) {
        let Some(dot) = memchr::memchr(b'.', future) else { return false };
        let (version, address) = (&future[..dot], &future[dot + 1..]);
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(|byte| *byte == b':' || is_reg_name_byte(*byte));
    }
    std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// True for a registered name with escaped bytes, and a port.
#[cold]
fn is_escaped_host(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        match rest {
            [b'%', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                rest = after;
            }
            [byte, after @ ..] if is_reg_name_byte(*byte) => rest = after,
            _ => return is_port_suffix(rest),
        }
    }
}

/// The bytes of registered names, which IPv4 addresses are too by the grammar, as a table.
static REG_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_reg_name_byte(byte as u8);
        byte += 1;
    }
    table
};

/// True for unreserved characters and sub-delimiters.
const fn is_reg_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h03_hosts_that_are_accepted() {
        let hosts = [
            "",
            ":",
            "a",
            "a:",
            "a:80",
            "a:0",
            "a:65535",
            "a:00080",
            "EXAMPLE.com",
            "a_b",
            "xn--bcher-kva.example",
            "1.2.3.4",
            "1.2.3.4:8080",
            "[::1]",
            "[::1]:80",
            "[::1]:",
            "[::ffff:1.2.3.4]",
            "[v1.a:b]",
            "a%20b",
            "a,b",
            "!$&'()*+,;=",
            "~",
        ];
        for host in hosts {
            assert!(is_host_and_port(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn h03_hosts_that_are_refused() {
        let hosts = [
            "a b",
            " ",
            "a/b",
            "a?b",
            "a#b",
            "user@a",
            "a@b:80",
            "a:b",
            "a:80:80",
            "a:-1",
            "a:+80",
            "a:65536",
            "a:99999999999999999999",
            "[::1",
            "::1",
            "[::1]x",
            "[]",
            "[1.2.3.4]",
            "[fe80::1%25eth0]",
            "[v.a]",
            "[v1.]",
            "[vg.a]",
            "[::1]:x",
            "%",
            "%2",
            "%zz",
            "a%",
            "\"a\"",
            "<a>",
            "a\\b",
            "a^b",
            "a|b",
            "a{b}",
            "a[b]",
            "\u{e9}",
            "a\tb",
            "a\0",
        ];
        for host in hosts {
            assert!(!is_host_and_port(host.as_bytes()), "{host}");
        }
    }
}
