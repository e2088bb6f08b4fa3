//! Attacks before there are keys: another protocol, records and handshake messages of wrong lengths, types
//! and order, alerts.

use waterwheel_tls::TlsError;
use waterwheel_tls::rustls::{AlertDescription, Error, InvalidMessage, PeerMisbehaved};

use super::attacker::{
    ALERT, Attack, CHANGE_CIPHER_SPEC, DATA, HANDSHAKE, TLS_1_3, Victim, record, records,
    take_failure,
};
use crate::support::deliver;

const BOTH: [Victim; 2] = [Victim::Server, Victim::Client];

/// Sends `bytes` as the first ones of a connection, in pieces of `cut`. Returns the error, and the alert that was sent.
fn refuse(victim: Victim, bytes: &[u8], cut: usize) -> (TlsError, Option<AlertDescription>) {
    let mut attack = Attack::begin(victim, TLS_1_3);
    drop(attack.victim.sent());
    let held = attack.victim.channel.write_outbound(bytes::Bytes::from_static(b"held"));
    deliver(&mut attack.victim.channel, bytes, cut);
    let wire = attack.victim.sent();
    let error = take_failure(&mut attack.victim);
    let held = held.join().unwrap_err();
    assert_eq!(held.find::<TlsError>(), Some(&error), "the error of a message that was held");
    (error, only_alert(&wire))
}

/// Returns the one fatal alert on the wire, if there is anything.
fn only_alert(wire: &[u8]) -> Option<AlertDescription> {
    match records(wire)[..] {
        [] => None,
        [(ALERT, [2, description])] => Some(AlertDescription::from(*description)),
        ref other => panic!("{other:?} instead of an alert"),
    }
}

/// Asserts the outcome on both sides, for any cut.
#[track_caller]
fn assert_refused(name: &str, bytes: &[u8], error: Error, alert: Option<AlertDescription>) {
    for victim in BOTH {
        for cut in [usize::MAX, 1, 7] {
            let outcome = refuse(victim, bytes, cut);
            let expected = (TlsError::Handshake(error.clone()), alert);
            assert_eq!(outcome, expected, "{name}, {victim:?} in pieces of {cut}");
        }
    }
}

fn invalid(message: InvalidMessage) -> Error {
    Error::InvalidMessage(message)
}

/// A handshake message of this type and announced length, with this body.
fn message(kind: u8, length: u32, body: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = length.to_be_bytes();
    [&[kind][..], &length, body].concat()
}

#[test]
fn t08_another_protocol_is_named_by_its_first_bytes() {
    let ssl2 = b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10";
    let others: [(&[u8], &str); 6] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\\r\\n"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0-OpenSSH_"),
        (b"PROXY TCP4 192.0.2.1\r\n", "PROXY TCP4 192.0"),
        (ssl2, r"\x80.\x01\x00\x02\x00\x15\x00\x00\x00\x10"),
        (&[0; 40], r"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
        (b"G", "G"),
    ];
    for victim in BOTH {
        for (bytes, began_with) in others {
            let (error, alert) = refuse(victim, bytes, usize::MAX);
            assert_eq!(error, TlsError::NotTls { began_with: began_with.to_owned() });
            assert_eq!(alert, Some(AlertDescription::DecodeError), "{error}");
            let text = error.to_string();
            assert!(text.ends_with(&format!("does not speak TLS, it sent \"{began_with}\"")));
        }
    }
}

#[test]
fn t08_records_of_wrong_lengths_and_versions_are_refused_at_their_header() {
    let too_large = || invalid(InvalidMessage::MessageTooLarge);
    let alert = Some(AlertDescription::DecodeError);
    // 2^14 + 2048 is the largest length; none of the bytes that are announced is needed to refuse them.
    assert_refused("2^14 + 2049", b"\x16\x03\x01\x48\x01", too_large(), alert);
    assert_refused("65,535", b"\x16\x03\x03\xff\xff", too_large(), alert);
    assert_refused("65,535 of data", b"\x17\x03\x03\xff\xff", too_large(), alert);
    let unknown = invalid(InvalidMessage::UnknownProtocolVersion);
    assert_refused("version 5.0", b"\x16\x05\x00\x00\x05aaaaa", unknown, alert);
    for kind in [HANDSHAKE, ALERT, CHANGE_CIPHER_SPEC] {
        let empty = invalid(InvalidMessage::InvalidEmptyPayload);
        assert_refused("empty", &record(kind, b""), empty, alert);
    }
}

#[test]
fn t08_handshake_messages_that_are_too_long_are_refused_at_their_header() {
    let too_large = || invalid(InvalidMessage::HandshakePayloadTooLarge);
    let alert = Some(AlertDescription::DecodeError);
    for length in [0xff_ffff, 0x01_0000] {
        let header = record(HANDSHAKE, &message(1, length, b""));
        assert_refused("announced", &header, too_large(), alert);
    }
}

#[test]
fn t08_handshake_fragments_without_end_are_refused_within_64_kib() {
    // The longest ClientHello that is not refused by its header; in large records, and in records of one byte.
    let header = record(HANDSHAKE, &message(1, 0xffff, b""));
    for fragment in [16_000, 1] {
        for victim in BOTH {
            let mut attack = Attack::begin(victim, TLS_1_3);
            drop(attack.victim.sent());
            deliver(&mut attack.victim.channel, &header, usize::MAX);
            let fragment = record(HANDSHAKE, &vec![0; fragment]);
            let mut sent = header.len();
            while attack.victim.channel.channel().is_open() {
                sent += fragment.len();
                assert!(sent <= 2 * 65_535, "still collecting after {sent} bytes");
                deliver(&mut attack.victim.channel, &fragment, usize::MAX);
            }
            let alert = only_alert(&attack.victim.sent());
            assert_eq!(alert, Some(AlertDescription::DecodeError));
            let error = take_failure(&mut attack.victim);
            if fragment.len() < 100 {
                let expected = invalid(InvalidMessage::HandshakePayloadTooLarge);
                assert_eq!(error, TlsError::Handshake(expected));
            } else {
                // The message is whole before the limit is reached, and is no ClientHello.
                assert!(matches!(error, TlsError::Handshake(_)), "{error}");
            }
        }
    }
}

#[test]
fn t08_messages_out_of_order_are_refused() {
    for (name, bytes) in [
        ("data", record(DATA, b"hello")),
        ("empty data", record(DATA, b"")),
        ("ChangeCipherSpec", record(CHANGE_CIPHER_SPEC, &[1]).repeat(100)),
        ("Finished", record(HANDSHAKE, &message(20, 4, &[0; 4]))),
        ("KeyUpdate", record(HANDSHAKE, &message(24, 1, &[1]))),
        ("a message of an unknown type", record(HANDSHAKE, &message(99, 0, b""))),
    ] {
        for victim in BOTH {
            let (error, alert) = refuse(victim, &bytes, usize::MAX);
            assert_eq!(alert, Some(AlertDescription::UnexpectedMessage), "{name}: {error}");
            assert!(error.to_string().contains("unexpected"), "{name}: {error}");
        }
    }
    let mixed = [record(HANDSHAKE, &message(1, 100, b"")), record(ALERT, &[1, 0])].concat();
    assert_refused(
        "an alert in the middle of a message",
        &mixed,
        PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into(),
        Some(AlertDescription::UnexpectedMessage),
    );
}

#[test]
fn t08_malformed_messages_are_refused() {
    for (name, bytes) in [
        ("a hello of zeros", record(HANDSHAKE, &message(1, 100, &[0; 100]))),
        ("an empty hello", record(HANDSHAKE, &message(1, 0, b""))),
        ("an empty ServerHello", record(HANDSHAKE, &message(2, 0, b""))),
        ("ChangeCipherSpec 2", record(CHANGE_CIPHER_SPEC, &[2])),
        ("an alert of one byte", record(ALERT, &[2])),
        ("an alert of three bytes", record(ALERT, &[2, 40, 0])),
    ] {
        for victim in BOTH {
            let (error, alert) = refuse(victim, &bytes, usize::MAX);
            assert_eq!(alert, Some(AlertDescription::DecodeError), "{name}: {error}");
            assert!(
                matches!(error, TlsError::Handshake(Error::InvalidMessage(_))),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn t08_every_fatal_alert_ends_the_handshake_and_is_named() {
    for description in 0..=u8::MAX {
        let named = AlertDescription::from(description);
        for victim in BOTH {
            let outcome = refuse(victim, &record(ALERT, &[2, description]), usize::MAX);
            let expected = TlsError::Handshake(Error::AlertReceived(named));
            assert_eq!(outcome, (expected, None), "an alert is not answered");
        }
    }
    for level in [0, 3, 255] {
        let (error, alert) = refuse(Victim::Server, &record(ALERT, &[level, 40]), usize::MAX);
        assert_eq!(alert, Some(AlertDescription::IllegalParameter), "level {level}: {error}");
    }
}

#[test]
fn t08_four_warnings_are_ignored_and_the_fifth_is_refused() {
    // Before the keys, close_notify too is not authentic.
    for description in [0, 41, 90, 100, 255] {
        let warning = record(ALERT, &[1, description]);
        for victim in BOTH {
            let mut attack = Attack::begin(victim, TLS_1_3);
            deliver(&mut attack.victim.channel, &warning.repeat(4), usize::MAX);
            attack.exchange().unwrap();
            attack.assert_established(TLS_1_3);
        }
        assert_refused(
            "five warnings",
            &warning.repeat(5),
            PeerMisbehaved::TooManyWarningAlertsReceived.into(),
            Some(AlertDescription::UnexpectedMessage),
        );
    }
}
