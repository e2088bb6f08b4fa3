//! T08: peers that speak something else, or lie.

use bytes::Bytes;
use proptest::prelude::*;
use waterwheel_channel::ChannelOptions;
use waterwheel_tls::{TlsError, TlsHandler, TlsOptions};

use crate::support::{Configs, End, Link, deliver};

/// The type of a record with an alert.
const ALERT: u8 = 21;

fn server() -> End {
    End::new(TlsHandler::server(Configs::new().server), ChannelOptions::default())
}

#[test]
fn t08_plain_http_is_refused_with_an_alert_and_a_clear_error() {
    let mut server = server();
    deliver(&mut server.channel, b"GET / HTTP/1.1\r\nHost: wheel.example\r\n\r\n", usize::MAX);
    let error = server.channel.read_error().unwrap();
    assert!(matches!(error.find::<TlsError>(), Some(TlsError::Handshake(_))), "{error}");
    assert_eq!(server.sent().first(), Some(&ALERT), "sent before the close");
    assert!(!server.channel.channel().is_open());
    assert!(server.channel.read_error().is_none(), "one error, not two");
}

#[test]
fn t08_a_record_that_is_too_long_is_refused() {
    let mut server = server();
    deliver(&mut server.channel, b"\x16\x03\x01\xff\xff", 1);
    deliver(&mut server.channel, &[0; 70_000], 4_096);
    let error = server.channel.read_error().unwrap();
    assert!(matches!(error.find::<TlsError>(), Some(TlsError::Handshake(_))), "{error}");
}

#[test]
fn t08_a_damaged_record_ends_the_connection_after_the_data_before_it() {
    let mut link = Link::established(TlsOptions::default());
    drop(link.client.channel.write_outbound(Bytes::from_static(b"good")));
    drop(link.client.channel.write_outbound(Bytes::from_static(b"bad")));
    let mut sent = link.client.sent();
    *sent.last_mut().unwrap() ^= 1;
    deliver(&mut link.server.channel, &sent, usize::MAX);
    assert_eq!(link.server.received(), b"good");
    let error = link.server.channel.read_error().unwrap();
    let expected = TlsError::Protocol(waterwheel_tls::rustls::Error::DecryptError);
    assert_eq!(error.find::<TlsError>(), Some(&expected));
    assert!(!link.server.sent().is_empty(), "an alert");
    assert!(!link.server.channel.channel().is_open());
}

#[test]
fn t08_handshake_fragments_without_end_are_refused_within_64_kib() {
    let mut server = server();
    // A ClientHello that claims 16 MiB, in records of one byte.
    deliver(&mut server.channel, b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", usize::MAX);
    let mut sent = 0;
    while server.channel.channel().is_open() {
        assert!(sent < 100_000, "still collecting");
        deliver(&mut server.channel, b"\x16\x03\x01\x00\x01\x00", usize::MAX);
        sent += 1;
    }
    assert!(server.channel.read_error().unwrap().find::<TlsError>().is_some());
}

#[test]
fn t08_empty_records_without_end_are_refused() {
    let mut link = Link::established(TlsOptions::default());
    let mut sent = 0;
    while link.server.channel.channel().is_open() {
        assert!(sent < 10_000, "still reading");
        deliver(&mut link.server.channel, b"\x16\x03\x03\x00\x00", usize::MAX);
        sent += 1;
    }
    assert!(link.server.channel.read_error().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn t08_random_bytes_neither_panic_nor_establish(
        bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
        cut in 1usize..500,
    ) {
        let mut server = server();
        deliver(&mut server.channel, &bytes, cut);
        server.channel.finish_inbound();
        prop_assert!(server.events.handshake().is_none());
        prop_assert!(server.channel.read_error().is_some());
        prop_assert!(!server.channel.channel().is_open());
    }

    #[test]
    fn t08_a_damaged_handshake_fails_on_one_side_at_least(at in 0usize..3_000, bit in 0u8..8) {
        let mut link = Link::new();
        let mut hello = link.client.sent();
        // Behind the header of the record, whose version means nothing and is not authenticated.
        let at = 5 + at % (hello.len() - 5);
        hello[at] ^= 1 << bit;
        deliver(&mut link.server.channel, &hello, 100);
        link.exchange();
        link.server.channel.finish_inbound();
        link.client.channel.finish_inbound();
        prop_assert!(link.client.events.handshake().is_none() || link.server.events.handshake().is_none());
        prop_assert!(!link.server.channel.channel().is_open());
    }
}
