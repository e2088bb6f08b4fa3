//! Attacks in the middle of a handshake, and the tickets of a server.

use bytes::Bytes;
use waterwheel_tls::TlsError;
use waterwheel_tls::rustls::{AlertDescription, Error, InvalidMessage};

use super::attacker::{
    ALERT, ALL, Attack, CHANGE_CIPHER_SPEC, DATA, HANDSHAKE, TLS_1_2, TLS_1_3, Victim, record,
    records, take_failure,
};
use crate::support::deliver;

/// Delivers the peer's next flight, and `after` behind it. Returns the alert that the peer's side gets.
fn send_flight(attack: &mut Attack, after: &[u8]) -> Option<AlertDescription> {
    let hello = attack.victim.sent();
    attack.feed_peer(&hello).unwrap();
    let flight = [&attack.take_flight(), after].concat();
    deliver(&mut attack.victim.channel, &flight, usize::MAX);
    match attack.exchange() {
        Err(Error::AlertReceived(description)) => Some(description),
        other => {
            other.unwrap();
            None
        }
    }
}

#[test]
fn t08_a_flood_of_change_cipher_specs_in_a_tls_1_3_handshake_is_refused() {
    // Behind the first flight of the peer; middleboxes wanted one there.
    for victim in [Victim::Server, Victim::Client] {
        let ccs = record(CHANGE_CIPHER_SPEC, &[1]);
        let mut attack = Attack::begin(victim, TLS_1_3);
        let hello = attack.victim.sent();
        attack.feed_peer(&hello).unwrap();
        let flight = attack.take_flight();
        // The first record of a flight is in the clear, and is followed by a ChangeCipherSpec of a server.
        let first = 5 + records(&flight)[0].1.len();
        deliver(&mut attack.victim.channel, &flight[..first], usize::MAX);
        deliver(&mut attack.victim.channel, &ccs.repeat(100), usize::MAX);
        let error = take_failure(&mut attack.victim);
        assert!(matches!(error, TlsError::Handshake(Error::PeerMisbehaved(_))), "{error}");
    }
}

#[test]
fn t08_a_hello_that_comes_twice_is_refused() {
    for (victim, version) in ALL {
        let mut attack = Attack::begin(victim, version);
        let hello = attack.victim.sent();
        attack.feed_peer(&hello).unwrap();
        let flight = attack.take_flight();
        let first = 5 + records(&flight)[0].1.len();
        let twice = [&flight[..first], &flight[..first]].concat();
        deliver(&mut attack.victim.channel, &twice, usize::MAX);
        assert!(!attack.victim.sent().is_empty(), "an alert");
        let error = take_failure(&mut attack.victim);
        assert!(matches!(error, TlsError::Handshake(_)), "{victim:?} in {version:?}: {error}");
    }
}

#[test]
fn t08_data_in_the_middle_of_a_handshake_is_refused_and_not_delivered() {
    for (victim, version) in ALL {
        let mut attack = Attack::begin(victim, version);
        let alert = send_flight(&mut attack, &record(DATA, b"too early"));
        let received = attack.victim.received();
        assert!(attack.victim.events.handshake().is_none() || victim == Victim::Client);
        let error = take_failure(&mut attack.victim);
        assert!(alert.is_some(), "{victim:?} in {version:?}: {error}");
        assert_eq!(received, b"");
    }
}

#[test]
fn t08_an_alert_in_the_middle_of_a_handshake_is_named() {
    for (victim, version) in ALL {
        let mut attack = Attack::begin(victim, version);
        let hello = attack.victim.sent();
        attack.feed_peer(&hello).unwrap();
        let flight = attack.take_flight();
        let first = 5 + records(&flight)[0].1.len();
        // The client does not trust the certificate, say; the server has no common cipher.
        let wire = [&flight[..first], &record(ALERT, &[2, 48])].concat();
        deliver(&mut attack.victim.channel, &wire, usize::MAX);
        let expected = Error::AlertReceived(AlertDescription::UnknownCA);
        assert_eq!(take_failure(&mut attack.victim), TlsError::Handshake(expected));
    }
}

#[test]
fn t08_a_server_that_sends_tickets_without_end_costs_the_client_nothing_that_stays() {
    let (mut end, mut forger) = Attack::established(Victim::Client, TLS_1_3).forge();
    // Lifetime, age, a nonce of one byte, a ticket of 1,000 bytes, no extensions.
    let body = [&[0, 0, 100, 0, 1, 2, 3, 4, 1, 7, 3, 0xe8][..], &[9; 1_000], &[0, 0]].concat();
    let [_, length @ ..] = u32::try_from(body.len()).unwrap().to_be_bytes();
    let ticket = [&[4][..], &length, &body].concat();
    for _ in 0..2_000 {
        let wire = forger.record(HANDSHAKE, &ticket);
        deliver(&mut end.channel, &wire, usize::MAX);
        assert_eq!(end.channel.channel().pending_bytes(), 0);
    }
    let wire = forger.record(DATA, b"data");
    deliver(&mut end.channel, &wire, usize::MAX);
    assert_eq!((end.received(), end.sent()), (b"data".to_vec(), Vec::new()));

    // Tickets that share records without a gap are one long message to rustls, which is refused.
    let (mut end, mut forger) = Attack::established(Victim::Client, TLS_1_3).forge();
    let flight = ticket.repeat(200);
    for part in flight.chunks(16_000) {
        let wire = forger.record(HANDSHAKE, part);
        deliver(&mut end.channel, &wire, usize::MAX);
    }
    let too_large = InvalidMessage::HandshakePayloadTooLarge.into();
    assert_eq!(take_failure(&mut end), TlsError::Protocol(too_large));
}

/// The last flight of the handshake, and behind it a part of a message that another record interrupts.
#[test]
fn t08_a_peer_that_fails_in_the_flight_that_ends_the_handshake_gets_no_data_after_the_alert() {
    // The handshake ends with the second flight of the peer.
    for (victim, version) in [(Victim::Server, TLS_1_3), (Victim::Client, TLS_1_2)] {
        let mut attack = Attack::begin(victim, version);
        let waiting = attack.victim.channel.write_outbound(Bytes::from_static(b"greeting"));
        let hello = attack.victim.sent();
        attack.feed_peer(&hello).unwrap();
        let first = attack.take_flight();
        deliver(&mut attack.victim.channel, &first, usize::MAX);
        let answer = attack.victim.sent();
        attack.feed_peer(&answer).unwrap();
        let mut flight = attack.take_flight();
        let (mut victim, mut forger) = attack.forge();
        flight.extend(forger.record(HANDSHAKE, &[24, 0]));
        flight.extend(forger.record(DATA, b"data"));
        deliver(&mut victim.channel, &flight, usize::MAX);
        let error = take_failure(&mut victim);
        assert!(matches!(error, TlsError::Protocol(Error::PeerMisbehaved(_))), "{error}");
        waiting.join().unwrap_err();
        assert_eq!(victim.events.take(), ["handshake"]);
    }
}
