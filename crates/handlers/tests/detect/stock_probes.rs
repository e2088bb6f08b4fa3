//! The stock probes, on bytes captured from clients and on bytes that only look alike.

use waterwheel_handlers::{Detection, Probe, StockProbe};

const STOCK: [StockProbe; 5] =
    [StockProbe::Tls, StockProbe::Http1, StockProbe::Http2, StockProbe::Resp, StockProbe::Proxy];

/// Returns the answer of a probe to the whole input, after checking the answers to all its prefixes: none but
/// `NeedMore` before the decision, the same after it, and independent of `seen`.
fn answer(probe: StockProbe, bytes: &[u8]) -> Detection {
    let mut decided = None;
    let mut undecided = 0;
    for length in 1..=bytes.len() {
        let answer = probe.probe(&bytes[..length], 0);
        assert_eq!(answer, decided.unwrap_or(answer), "{probe:?} {:?}", &bytes[..length]);
        for seen in 1..=undecided {
            let resumed = probe.probe(&bytes[..length], seen);
            assert_eq!(resumed, answer, "{probe:?} {:?} after {seen}", &bytes[..length]);
        }
        match answer {
            Detection::NeedMore => undecided = length,
            _ => decided = Some(answer),
        }
    }
    decided.unwrap_or(Detection::NeedMore)
}

/// Checks that exactly this probe matches, and all others decide against these bytes.
fn check(bytes: &[u8], expected: Option<StockProbe>) {
    for probe in STOCK {
        let is_expected = expected == Some(probe);
        let wanted = if is_expected { Detection::Match } else { Detection::NoMatch };
        assert_eq!(answer(probe, bytes), wanted, "{probe:?}: {}", bytes.escape_ascii());
    }
}

#[test]
fn k13_clients_are_recognised_by_captured_first_bytes() {
    // `openssl s_client` 3.0 with -tls1, -tls1_1, -tls1_2, -tls1_3, and curl: record, handshake, version, random.
    for hello in [
        &b"\x16\x03\x01\x00\x7f\x01\x00\x00\x7b\x03\x01\xc8\xb7\xf8\x45\x54\xbc\x51\x19\x01"[..],
        b"\x16\x03\x01\x00\x7f\x01\x00\x00\x7b\x03\x02\xd9\x34\xcc\x4f\xab\xbc\x34\x14\xa2",
        b"\x16\x03\x01\x00\xb7\x01\x00\x00\xb3\x03\x03\x03\x0c\x39\x01\xab\x3c\xb9\x98\x34",
        b"\x16\x03\x01\x00\xdc\x01\x00\x00\xd8\x03\x03\x82\x8d\xee\xfc\xf9\xba\xcd\xfa\x24",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x69\x4c\xf4\x73\x24\x44\x63\xcb\x6f",
    ] {
        check(hello, Some(StockProbe::Tls));
    }
    // Other versions of the record: SSL 3.0, a second hello of TLS 1.3; one byte in the first record.
    check(b"\x16\x03\x00\x00\x50\x01", Some(StockProbe::Tls));
    check(b"\x16\x03\x03\x40\x00\x01", Some(StockProbe::Tls));
    check(b"\x16\x03\x04\x00\x01\x01\x16", Some(StockProbe::Tls));

    // curl 7.88: --http1.0, --http1.1, -I, --request-target '*', CONNECT through a proxy, a target in UTF-8.
    for request in [
        &b"GET /a?b=c HTTP/1.0\r\nHost: 127.0.0.1:43735\r\nUser-Agent: curl/7.88.1\r\n"[..],
        b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:55243\r\n",
        b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1:45063\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:36823\r\n",
        b"CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n",
        b"GET /stra\xc3\x9fe HTTP/1.1\r\n",
        b"M-SEARCH * HTTP/1.1\r\n",
        b"BASELINE-CONTROL /a HTTP/1.1\r\n",
        b"PROXY / HTTP/1.1\r\n",
    ] {
        // The last one is also the beginning of a PROXY header, and better refused than taken for HTTP.
        if request.starts_with(b"PROXY") {
            assert_eq!(answer(StockProbe::Proxy, request), Detection::Match);
        } else {
            check(request, Some(StockProbe::Http1));
        }
    }
    // curl --http2-prior-knowledge.
    check(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03",
        Some(StockProbe::Http2),
    );
    // redis-cli: a command, HELLO 3, the first command of a terminal session.
    check(b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\n", Some(StockProbe::Resp));
    check(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", Some(StockProbe::Resp));
    check(b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n", Some(StockProbe::Resp));
    check(b"*1234567890\r\n", Some(StockProbe::Resp));
    // HAProxy with send-proxy and send-proxy-v2, and curl --haproxy-protocol.
    check(b"PROXY TCP4 127.0.0.1 127.0.0.1 42866 60061\r\n", Some(StockProbe::Proxy));
    check(b"PROXY UNKNOWN\r\n", Some(StockProbe::Proxy));
    check(
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\xa7\x72\xea\x9d",
        Some(StockProbe::Proxy),
    );
    check(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00", Some(StockProbe::Proxy));
}

#[test]
fn k13_bytes_that_look_alike_match_no_stock_probe() {
    for bytes in [
        // The hello of SSL 2.0 for TLS 1.0; DTLS; an alert; records that are empty or too long; a ServerHello.
        &b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10\x00\x00\x39"[..],
        b"\x16\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x16\x03\x01\x00\x00\x01",
        b"\x16\x03\x01\x40\x01\x01",
        b"\x16\x03\x01\xff\xff\x01",
        b"\x16\x03\x05\x00\x50\x01",
        b"\x16\x03\x01\x00\x50\x02",
        // HTTP/0.9 and other requests without a version; methods that are none; targets that are none.
        b"GET /\r\n",
        b"GET / \r\n",
        b"GET key\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"GET /a\tb HTTP/1.1\r\n",
        b"GET / HTTP/2.0\r\n",
        b"GET / HTTP/1.x\r\n",
        b"GET / HTTP/1.\r\n",
        b"GET / http/1.1\r\n",
        b"get / HTTP/1.1\r\n",
        b" GET / HTTP/1.1\r\n",
        b"\r\nGET / HTTP/1.1\r\n",
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSX",
        // RESP that is not a command, and inline commands.
        b"*\r\n",
        b"*-1\r\n",
        b"*1\n$4\r\nPING\r\n",
        b"*12345678901\r\n",
        b"* OK ready\r\n",
        b"$4\r\nPING\r\n",
        b"PING\r\n",
        b"+OK\r\n",
        // Neither a header nor its signature.
        b"PROXY\t",
        b"PROXYS\r\n",
        b"proxy TCP4",
        b"\r\n\r\n\r\n",
        b"\r\nhello",
        b"\n",
        b"hello\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\0",
        b"\xff\xff",
    ] {
        check(bytes, None);
    }
}

#[test]
fn k13_stock_probes_decide_at_the_first_byte_that_tells() {
    for (probe, needed) in [
        (StockProbe::Tls, &b"\x16\x03\x01\x02\x00\x01"[..]),
        (StockProbe::Http1, b"GET / HTTP/1.1"),
        (StockProbe::Http2, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (StockProbe::Resp, b"*12\r\n"),
        (StockProbe::Proxy, b"PROXY "),
        (StockProbe::Proxy, b"\r\n\r\n\0\r\nQUIT\n"),
    ] {
        assert_eq!(answer(probe, needed), Detection::Match);
        assert_eq!(answer(probe, &needed[..needed.len() - 1]), Detection::NeedMore);
    }
}

#[test]
fn k13_no_byte_of_a_split_request_line_is_looked_at_twice() {
    // Bytes that were seen are changed: a probe that reads them again would notice.
    let mut line = b"GET /".to_vec();
    line.resize(1000, b'x');
    assert_eq!(StockProbe::Http1.probe(&line, 0), Detection::NeedMore);
    line[10..900].fill(b'\n');
    line.extend_from_slice(b"y HTTP/1");
    assert_eq!(StockProbe::Http1.probe(&line, 1000), Detection::NeedMore);
    line.extend_from_slice(b".1");
    assert_eq!(StockProbe::Http1.probe(&line, 1008), Detection::Match);
}
