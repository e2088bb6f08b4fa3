//! Frames as they are written (W02).

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use waterwheel_websocket::{MessageEncoder, SendError, WebSocketMessage, WebSocketRole};

use super::support::*;

#[test]
fn w02_a_server_writes_the_frames_of_the_rfc() {
    let mut encoder = MessageEncoder::new(WebSocketRole::Server);
    // RFC 6455, section 5.7.
    assert_eq!(encode(&mut encoder, text("Hello")), b"\x81\x05Hello");
    assert_eq!(encode(&mut encoder, part("Hel", false)), b"\x01\x03Hel");
    assert_eq!(encode(&mut encoder, part("lo", true)), b"\x80\x02lo");
    assert_eq!(encode(&mut encoder, ping(b"Hello")), b"\x89\x05Hello");
    let pong = WebSocketMessage::Pong(Bytes::from_static(b"Hello"));
    assert_eq!(encode(&mut encoder, pong), b"\x8a\x05Hello");
    assert_eq!(encode(&mut encoder, binary(&[9; 256]))[..4], *b"\x82\x7e\x01\x00");
    let long = encode(&mut encoder, binary(&[9; 65_536]));
    assert_eq!(long[..10], *b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00");
    assert_eq!(long.len(), 65_546);
}

#[test]
fn w02_lengths_are_written_in_their_shortest_form() {
    for (len, head_len) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10), (100_000, 10)] {
        let bytes = encode(&mut MessageEncoder::new(WebSocketRole::Server), binary(&vec![1; len]));
        assert_eq!(bytes.len(), head_len + len);
        let bytes = encode(&mut MessageEncoder::new(WebSocketRole::Client), binary(&vec![1; len]));
        assert_eq!(bytes.len(), head_len + 4 + len);
    }
}

#[test]
fn w02_a_long_payload_of_a_server_is_not_copied() {
    let mut encoder = MessageEncoder::new(WebSocketRole::Server);
    let payload = Bytes::from(vec![7; 100_000]);
    for message in [WebSocketMessage::Binary(payload.clone()), part(&[7; 100_000][..], false)] {
        let is_whole = matches!(message, WebSocketMessage::Binary(_));
        let mut head = BytesMut::new();
        let sent = encoder.encode(message, &mut head).unwrap().unwrap();
        assert_eq!((head.len(), sent.len()), (10, 100_000));
        assert!(!is_whole || sent.as_ptr() == payload.as_ptr());
    }
}

#[test]
fn w02_every_frame_of_a_client_has_a_mask_of_its_own() {
    let mut encoder = MessageEncoder::new(WebSocketRole::Client);
    let mut masks = HashSet::new();
    for _ in 0..2000 {
        let bytes = encode(&mut encoder, text("the same text"));
        assert_eq!(bytes[..2], [0x81, 0x80 | 13]);
        masks.insert(<[u8; 4]>::try_from(&bytes[2..6]).unwrap());
    }
    // Of 2,000 random words, two are the same with a probability of 1 to 2,000; of ten pairs there is no talk.
    assert!(masks.len() > 1990, "{} different masks", masks.len());
}

#[test]
fn w02_pings_and_pongs_have_at_most_125_bytes() {
    for role in ROLES {
        let mut encoder = MessageEncoder::new(role);
        for make in [WebSocketMessage::Ping, WebSocketMessage::Pong] {
            let bytes = encode(&mut encoder, make(vec![1; 125].into()));
            let decoded = decode(decoder(peer_of(role)), [&bytes[..]]);
            assert_eq!(decoded, (vec![make(vec![1; 125].into())], None));
            let mut dst = BytesMut::new();
            let error = encoder.encode(make(vec![1; 126].into()), &mut dst).unwrap_err();
            assert_eq!(error, SendError::ControlTooLong { len: 126 });
            assert!(dst.is_empty());
        }
    }
}
