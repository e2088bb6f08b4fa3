//! T03: ClientHellos, in any pieces, against rustls' own reading.

use std::io::Read;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use waterwheel_tls::rustls::crypto::CryptoProvider;
#[cfg(feature = "aws-lc-rs")]
use waterwheel_tls::rustls::crypto::aws_lc_rs as cryptography;
#[cfg(not(feature = "aws-lc-rs"))]
use waterwheel_tls::rustls::crypto::ring as cryptography;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::rustls::server::Acceptor;
use waterwheel_tls::rustls::{
    AlertDescription, CipherSuite, ClientConfig, ClientConnection, ProtocolVersion, RootCertStore,
    SignatureScheme, SupportedProtocolVersion, version,
};
use waterwheel_tls::{ClientHello, ClientHelloError, ClientHelloReader};

/// The configuration of a client.
#[derive(Clone, Debug)]
struct Offer {
    name: &'static str,
    alpn: Vec<Vec<u8>>,
    versions: Vec<&'static SupportedProtocolVersion>,
    has_sni: bool,
    has_classic_groups_only: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            name: "wheel.example",
            alpn: Vec::new(),
            versions: vec![&version::TLS13, &version::TLS12],
            has_sni: true,
            has_classic_groups_only: false,
        }
    }
}

impl Offer {
    /// Returns the records of the client's hello.
    fn hello(&self) -> Vec<u8> {
        let mut provider = cryptography::default_provider();
        if self.has_classic_groups_only {
            provider.kx_groups = vec![cryptography::kx_group::X25519];
        }
        let mut config = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::new(provider))
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = self.alpn.clone();
        config.enable_sni = self.has_sni;
        let name = ServerName::try_from(self.name).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut hello = Vec::new();
        client.write_tls(&mut hello).unwrap();
        hello
    }
}

/// The answer to a whole stream: the hello and how many bytes are left, or need-more, or the error.
type Answer = Result<Option<(ClientHello, usize)>, ClientHelloError>;

fn read(stream: &[u8], cuts: impl IntoIterator<Item = usize>) -> Answer {
    read_with(ClientHelloReader::new(), stream, cuts)
}

fn read_with(
    mut reader: ClientHelloReader,
    stream: &[u8],
    cuts: impl IntoIterator<Item = usize>,
) -> Answer {
    let mut at = 0;
    for end in cuts.into_iter().chain([stream.len()]) {
        let end = end.clamp(at, stream.len());
        let mut piece = Bytes::copy_from_slice(&stream[at..end]);
        if let Some(hello) = reader.feed(&mut piece)? {
            return Ok(Some((hello, stream.len() - end + piece.len())));
        }
        assert!(piece.is_empty(), "bytes are left, but more are needed");
        at = end;
    }
    Ok(None)
}

/// The name and the protocols as rustls reads them; `None` if it needs more or refuses.
fn accepted(mut stream: &[u8]) -> Option<(Option<String>, Vec<Vec<u8>>)> {
    let mut acceptor = Acceptor::default();
    loop {
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let hello = accepted.client_hello();
                let alpn = hello.alpn().map(|names| names.map(<[u8]>::to_vec).collect());
                return Some((hello.server_name().map(str::to_owned), alpn.unwrap_or_default()));
            }
            Ok(None) if stream.is_empty() => return None,
            Ok(None) => drop(acceptor.read_tls(&mut stream.by_ref()).ok()?),
            Err(_) => return None,
        }
    }
}

/// Puts the message of a hello into records of this length.
fn in_records_of(hello: &[u8], length: usize) -> Vec<u8> {
    let mut records = BytesMut::new();
    for part in hello[5..].chunks(length) {
        records.extend_from_slice(&[22, 3, 1]);
        records.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
        records.extend_from_slice(part);
    }
    records.to_vec()
}

/// A hello of few bytes with these extensions.
fn hello_with(extensions: &[(u16, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, body) in extensions {
        list.extend_from_slice(&kind.to_be_bytes());
        list.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
        list.extend_from_slice(body);
    }
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&u16::try_from(list.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&list);
    message(&body)
}

/// The body of a ClientHello in one record.
fn message(body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap();
    let mut record = vec![22, 3, 1];
    record.extend_from_slice(&(len + 4).to_be_bytes());
    record.extend_from_slice(&[1, 0]);
    record.extend_from_slice(&len.to_be_bytes());
    record.extend_from_slice(body);
    record
}

fn offers() -> impl Strategy<Value = Offer> {
    let names = prop_oneof![
        Just("wheel.example"),
        Just("WHEEL.Example"),
        Just("a.b.c.d.wheel.example"),
        Just("trailing.dot.example."),
        Just("192.0.2.1"),
        Just("xn--mller-kva.example"),
    ];
    let alpn = proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..8);
    let versions = prop_oneof![
        Just(vec![&version::TLS13, &version::TLS12]),
        Just(vec![&version::TLS13]),
        Just(vec![&version::TLS12]),
    ];
    (names, alpn, versions, any::<bool>(), any::<bool>()).prop_map(
        |(name, alpn, versions, has_sni, has_classic_groups_only)| Offer {
            name,
            alpn,
            versions,
            has_sni,
            has_classic_groups_only,
        },
    )
}

#[test]
fn t03_the_name_and_the_offers_of_a_hello_are_read() {
    let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let bytes = Offer { name: "Wheel.EXAMPLE", alpn, ..Offer::default() }.hello();
    let (hello, left) = read(&bytes, []).unwrap().unwrap();
    assert_eq!(left, 0);
    assert_eq!(hello.server_name(), Some("wheel.example"));
    assert_eq!(hello.alpn().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
    assert_eq!(hello.versions(), [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2]);
    assert!(hello.cipher_suites().contains(&CipherSuite::TLS13_AES_128_GCM_SHA256));
    assert!(hello.signature_schemes().contains(&SignatureScheme::ED25519));
    assert!(!hello.has_encrypted_hello());
    assert_eq!(hello.records(), &bytes[..], "as they came");
}

#[test]
fn t03_a_hello_of_tls_1_2_names_its_version() {
    let bytes = hello_with(&[]);
    let (hello, _) = read(&bytes, []).unwrap().unwrap();
    assert_eq!(hello.versions(), [ProtocolVersion::TLSv1_2]);
    assert_eq!((hello.server_name(), hello.alpn().count()), (None, 0));
}

#[test]
fn t03_bytes_behind_the_hello_are_left_alone() {
    let mut bytes = Offer::default().hello();
    bytes.extend_from_slice(b"\x17\x03\x03\x00\x01x");
    assert_eq!(read(&bytes, []).unwrap().unwrap().1, 6);
}

#[test]
fn t03_grease_is_tolerated_and_an_encrypted_hello_has_its_outer_name() {
    let name = b"\x00\x0e\x00\x00\x0bouter.proxy";
    let bytes = hello_with(&[
        (0x0a0a, b""),
        (0, name),
        (43, b"\x06\x1a\x1a\x03\x04\x03\x03"),
        (16, b"\x00\x06\x02\x2a\x2a\x02h2"),
        (0xfe0d, b"whatever is encrypted"),
        (0xfafa, b"\x00"),
    ]);
    let (hello, _) = read(&bytes, []).unwrap().unwrap();
    assert_eq!(hello.server_name(), Some("outer.proxy"));
    assert!(hello.has_encrypted_hello());
    assert_eq!(hello.versions()[0], ProtocolVersion::Unknown(0x1a1a));
    assert_eq!(hello.alpn().collect::<Vec<_>>(), [&b"\x2a\x2a"[..], b"h2"]);
}

#[test]
fn t03_the_structure_is_checked() {
    let malformed = |extensions: &[(u16, &[u8])]| match read(&hello_with(extensions), []) {
        Err(ClientHelloError::Malformed { reason, .. }) => reason,
        other => panic!("{extensions:?}: {other:?}"),
    };
    let beyond = "a length goes beyond the end";
    for (kind, body, reason) in [
        (0, &b"\x00\x00"[..], "the list of server names is empty"),
        (0, b"\x00\x03\x00\x00\x00", "the server name is empty"),
        (0, b"\x00\x08\x00\x00\x01a\x00\x00\x01b", "there is more than one server name"),
        (0, b"\x00\x09\x00\x00\x01a", beyond),
        (0, b"\x00\x04\x00\x00\x01ab", "bytes follow the last field"),
        (16, b"\x00\x00", "the list of application protocols is empty"),
        (16, b"\x00\x01\x00", "the name of an application protocol is empty"),
        (16, b"\x00\x03\x03h2", beyond),
        (43, b"\x00", "the list of versions is empty"),
        (43, b"\x03\x03\x04\x03", beyond),
        (13, b"\x00\x00", "the list of signature schemes is empty"),
        (13, b"\x00\x02\x04\x03\x00", "bytes follow the last field"),
    ] {
        assert_eq!(malformed(&[(kind, body)]), reason, "extension {kind} {body:?}");
    }
    assert_eq!(malformed(&[(99, b"a"), (5, b""), (99, b"b")]), "an extension appears twice");
    assert_eq!(malformed(&[(41, b""), (99, b"")]), "pre_shared_key is not the last extension");
}

#[test]
fn t03_a_name_that_is_no_dns_name_is_refused_and_an_address_is_none() {
    for name in ["a..b", "bad name", "-", "\u{e9}.example"] {
        let mut body = Vec::new();
        body.extend_from_slice(&u16::try_from(name.len() + 3).unwrap().to_be_bytes());
        body.push(0);
        body.extend_from_slice(&u16::try_from(name.len()).unwrap().to_be_bytes());
        body.extend_from_slice(name.as_bytes());
        let error = read(&hello_with(&[(0, &body)]), []).unwrap_err();
        assert_eq!(error, ClientHelloError::InvalidServerName, "{name}");
        assert_eq!(error.alert(), AlertDescription::IllegalParameter);
    }
    let address = hello_with(&[(0, b"\x00\x0c\x00\x00\x09192.0.2.1")]);
    assert_eq!(read(&address, []).unwrap().unwrap().0.server_name(), None);
}

#[test]
fn t03_other_beginnings_are_refused_at_their_first_wrong_byte() {
    for (stream, expected) in [
        (&b"GET /"[..], ClientHelloError::NotTls { at: 0, found: b'G' }),
        (b"\x16\x02", ClientHelloError::NotTls { at: 1, found: 2 }),
        (b"\x15\x03\x03\x00\x02\x02\x28", ClientHelloError::UnexpectedRecord { content_type: 21 }),
        (b"\x16\x03\x03\x00\x00", ClientHelloError::InvalidRecord { length: 0 }),
        (b"\x16\x03\x03\x48\x00", ClientHelloError::InvalidRecord { length: 0x4800 }),
        (b"\x16\x03\x03\x00\x04\x02", ClientHelloError::UnexpectedMessage { handshake_type: 2 }),
        (
            b"\x16\x03\x03\x00\x04\x01\x01\x00\x00",
            ClientHelloError::TooLong { limit: ClientHelloReader::DEFAULT_LIMIT },
        ),
    ] {
        assert_eq!(read(stream, []).unwrap_err(), expected);
        assert_eq!(read(&stream[..stream.len() - 1], []).ok(), {
            // One byte earlier the stream may still become a hello, unless its first byte decides.
            let first = matches!(expected, ClientHelloError::UnexpectedRecord { .. })
                || matches!(expected, ClientHelloError::NotTls { at: 0, .. });
            (!first).then_some(None)
        });
    }
}

#[test]
fn t03_a_record_that_goes_on_behind_the_hello_is_refused() {
    let mut bytes = hello_with(&[]);
    bytes[4] += 1; // The record is one byte longer than the message.
    let at = bytes.len() - 5;
    bytes.push(0);
    assert!(
        matches!(read(&bytes, []), Err(ClientHelloError::Malformed { at: found, .. }) if found == at)
    );
}

#[test]
fn t03_no_more_than_the_limit_is_held() {
    let hello = Offer::default().hello();
    let exact = ClientHelloReader::with_limit(hello.len());
    assert!(read_with(exact, &hello, []).unwrap().is_some());
    let limit = hello.len() - 1;
    let error = read_with(ClientHelloReader::with_limit(limit), &hello, []).unwrap_err();
    assert_eq!(error, ClientHelloError::TooLong { limit });
    for limit in 0..40 {
        // Records of one byte each, of a message that would fit.
        let stream = in_records_of(&hello_with(&[]), 1);
        let mut reader = ClientHelloReader::with_limit(limit);
        let mut fed = 0;
        let error = loop {
            match reader.feed(&mut Bytes::copy_from_slice(&stream[fed..=fed])) {
                Ok(hello) => assert!(hello.is_none()),
                Err(error) => break error,
            }
            fed += 1;
        };
        assert_eq!(error, ClientHelloError::TooLong { limit });
        assert!(reader.into_bytes().len() <= limit.max(5), "limit {limit}");
    }
}

#[test]
fn t03_the_bytes_of_an_unfinished_hello_are_not_lost() {
    let hello = Offer::default().hello();
    let mut reader = ClientHelloReader::new();
    assert!(reader.feed(&mut Bytes::copy_from_slice(&hello[..100])).unwrap().is_none());
    assert_eq!(reader.into_bytes(), &hello[..100]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn t03_real_hellos_are_read_as_rustls_reads_them(
        offer in offers(),
        record in 1usize..3_000,
        cut in 1usize..700,
    ) {
        let records = in_records_of(&offer.hello(), record);
        let (hello, left) = read(&records, (0..).step_by(cut).take_while(|&at| at < records.len()))
            .unwrap()
            .unwrap();
        prop_assert_eq!(left, 0);
        let found = (hello.server_name().map(str::to_owned), hello.alpn().map(<[u8]>::to_vec).collect());
        prop_assert_eq!(Some(found), accepted(&records));
        prop_assert_eq!(hello.records(), &records);
    }

    #[test]
    fn t03_what_rustls_accepts_of_damaged_hellos_is_read_the_same(
        offer in offers(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        record in prop_oneof![Just(usize::MAX), 1usize..300],
    ) {
        let mut hello = offer.hello();
        for (at, value) in damage {
            let at = at.index(hello.len());
            hello[at] = value;
        }
        let hello = if record == usize::MAX { hello } else { in_records_of(&hello, record) };
        if let Some(expected) = accepted(&hello) {
            let (found, _) = read(&hello, []).unwrap().expect("rustls needs no more");
            let found = (
                found.server_name().map(str::to_owned),
                found.alpn().map(<[u8]>::to_vec).collect(),
            );
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn t03_any_cut_gives_the_same_answer(
        offer in offers(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        record in 1usize..600,
        limit in prop_oneof![Just(64 * 1024), 0usize..3_000],
        tail in proptest::collection::vec(any::<u8>(), 0..10),
        mut cuts in proptest::collection::vec(0usize..3_000, 0..20),
    ) {
        let mut stream = in_records_of(&offer.hello(), record);
        for (at, value) in damage {
            let at = at.index(stream.len());
            stream[at] = value;
        }
        stream.extend_from_slice(&tail);
        cuts.sort_unstable();
        let reader = || ClientHelloReader::with_limit(limit);
        let whole = read_with(reader(), &stream, []);
        prop_assert_eq!(&whole, &read_with(reader(), &stream, cuts));
        prop_assert_eq!(&whole, &read_with(reader(), &stream, 0..stream.len()), "byte by byte");
    }

    #[test]
    fn t03_random_bytes_behind_a_valid_header_do_not_panic(
        body in proptest::collection::vec(any::<u8>(), 0..400),
        cut in 1usize..50,
    ) {
        let stream = message(&body);
        let whole = read(&stream, []);
        prop_assert!(!matches!(whole, Ok(None)), "the message is complete");
        prop_assert_eq!(&whole, &read(&stream, (0..stream.len()).step_by(cut)));
    }
}
