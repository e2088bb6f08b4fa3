//! Close frames: codes, reasons, and what follows them (W02).

use bytes::BytesMut;
use waterwheel_websocket::{
    CloseCode, CloseReason, MessageEncoder, ProtocolError, SendError, WebSocketMessage,
};

use super::support::*;

fn may_be_in_a_frame(code: u16) -> bool {
    // RFC 6455, section 7.4: 1004 to 1006 and 1015 are not for frames; to 2999 the protocol defines what there is, which
    // is up to 1014 in the registry; below 1000 and from 5000 there is nothing.
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[test]
fn w02_every_close_code_is_received_or_refused_as_the_rfc_says() {
    for role in ROLES {
        for code in 0..=u16::MAX {
            let payload = [&code.to_be_bytes()[..], b"bye"].concat();
            let decoded = decode(decoder(role), [&frame(role, FINAL | CLOSE, &payload)[..]]);
            match CloseCode::new(code) {
                Some(accepted) => {
                    assert!(may_be_in_a_frame(code), "{code}");
                    let close = WebSocketMessage::Close(Some(CloseReason::new(accepted, "bye")));
                    assert_eq!(decoded, (vec![close], None));
                }
                None => {
                    assert!(!may_be_in_a_frame(code), "{code}");
                    let error = ProtocolError::InvalidCloseCode { code };
                    assert_eq!(error.close_code(), CloseCode::PROTOCOL_ERROR);
                    assert_eq!(decoded, (vec![], Some(error)));
                }
            }
        }
    }
}

#[test]
fn w02_every_code_that_can_be_made_is_sent_and_received() {
    for role in ROLES {
        for code in (0..=u16::MAX).filter_map(CloseCode::new) {
            let close = WebSocketMessage::Close(Some(code.into()));
            let bytes = encode(&mut MessageEncoder::new(role), close.clone());
            assert_eq!(decode(decoder(peer_of(role)), [&bytes[..]]), (vec![close], None));
        }
    }
}

#[test]
fn w02_a_close_without_reason_is_received_and_nothing_behind_it() {
    for role in ROLES {
        for (payload, reason) in
            [(&b""[..], None), (b"\x03\xe8", Some(CloseReason::from(CloseCode::NORMAL)))]
        {
            let bytes = [
                frame(role, TEXT, b"an open message"),
                frame(role, FINAL | CLOSE, payload),
                frame(role, FINAL | TEXT, b"later"),
                frame(role, FINAL | CLOSE, b"\x00"),
                vec![0xff; 40],
            ];
            let decoded = decode_every_way(|| decoder(role), naive(role), &bytes.concat());
            assert_eq!(decoded, (vec![WebSocketMessage::Close(reason)], None));
        }
    }
}

#[test]
fn w02_the_longest_reason_is_received() {
    let reason = "é".repeat(61) + "!";
    assert_eq!(reason.len(), CloseReason::MAX_TEXT);
    for role in ROLES {
        let payload = [&b"\x0f\xa1"[..], reason.as_bytes()].concat();
        let bytes = frame(role, FINAL | CLOSE, &payload);
        let decoded = decode_every_way(|| decoder(role), naive(role), &bytes);
        let expected = CloseReason::new(CloseCode::new(4001).unwrap(), reason.as_str());
        assert_eq!(expected.text(), reason);
        assert_eq!(decoded, (vec![WebSocketMessage::Close(Some(expected))], None));
    }
}

#[test]
fn w02_a_reason_that_is_too_long_is_cut_between_two_characters() {
    for (character, kept) in [("x", 123), ("é", 122), ("漢", 123), ("😀", 120)] {
        let reason = CloseReason::new(CloseCode::NORMAL, character.repeat(200));
        assert_eq!(reason.text(), character.repeat(kept / character.len()));
        for role in ROLES {
            let close = WebSocketMessage::Close(Some(reason.clone()));
            let bytes = encode(&mut MessageEncoder::new(role), close.clone());
            assert_eq!(decode(decoder(peer_of(role)), [&bytes[..]]), (vec![close], None));
        }
    }
}

#[test]
fn w02_nothing_is_sent_behind_a_close() {
    for role in ROLES {
        let mut encoder = MessageEncoder::new(role);
        encode(&mut encoder, part("begun", false));
        assert!(!encoder.is_closed());
        encode(&mut encoder, WebSocketMessage::Close(None));
        assert!(encoder.is_closed());
        let mut dst = BytesMut::new();
        for message in [
            text("late"),
            binary(&[1; 600]),
            part("late", true),
            ping(b""),
            WebSocketMessage::Pong(b"".as_slice().into()),
            WebSocketMessage::Close(None),
        ] {
            assert_eq!(encoder.encode(message, &mut dst), Err(SendError::Closing));
        }
        assert!(dst.is_empty());
    }
}
