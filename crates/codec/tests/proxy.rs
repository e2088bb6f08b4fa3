//! Decodes PROXY headers of both versions, split at every position, encodes them, and applies them to a channel.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use waterwheel_channel::{
    Address, Ctx, Encode, Handler, HandlerResult, In, InboundHandler, Msg, UnixAddress,
};
use waterwheel_codec::{
    ProxyAddresses, ProxyDecoder, ProxyEncoder, ProxyError, ProxyHeader, ProxyServer, ProxyTlv,
};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;
use waterwheel_testkit::embedded::Embedded;

mod support;

use support::{cuts, decode, parts, pieces, write, writer};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn verify() -> DecoderVerifier<ProxyDecoder> {
    DecoderVerifier::new(ProxyDecoder::new)
}

fn tcp(source: &str, destination: &str) -> ProxyHeader {
    ProxyHeader::tcp(source.parse().unwrap(), destination.parse().unwrap())
}

/// Builds the bytes of a version 2 header.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = (rest.len() as u16).to_be_bytes();
    [SIGNATURE, &[command, family], &length, rest].concat()
}

#[test]
fn k04_version_1_lines_are_decoded() {
    verify()
        .gives("PROXY TCP4 1.2.3.4 5.6.7.8 9 65535\r\n", [tcp("1.2.3.4:9", "5.6.7.8:65535")])
        .gives("PROXY TCP6 ::1 2001:db8::2 0 443\r\n", [tcp("[::1]:0", "[2001:db8::2]:443")])
        .gives("PROXY UNKNOWN\r\n", [ProxyHeader::default()])
        .gives("PROXY UNKNOWN whatever it says\r\n", [ProxyHeader::default()])
        .verify();
    let longest = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535".to_owned();
    let longest = format!("{longest}{}\r\n", " ".repeat(105 - longest.len()));
    assert_eq!(longest.len(), 107);
    verify().gives(longest, [ProxyHeader::default()]).verify();
}

#[test]
fn k04_version_2_headers_are_decoded() {
    let v4 = [&[1, 2, 3, 4, 5, 6, 7, 8, 0, 9][..], &[1, 0]].concat();
    let v6 = [&[0x20; 16][..], &[0; 15], &[1], &[0, 80, 1, 187]].concat();
    let unix = |path: &[u8]| [path, &vec![0; 108 - path.len()]].concat();
    let unix = [unix(b"/run/client"), unix(b"\0name")].concat();
    let datagram = ProxyAddresses::Ip {
        source: "1.2.3.4:9".parse().unwrap(),
        destination: "5.6.7.8:256".parse().unwrap(),
        is_datagram: true,
    };
    let paths = ProxyAddresses::Unix {
        source: UnixAddress::path("/run/client"),
        destination: UnixAddress::abstract_name("name"),
        is_datagram: false,
    };
    let six: SocketAddr = "[2020:2020:2020:2020:2020:2020:2020:2020]:80".parse().unwrap();
    let with_tlvs = ProxyHeader {
        tlvs: vec![
            ProxyTlv { kind: ProxyTlv::ALPN, value: "h2".into() },
            ProxyTlv { kind: 0xe0, value: "".into() },
        ],
        ..tcp("1.2.3.4:9", "5.6.7.8:256")
    };
    verify()
        .gives(binary(0x21, 0x11, &v4), [tcp("1.2.3.4:9", "5.6.7.8:256")])
        .gives(
            binary(0x21, 0x12, &v4),
            [ProxyHeader { addresses: Some(datagram), ..ProxyHeader::default() }],
        )
        .gives(binary(0x21, 0x21, &v6), [ProxyHeader::tcp(six, "[::1]:443".parse().unwrap())])
        .gives(
            binary(0x21, 0x31, &unix),
            [ProxyHeader { addresses: Some(paths), ..ProxyHeader::default() }],
        )
        .gives(binary(0x21, 0x11, &[&v4[..], b"\x01\0\x02h2\xe0\0\0"].concat()), [with_tlvs])
        .gives(binary(0x21, 0x00, b"skipped"), [ProxyHeader::default()])
        .gives(binary(0x20, 0x00, b""), [ProxyHeader::local()])
        .gives(binary(0x20, 0x11, &v4), [ProxyHeader::local()])
        .gives(binary(0x20, 0x11, b"too short"), [ProxyHeader::local()])
        .verify();
}

#[test]
fn k04_an_invalid_header_is_an_error_that_quotes_it() {
    let bare = "PROXY: expected line that ends with \\r\\n, found 'PROXY TCP4 1.2.3.4'";
    let cases: [(&[u8], &str); 12] = [
        (b"GET / HTTP/1.1\r\n", "PROXY: the connection begins with 'G' instead of a PROXY header"),
        (b"PROXYTCP4", "PROXY: the connection begins with 'PROXYT' instead of a PROXY header"),
        (b"proxy TCP4", "PROXY: the connection begins with 'p' instead of a PROXY header"),
        (
            b"\r\n\r\nGET",
            "PROXY: the connection begins with '\\r\\n\\r\\nG' instead of a PROXY header",
        ),
        (b"PROXY TCP4 1.2.3.4\n", bare),
        (b"PROXY TCP5 x\r\n", "PROXY: expected line of version 1, found 'PROXY TCP5 x'"),
        (b"PROXY \xff\r\n", "PROXY: expected line of text, found 'PROXY \\xff'"),
        (b"PROXY UNKNOWNX\r\n", "PROXY: expected line of version 1, found 'PROXY UNKNOWNX'"),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\x0c",
            "PROXY: expected version and command, found '\\x11'",
        ),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x22\x11\0\x0c",
            "PROXY: expected version and command, found '\\\"'",
        ),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x21\x13\0\x0c",
            "PROXY: expected family and transport, found '\\x13'",
        ),
        (
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0b",
            "PROXY: expected length of these addresses, found '\\x00\\x0b'",
        ),
    ];
    for (wire, error) in cases {
        verify().gives("PROXY UNKNOWN\r\n", [ProxyHeader::default()]).fails(wire, error).verify();
    }
    for line in [
        "TCP4 1.2.3.4 5.6.7.8 9",
        "TCP4 1.2.3.4 5.6.7.8 9 10 11",
        "TCP4  1.2.3.4 5.6.7.8 9 10",
        "TCP4 1.2.3.04 5.6.7.8 9 10",
        "TCP4 ::1 ::1 9 10",
        "TCP6 1.2.3.4 5.6.7.8 9 10",
        "TCP4 1.2.3.4 5.6.7.8 09 10",
        "TCP4 1.2.3.4 5.6.7.8 +9 10",
        "TCP4 1.2.3.4 5.6.7.8 65536 10",
        "TCP4 1.2.3.4 5.6.7.8 9 10 ",
        "TCP4",
        "",
    ] {
        let wire = Bytes::from(format!("PROXY {line}\r\n"));
        let outcomes = decode(ProxyDecoder::new(), [wire]);
        let [Err(error)] = &outcomes[..] else { panic!("{line}: {outcomes:?}") };
        assert!(error.starts_with("PROXY: expected line of version 1"), "{error}");
    }
}

#[test]
fn k04_header_length_is_limited() {
    let v1 = [&b"PROXY UNKNOWN "[..], &[b' '; 93]].concat();
    let too_long = |limit| ProxyError::TooLong { limit };
    verify().fails(v1, too_long(107)).verify();
    verify().fails([SIGNATURE, b"\x21\x11\x0f\xf1"].concat(), too_long(4096)).verify();
    DecoderVerifier::new(|| ProxyDecoder::new().max_header(28))
        .gives(binary(0x21, 0x11, &[0; 12]), [tcp("0.0.0.0:0", "0.0.0.0:0")])
        .fails([SIGNATURE, b"\x21\x11\0\x0d"].concat(), too_long(28))
        .verify();
}

#[test]
fn k04_malformed_tlvs_and_wrong_checksums_are_errors() {
    let bad = binary(0x21, 0x11, &[&[0; 12][..], b"\x01\0\x03h2"].concat());
    verify()
        .fails(bad, "PROXY: expected type, length and value, found '\\x01\\x00\\x03h2'")
        .verify();
    let cut = binary(0x21, 0x11, &[&[0; 12][..], b"\x01"].concat());
    verify().fails(cut, "PROXY: expected type, length and value, found '\\x01'").verify();
    let sum = ProxyTlv { kind: ProxyTlv::CRC32C, value: vec![0; 4].into() };
    let plain = tcp("1.2.3.4:9", "5.6.7.8:256");
    let mut wire = BytesMut::new();
    ProxyHeader { tlvs: vec![sum], ..plain.clone() }.encode_v2(&mut wire).unwrap();
    verify().gives(&wire, [plain]).verify();
    wire[17] ^= 1;
    let outcomes = decode(ProxyDecoder::new(), [wire.freeze()]);
    let [Err(error)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(error.starts_with("PROXY: checksum mismatch: the header says 0x"), "{error}");
    let short = binary(0x21, 0x11, &[&[0; 12][..], b"\x03\0\x01x"].concat());
    verify().fails(short, "PROXY: expected checksum, found 'x'").verify();
}

#[test]
fn k04_a_header_that_the_end_of_the_stream_cuts_off_is_an_error() {
    verify().gives("PROXY TC", []).fails_at_end(ProxyError::CutOff { unread: 8 }).verify();
    let half = &binary(0x21, 0x11, &[0; 12])[..20];
    verify().gives(half, []).fails_at_end(ProxyError::CutOff { unread: 20 }).verify();
    verify().gives("", []).verify();
}

#[test]
fn k04_a_header_that_a_version_cannot_express_is_refused() {
    let mut v1 = writer(Encode::new(ProxyEncoder::V1));
    let two_families = tcp("1.2.3.4:9", "[::1]:9");
    let entries = ProxyHeader {
        tlvs: vec![ProxyTlv { kind: 1, value: "".into() }],
        ..tcp("1.2.3.4:9", "1.2.3.4:9")
    };
    let refused = |what| ProxyError::NotWritten { version: 1, what }.to_string();
    assert_eq!(
        write(&mut v1, two_families.clone()).unwrap_err(),
        refused("addresses of two families")
    );
    assert_eq!(write(&mut v1, entries).unwrap_err(), refused("entries"));
    let mut v2 = writer(Encode::new(ProxyEncoder::V2));
    assert!(write(&mut v2, two_families).is_err());
    let long = ProxyTlv { kind: 1, value: vec![0; 70_000].into() };
    let long = ProxyHeader { tlvs: vec![long], ..tcp("1.2.3.4:9", "1.2.3.4:9") };
    assert!(write(&mut v2, long).is_err());
    assert!(
        parts(&mut v1).is_empty() && parts(&mut v2).is_empty(),
        "nothing of a refused header is written"
    );
}

/// Records the reads, headers and errors that handlers after a `ProxyServer` see.
struct AppRecorder(Rc<RefCell<Vec<String>>>);

impl Handler for AppRecorder {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().unwrap();
        self.0.borrow_mut().push(format!(
            "{} of {:?}",
            bytes.escape_ascii(),
            ctx.channel().peer_address()
        ));
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(header) = event.get::<ProxyHeader>() {
            let source = header.source().map(|source| source.to_string());
            self.0.borrow_mut().push(format!("from {source:?}, local {}", header.is_local));
        } else {
            ctx.fire_user_event(event);
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: waterwheel_executor::Error) -> HandlerResult {
        self.0.borrow_mut().push(error.to_string());
        Ok(())
    }
}

/// Feeds these bytes to a channel with a `ProxyServer`. Returns what the handler after it saw, whether the channel is
/// open afterwards, and the names of its handlers.
fn run_proxy_server(pieces: &[&'static [u8]], trusted: bool) -> (Vec<String>, bool, Vec<String>) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let recorder = AppRecorder(seen.clone());
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("proxy", ProxyServer::new(move |_: Option<&Address>| trusted))?;
            edit.add_last("app", recorder)?;
            Ok(())
        })
        .unwrap();
    for piece in pieces {
        if channel.channel().is_open() {
            channel.write_inbound(Bytes::from_static(piece));
        }
    }
    let names = channel.with_pipeline(|pipeline| pipeline.names()).unwrap_or_default();
    (seen.take(), channel.channel().is_open(), names)
}

#[test]
fn k04_the_channels_peer_address_becomes_the_headers_source() {
    let line = b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\nhello";
    for cut in 1..line.len() {
        let (seen, open, names) = run_proxy_server(&[&line[..cut], &line[cut..], b" again"], true);
        assert_eq!(
            seen[0], "from Some(\"1.2.3.4:9\"), local false",
            "the header event comes before the first byte"
        );
        let of = " of Some(Ip(1.2.3.4:9))";
        let text: String = seen[1..].iter().map(|line| line.strip_suffix(of).unwrap()).collect();
        assert_eq!((text.as_str(), open), ("hello again", true), "no byte is lost");
        assert!(
            !names.iter().any(|name| name == "proxy"),
            "the handler has removed itself: {names:?}"
        );
    }
}

#[test]
fn k04_the_proxys_own_connection_keeps_its_address() {
    let (seen, open, _) = run_proxy_server(&[b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0ping"], true);
    assert_eq!(seen[0], "from None, local true");
    assert!(seen[1].starts_with("ping of ") && !seen[1].contains("Ip("), "{seen:?}");
    assert!(open);
}

#[test]
fn k04_an_untrusted_peer_is_an_error_and_the_channel_closes() {
    let (seen, open, _) =
        run_proxy_server(&[b"PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\nhello", b"more"], false);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].ends_with("is not trusted to send PROXY headers"), "{seen:?}");
    assert!(!open);
}

#[test]
fn k04_a_connection_without_a_header_is_an_error_and_the_channel_closes() {
    let (seen, open, _) = run_proxy_server(&[b"GET / HTTP/1.1\r\n\r\n", b"more"], true);
    assert_eq!(seen, ["PROXY: the connection begins with 'G' instead of a PROXY header"]);
    assert!(!open);
}

#[test]
fn k04_another_read_is_requested_after_a_round_that_delivered_only_a_header() {
    struct ReadCounter(Rc<Cell<usize>>);

    impl Handler for ReadCounter {
        fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            self.0.set(self.0.get() + 1);
            ctx.read();
            Ok(())
        }
    }

    struct IgnoreReads;

    impl InboundHandler for IgnoreReads {
        type In = Bytes;

        fn on_read(&mut self, _: &Ctx<'_>, _: Bytes) -> HandlerResult {
            Ok(())
        }
    }

    let reads = Rc::new(Cell::new(0));
    let counted = ReadCounter(reads.clone());
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("reads", counted)?;
            edit.add_last("proxy", ProxyServer::new(|_: Option<&Address>| true))?;
            edit.add_last("app", In(IgnoreReads))?;
            Ok(())
        })
        .unwrap();
    channel.on_loop(|channel| channel.set_auto_read(false));
    channel.write_inbound(Bytes::from_static(b"PROXY UNK"));
    channel.on_loop(|channel| channel.read());
    channel.run();
    let before = reads.get();
    channel.write_inbound(Bytes::from_static(b"NOWN\r\n"));
    assert!(reads.get() > before, "otherwise the bytes after the header would never be read");
}

/// Models the version 2 decoder: reads the fields in the order of the specification.
fn model_v2(wire: &[u8]) -> Option<(ProxyHeader, usize)> {
    let length = usize::from(wire[14]) * 256 + usize::from(wire[15]);
    let body = wire.get(16..16 + length)?;
    if wire[12] == 0x20 || wire[13] == 0 {
        return Some((
            ProxyHeader { is_local: wire[12] == 0x20, ..ProxyHeader::default() },
            16 + length,
        ));
    }
    let (four, datagram) = (wire[13] / 16 == 1, wire[13] % 16 == 2);
    let text = |bytes: &[u8]| {
        if four {
            bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(".")
        } else {
            let groups = bytes
                .chunks(2)
                .map(|two| format!("{:x}", u16::from(two[0]) * 256 + u16::from(two[1])));
            format!("[{}]", groups.collect::<Vec<_>>().join(":"))
        }
    };
    let size = if four { 4 } else { 16 };
    let port = |at: usize| u16::from(body[at]) * 256 + u16::from(body[at + 1]);
    let source = format!("{}:{}", text(&body[..size]), port(2 * size));
    let destination = format!("{}:{}", text(&body[size..2 * size]), port(2 * size + 2));
    let mut tlvs = Vec::new();
    let mut rest = &body[2 * size + 4..];
    while !rest.is_empty() {
        let length = usize::from(rest[1]) * 256 + usize::from(rest[2]);
        tlvs.push(ProxyTlv { kind: rest[0], value: Bytes::copy_from_slice(&rest[3..3 + length]) });
        rest = &rest[3 + length..];
    }
    let addresses = ProxyAddresses::Ip {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        is_datagram: datagram,
    };
    Some((ProxyHeader { is_local: false, addresses: Some(addresses), tlvs }, 16 + length))
}

fn tlvs() -> impl Strategy<Value = Vec<ProxyTlv>> {
    let kind = any::<u8>().prop_filter("the decoder keeps it", |kind| *kind != ProxyTlv::CRC32C);
    let tlv = (kind, vec(any::<u8>(), 0..40));
    vec(tlv.prop_map(|(kind, value)| ProxyTlv { kind, value: value.into() }), 0..4)
}

fn headers() -> impl Strategy<Value = ProxyHeader> {
    let four = (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from);
    let six = (any::<[u8; 16]>(), any::<u16>()).prop_map(SocketAddr::from);
    let pair = prop_oneof![(four.clone(), four), (six.clone(), six)];
    prop_oneof![
        1 => Just(ProxyHeader::local()),
        1 => Just(ProxyHeader::default()),
        8 => (pair, any::<bool>(), tlvs()).prop_map(|((source, destination), is_datagram, tlvs)| {
            let addresses = Some(ProxyAddresses::Ip { source, destination, is_datagram });
            ProxyHeader { is_local: false, addresses, tlvs }
        }),
        1 => ("/[a-z]{1,20}", "[a-z]{1,20}", tlvs()).prop_map(|(source, destination, tlvs)| {
            let addresses = Some(ProxyAddresses::Unix {
                source: UnixAddress::path(source),
                destination: UnixAddress::abstract_name(destination),
                is_datagram: false,
            });
            ProxyHeader { is_local: false, addresses, tlvs }
        }),
    ]
}

proptest! {
    #[test]
    fn k05_written_headers_decode_to_themselves_however_the_stream_is_split(
        headers in vec(headers(), 1..5), cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let mut channel = writer(Encode::new(ProxyEncoder::V2));
        for header in &headers {
            write(&mut channel, header.clone()).unwrap();
        }
        let sent = parts(&mut channel).concat();
        let read = decode(ProxyDecoder::new(), pieces(&sent, &cuts, own_buffers));
        prop_assert_eq!(read, headers.into_iter().map(Ok).collect::<Vec<_>>());
    }

    #[test]
    fn k05_written_version_1_lines_decode_to_themselves(
        source in any::<([u8; 4], u16)>(), destination in any::<([u8; 4], u16)>(), cuts in cuts(),
    ) {
        let header = ProxyHeader::tcp(source.into(), destination.into());
        let mut wire = BytesMut::new();
        header.encode_v1(&mut wire).unwrap();
        prop_assert_eq!(decode(ProxyDecoder::new(), pieces(&wire, &cuts, false)), [Ok(header)]);
    }

    #[test]
    fn k04_binary_headers_match_a_model_of_the_specification(
        local in any::<bool>(),
        family in proptest::sample::select(vec![0x00u8, 0x11, 0x12, 0x21, 0x22]),
        addresses in any::<[u8; 36]>(),
        tlvs in tlvs(),
        cuts in cuts(),
    ) {
        let mut rest = addresses[..match family { 0 => 0, 0x11 | 0x12 => 12, _ => 36 }].to_vec();
        for tlv in tlvs {
            rest.put_u8(tlv.kind);
            rest.put_u16(tlv.value.len() as u16);
            rest.put_slice(&tlv.value);
        }
        let wire = binary(if local { 0x20 } else { 0x21 }, family, &rest);
        let (header, length) = model_v2(&wire).unwrap();
        prop_assert_eq!(length, wire.len());
        prop_assert_eq!(decode(ProxyDecoder::new(), pieces(&wire, &cuts, false)), [Ok(header)]);
    }
}
