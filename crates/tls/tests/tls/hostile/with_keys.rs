//! Attacks of a peer that has the keys after the handshake, and of another that inserts bytes between its records.

use bytes::Bytes;
use waterwheel_tls::TlsError;
use waterwheel_tls::rustls::{AlertDescription, Error, InvalidMessage, PeerMisbehaved};

use super::attacker::{
    ALERT, ALL, Attack, CHANGE_CIPHER_SPEC, DATA, Forger, HANDSHAKE, TLS_1_2, TLS_1_3, Victim,
    record, take_failure,
};
use crate::support::{End, deliver};

/// The one fatal alert, decrypted.
fn only_alert(forger: &mut Forger, wire: &[u8]) -> Option<AlertDescription> {
    match forger.open(wire).as_slice() {
        [] => None,
        [(ALERT, alert)] if alert[0] == 2 => Some(AlertDescription::from(alert[1])),
        other => panic!("{other:?} instead of an alert"),
    }
}

/// Sends encrypted records of these types and payloads after good data. Returns the error, and the alert that was sent.
fn refuse(
    mut victim: End,
    mut forger: Forger,
    records: &[(u8, &[u8])],
) -> (TlsError, Option<AlertDescription>) {
    let mut wire = forger.record(DATA, b"good");
    for (kind, payload) in records {
        wire.extend(forger.record(*kind, payload));
    }
    deliver(&mut victim.channel, &wire, usize::MAX);
    assert_eq!(victim.received(), b"good", "the data before, and no more");
    let sent = victim.sent();
    (take_failure(&mut victim), only_alert(&mut forger, &sent))
}

/// Asserts the outcome on both sides and in both versions.
#[track_caller]
fn assert_refused(
    name: &str,
    records: &[(u8, &[u8])],
    error: impl Into<Error>,
    alert: Option<AlertDescription>,
) {
    let expected = (TlsError::Protocol(error.into()), alert);
    for (victim, version) in ALL {
        let (end, forger) = Attack::established(victim, version).forge();
        assert_eq!(refuse(end, forger, records), expected, "{name}, {victim:?} in {version:?}");
    }
}

#[test]
fn t08_records_that_are_too_large_are_refused_with_record_overflow() {
    for (victim, version) in ALL {
        let (mut end, mut forger) = Attack::established(victim, version).forge();
        let largest = forger.record(DATA, &[7; 16_384]);
        deliver(&mut end.channel, &largest, 1_000);
        assert_eq!(end.received(), [7; 16_384]);
        let outcome = refuse(end, forger, &[(DATA, &[7; 16_385])]);
        let expected = TlsError::Protocol(Error::PeerSentOversizedRecord);
        assert_eq!(outcome, (expected, Some(AlertDescription::RecordOverflow)));
    }
}

#[test]
fn t08_empty_records_in_a_row_are_limited_to_32() {
    for (victim, version) in ALL {
        let (mut end, mut forger) = Attack::established(victim, version).forge();
        for _ in 0..1_000 {
            let mut wire: Vec<u8> = (0..32).flat_map(|_| forger.record(DATA, b"")).collect();
            wire.extend(forger.record(DATA, b"."));
            deliver(&mut end.channel, &wire, usize::MAX);
        }
        assert_eq!(end.received(), b".".repeat(1_000), "no message for an empty record");
    }
    // rustls has no alert for it.
    for kind in [DATA, HANDSHAKE] {
        let flood: [(u8, &[u8]); 33] = [(kind, b""); 33];
        assert_refused("empty", &flood, PeerMisbehaved::TooManyEmptyFragments, None);
    }
}

#[test]
fn t08_empty_handshake_records_between_data_are_refused_when_64_kib_are_held() {
    for (victim, version) in ALL {
        let (mut end, mut forger) = Attack::established(victim, version).forge();
        let mut sent = 0;
        while end.channel.channel().is_open() {
            assert!(sent < 256 * 1024, "still reading");
            let mut wire = forger.record(HANDSHAKE, b"");
            wire.extend(forger.record(DATA, b"."));
            sent += wire.len();
            deliver(&mut end.channel, &wire, usize::MAX);
        }
        // rustls does not let go of them.
        let full = InvalidMessage::HandshakePayloadTooLarge.into();
        assert_eq!(take_failure(&mut end), TlsError::Protocol(full));
    }
}

#[test]
fn t08_every_fatal_alert_ends_the_connection_and_is_named() {
    for description in 1..=u8::MAX {
        let named = AlertDescription::from(description);
        let (victim, version) = ALL[usize::from(description) % ALL.len()];
        let (end, forger) = Attack::established(victim, version).forge();
        let outcome = refuse(end, forger, &[(ALERT, &[2, description])]);
        let expected = TlsError::Protocol(Error::AlertReceived(named));
        assert_eq!(outcome, (expected, None), "an alert is not answered");
    }
}

#[test]
fn t08_warnings_are_refused_or_limited() {
    let no_certificate = || Error::AlertReceived(AlertDescription::NoCertificate);
    for (victim, version) in ALL {
        let (mut end, mut forger) = Attack::established(victim, version).forge();
        for _ in 0..4 {
            let canceled = forger.record(ALERT, &[1, 90]);
            deliver(&mut end.channel, &canceled, usize::MAX);
        }
        assert!(end.channel.channel().is_open(), "user_canceled is ignored");
        let outcome = refuse(end, forger, &[(ALERT, &[1, 90])]);
        let many = PeerMisbehaved::TooManyWarningAlertsReceived.into();
        assert_eq!(outcome, (TlsError::Protocol(many), None), "the fifth");
        if version == TLS_1_3 {
            // RFC 8446, 6: there are no other warnings any more.
            let (end, forger) = Attack::established(victim, version).forge();
            let outcome = refuse(end, forger, &[(ALERT, &[1, 41])]);
            let alert = Some(AlertDescription::DecodeError);
            assert_eq!(outcome, (TlsError::Protocol(no_certificate()), alert));
        }
    }
    let alert = Some(AlertDescription::IllegalParameter);
    assert_refused("a level that does not exist", &[(ALERT, &[3, 41])], no_certificate(), alert);
}

#[test]
fn t08_handshake_messages_after_the_handshake_are_bounded_and_not_mixed_with_data() {
    let too_large = InvalidMessage::HandshakePayloadTooLarge;
    let ticket_header: &[u8] = &[4, 0, 0xff, 0xff];
    assert_refused("16 MiB", &[(HANDSHAKE, &[4, 0xff, 0xff, 0xff])], too_large, None);
    let mut endless = vec![(HANDSHAKE, ticket_header)];
    endless.extend([(HANDSHAKE, &[0][..]); 4_000]);
    assert_refused("fragments without end", &endless, too_large, None);
    let mixed = PeerMisbehaved::MessageInterleavedWithHandshakeMessage;
    assert_refused("mixed", &[(HANDSHAKE, ticket_header), (DATA, b"data")], mixed, None);
    let invalid = InvalidMessage::InvalidContentType;
    let alert = Some(AlertDescription::DecodeError);
    assert_refused("a heartbeat", &[(24, &[1, 0x40, 0])], invalid, alert);
}

/// A ClientHello that is complete, for a renegotiation.
fn client_hello(version: waterwheel_tls::rustls::ProtocolVersion) -> Vec<u8> {
    let hello = Attack::begin(Victim::Server, version).take_flight();
    hello[5..].to_vec()
}

#[test]
fn t08_one_renegotiation_is_declined_and_a_second_ends_the_connection() {
    let hello = client_hello(TLS_1_2);
    for (victim, request) in [(Victim::Server, &hello[..]), (Victim::Client, &[0, 0, 0, 0])] {
        let (mut end, mut forger) = Attack::established(victim, TLS_1_2).forge();
        let wire = forger.record(HANDSHAKE, request);
        deliver(&mut end.channel, &wire, usize::MAX);
        let answer = end.sent();
        assert_eq!(forger.open(&answer), [(ALERT, vec![1, 100])], "no_renegotiation");
        assert!(end.channel.channel().is_open());
        let outcome = refuse(end, forger, &[(HANDSHAKE, request)]);
        let many = PeerMisbehaved::TooManyRenegotiationRequests.into();
        assert_eq!(outcome, (TlsError::Protocol(many), None));
    }
    let hello = client_hello(TLS_1_3);
    for (victim, request) in [(Victim::Server, &hello[..]), (Victim::Client, &[0, 0, 0, 0])] {
        let (end, forger) = Attack::established(victim, TLS_1_3).forge();
        let (error, alert) = refuse(end, forger, &[(HANDSHAKE, request)]);
        assert_eq!(alert, Some(AlertDescription::UnexpectedMessage), "{error}");
    }
}

#[test]
fn t08_key_updates_are_limited_to_32_without_data_and_one_answer_is_held() {
    for victim in [Victim::Server, Victim::Client] {
        // The victim's answers are never read.
        let mut attack = Attack::established(victim, TLS_1_3);
        attack.victim.channel.set_room(0);
        for _ in 0..32 {
            attack.peer.refresh_traffic_keys().unwrap();
            let update = attack.take_flight();
            deliver(&mut attack.victim.channel, &update, usize::MAX);
            assert!(attack.victim.channel.channel().pending_bytes() < 100, "one answer at most");
        }
        assert!(attack.victim.channel.channel().is_open());
        attack.peer.refresh_traffic_keys().unwrap();
        let update = attack.take_flight();
        deliver(&mut attack.victim.channel, &update, usize::MAX);
        let many = PeerMisbehaved::TooManyKeyUpdateRequests.into();
        assert_eq!(take_failure(&mut attack.victim), TlsError::Protocol(many));
    }
}

#[test]
fn t08_key_updates_between_data_hold_nothing_however_many_there_are() {
    for victim in [Victim::Server, Victim::Client] {
        let mut attack = Attack::established(victim, TLS_1_3);
        attack.victim.channel.set_room(0);
        for _ in 0..1_000 {
            std::io::Write::write_all(&mut attack.peer.writer(), b"!").unwrap();
            attack.peer.refresh_traffic_keys().unwrap();
            let update = attack.take_flight();
            deliver(&mut attack.victim.channel, &update, usize::MAX);
            assert!(attack.victim.channel.channel().pending_bytes() < 100, "one answer at most");
        }
        assert_eq!(attack.victim.received(), b"!".repeat(1_000));
        // The answer goes out with the next data, and the keys are right.
        attack.victim.channel.clear_faults();
        drop(attack.victim.channel.write_outbound(Bytes::from_static(b"still there")));
        attack.exchange().unwrap();
        let mut answer = [0; 11];
        std::io::Read::read_exact(&mut attack.peer.reader(), &mut answer).unwrap();
        assert_eq!(&answer, b"still there");
    }
}

#[test]
fn t08_a_key_update_must_end_its_record_and_does_not_exist_in_tls_1_2() {
    for (victim, version) in ALL {
        let (end, forger) = Attack::established(victim, version).forge();
        let two = [24, 0, 0, 1, 0, 24, 0, 0, 1, 0];
        let (error, alert) = refuse(end, forger, &[(HANDSHAKE, &two)]);
        assert_eq!(alert, Some(AlertDescription::UnexpectedMessage), "{error}");
    }
}

#[test]
fn t08_bytes_behind_close_notify_are_ignored() {
    for (victim, version) in ALL {
        let (mut end, mut forger) = Attack::established(victim, version).forge();
        let mut wire = forger.record(DATA, b"before");
        wire.extend(forger.record(ALERT, &[1, 0]));
        wire.extend(forger.record(DATA, b"behind"));
        wire.extend(b"GET / HTTP/1.1\r\n");
        deliver(&mut end.channel, &wire, usize::MAX);
        end.settle();
        assert_eq!(end.received(), b"before");
        let answer = end.sent();
        assert_eq!(forger.open(&answer), [(ALERT, vec![1, 0])], "close_notify");
        assert!(end.channel.read_error().is_none() && !end.channel.channel().is_open());
    }
}

#[test]
fn t08_records_in_the_clear_are_refused_after_the_handshake() {
    for (victim, version) in ALL {
        for (bytes, alert) in [
            (record(DATA, b"hello"), AlertDescription::BadRecordMac),
            (record(DATA, b""), AlertDescription::BadRecordMac),
            (record(ALERT, &[1, 0]), AlertDescription::BadRecordMac),
            (record(ALERT, &[2, 40]), AlertDescription::BadRecordMac),
            (record(HANDSHAKE, &[1, 0, 0, 0]), AlertDescription::BadRecordMac),
            (record(CHANGE_CIPHER_SPEC, &[1]), AlertDescription::UnexpectedMessage),
            (b"GET / HTTP/1.1".to_vec(), AlertDescription::DecodeError),
            (b"\x17\x03\x03\x48\x01".to_vec(), AlertDescription::DecodeError),
        ] {
            let (mut end, mut forger) = Attack::established(victim, version).forge();
            let held = end.channel.write(Bytes::from_static(b"not flushed"));
            deliver(&mut end.channel, &bytes, usize::MAX);
            let sent = end.sent();
            let error = take_failure(&mut end);
            assert!(matches!(error, TlsError::Protocol(_)), "{error}");
            assert_eq!(only_alert(&mut forger, &sent), Some(alert), "{error}");
            assert_eq!(held.join().unwrap_err().find::<TlsError>(), Some(&error));
        }
    }
}

#[test]
fn t08_records_that_are_repeated_left_out_or_swapped_are_refused() {
    for (victim, version) in ALL {
        for order in [&[0, 0][..], &[1], &[0, 2], &[1, 0], &[0, 1, 0], &[0, 1, 1], &[2]] {
            let (mut end, mut forger) = Attack::established(victim, version).forge();
            let records: Vec<_> = (0..3u8).map(|n| forger.record(DATA, &[b'a' + n; 9])).collect();
            let wire: Vec<u8> = order.iter().flat_map(|at| records[*at].clone()).collect();
            deliver(&mut end.channel, &wire, usize::MAX);
            let good = order.iter().enumerate().take_while(|(n, at)| n == *at).count();
            let expected: Vec<u8> = (0..good as u8).flat_map(|n| [b'a' + n; 9]).collect();
            assert_eq!(end.received(), expected, "{order:?}");
            let sent = end.sent();
            assert_eq!(take_failure(&mut end), TlsError::Protocol(Error::DecryptError));
            let alert = only_alert(&mut forger, &sent);
            assert_eq!(alert, Some(AlertDescription::BadRecordMac));
        }
    }
}
