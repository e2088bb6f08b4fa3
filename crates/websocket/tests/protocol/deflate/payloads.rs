//! Compressed messages as the examples of RFC 7692 have them, and the rules of RSV1 (W03).

use bytes::BytesMut;
use waterwheel_websocket::{
    CloseCode, DeflateOptions, MessageEncoder, ProtocolError, WebSocketMessage, WebSocketRole,
};

use super::{agreed, pair};
use crate::naive_decoder::{Decoded, NaiveDeflate};
use crate::support::*;

const HELLO: &[u8] = b"\xf2\x48\xcd\xc9\xc9\x07\x00";

/// Reads frames by both ways to keep a context, in every way to cut them.
#[track_caller]
fn decode_compressed(role: WebSocketRole, bytes: &[u8]) -> Decoded {
    let mut outcomes = [false, true].map(|keeps| {
        let make = || decoder(role).deflate(&agreed(keeps));
        let deflate = match keeps {
            true => NaiveDeflate::ContextTakeover,
            false => NaiveDeflate::NoContextTakeover,
        };
        let naive = crate::naive_decoder::NaiveDecoder { deflate: Some(deflate), ..naive(role) };
        decode_every_way(make, naive, bytes)
    });
    assert_eq!(outcomes[0], outcomes[1]);
    std::mem::take(&mut outcomes[0])
}

#[test]
fn w03_the_examples_of_the_rfc_are_read() {
    for role in ROLES {
        let one_frame = frame(role, FINAL | RSV1 | TEXT, HELLO);
        let two_frames =
            frames(role, &[(RSV1 | TEXT, &HELLO[..3]), (FINAL | CONTINUATION, &HELLO[3..])]);
        let stored =
            frame(role, FINAL | RSV1 | TEXT, b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00");
        let last_block = frame(role, FINAL | RSV1 | TEXT, b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00");
        let two_blocks = frame(
            role,
            FINAL | RSV1 | TEXT,
            b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00",
        );
        for bytes in [one_frame, two_frames, stored, last_block, two_blocks] {
            let twice = [&bytes[..], &bytes].concat();
            let decoded = decode_compressed(role, &twice);
            assert_eq!(decoded, (vec![text("Hello"); 2], None), "{bytes:x?}");
        }
    }
    // The second message of an example refers to the first one.
    let mut decoder = decoder(WebSocketRole::Client).deflate(&agreed(true));
    let mut decoded = Decoded::default();
    let bytes = b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\xc1\x05\xf2\x00\x11\x00\x00";
    decode_piece(&mut decoder, bytes, &mut decoded);
    assert_eq!(decoded, (vec![text("Hello"); 2], None));
}

#[test]
fn w03_blocks_go_on_behind_one_with_the_bit_of_the_last() {
    let last_block = b"\xf3\x48\xcd\xc9\xc9\x07\x00";
    for role in ROLES {
        let bytes = frames(
            role,
            &[
                (RSV1 | TEXT, last_block),
                (FINAL | PING, b"between"),
                (CONTINUATION, last_block),
                (FINAL | CONTINUATION, b"\x00"),
                (FINAL | RSV1 | TEXT, HELLO),
                (FINAL | RSV1 | TEXT, b"\x03\x00\x03\x00\x00"),
            ],
        );
        let decoded = decode_compressed(role, &bytes);
        let expected = vec![ping(b"between"), text("HelloHello"), text("Hello"), text("")];
        assert_eq!(decoded, (expected, None));
    }
}

#[test]
fn w03_empty_messages_are_compressed_one_after_the_other() {
    for role in ROLES {
        for keeps in [true, false] {
            let (mut encoder, mut decoder) = pair(role, keeps);
            for message in [text(""), binary(b""), text("not empty"), text(""), text("x")] {
                for _ in 0..3 {
                    let bytes = encode(&mut encoder, message.clone());
                    assert_eq!(bytes[0] & RSV1, RSV1);
                    let mut decoded = Decoded::default();
                    decode_piece(&mut decoder, &bytes, &mut decoded);
                    assert_eq!(decoded, (vec![message.clone()], None));
                }
            }
        }
    }
    // RFC 7692, section 7.2.3.6.
    let (mut encoder, _) = pair(WebSocketRole::Server, true);
    assert_eq!(encode(&mut encoder, text("")), b"\xc1\x01\x00");
    for role in ROLES {
        for payload in [&b"\x00"[..], b"\x02\x00", b"\x00\x00\x00\xff\xff\x00"] {
            let bytes = frame(role, FINAL | RSV1 | BINARY, payload);
            assert_eq!(decode_compressed(role, &bytes), (vec![binary(b"")], None));
        }
    }
}

#[test]
fn w03_parts_are_compressed_with_control_frames_between_them() {
    for role in ROLES {
        for keeps in [true, false] {
            let (mut encoder, mut decoder) = pair(role, keeps);
            for _ in 0..3 {
                let mut bytes = Vec::new();
                for message in [
                    part("", false),
                    part("one ", false),
                    ping(b"between"),
                    part("", false),
                    part("two", false),
                    part("", true),
                ] {
                    bytes.extend(encode(&mut encoder, message));
                }
                assert_eq!(bytes[0], RSV1 | TEXT);
                let mut decoded = Decoded::default();
                for piece in bytes.chunks(3) {
                    decode_piece(&mut decoder, piece, &mut decoded);
                }
                assert_eq!(decoded, (vec![ping(b"between"), text("one two")], None));
            }
        }
    }
}

#[test]
fn w03_only_the_first_frame_of_a_message_has_rsv1() {
    for role in ROLES {
        let error = ProtocolError::ReservedBits { bits: 4 };
        assert_eq!(error.close_code(), CloseCode::PROTOCOL_ERROR);
        for bytes in [
            frames(role, &[(RSV1 | TEXT, &HELLO[..3]), (FINAL | RSV1 | CONTINUATION, &HELLO[3..])]),
            frames(role, &[(TEXT, b"a"), (FINAL | RSV1 | CONTINUATION, b"b")]),
            frame(role, FINAL | RSV1 | PING, b""),
            frame(role, FINAL | RSV1 | PONG, b""),
            frame(role, FINAL | RSV1 | CLOSE, b""),
        ] {
            assert_eq!(decode_compressed(role, &bytes), (vec![], Some(error)), "{bytes:x?}");
        }
        for bits in [1, 2, 3, 5, 6, 7] {
            let bytes = frame(role, FINAL | bits << 4 | TEXT, HELLO);
            let error = ProtocolError::ReservedBits { bits };
            assert_eq!(decode_compressed(role, &bytes), (vec![], Some(error)));
        }
        let bytes = frame(role, FINAL | RSV1 | TEXT, HELLO);
        let decoded = decode(decoder(role), [&bytes[..]]);
        assert_eq!(decoded, (vec![], Some(error)), "nothing was negotiated");
    }
}

#[test]
fn w03_a_message_may_be_sent_as_it_is() {
    for role in ROLES {
        let bytes = frames(
            role,
            &[
                (FINAL | TEXT, b"plain"),
                (FINAL | RSV1 | TEXT, HELLO),
                (BINARY, b"a"),
                (FINAL | CONTINUATION, b"b"),
                (FINAL | RSV1 | TEXT, HELLO),
            ],
        );
        let expected = vec![text("plain"), text("Hello"), binary(b"ab"), text("Hello")];
        assert_eq!(decode_compressed(role, &bytes), (expected, None));
    }
}

#[test]
fn w03_messages_below_the_least_size_are_sent_as_they_are() {
    let options = DeflateOptions::builder().min_size(64).build().unwrap();
    for role in ROLES {
        let mut encoder = MessageEncoder::new(role).deflate(&options, &agreed(false));
        assert_eq!(encode(&mut encoder, text(&"x".repeat(63)))[0], FINAL | TEXT);
        assert_eq!(encode(&mut encoder, text(&"x".repeat(64)))[0], FINAL | RSV1 | TEXT);
        assert_eq!(encode(&mut encoder, part("x", false))[0], RSV1 | TEXT);
        let mut dst = BytesMut::new();
        encoder.encode(part("y", true), &mut dst).unwrap();
        assert_eq!(dst[0], FINAL | CONTINUATION);
        assert_eq!(encode(&mut encoder, ping(b"x"))[0], FINAL | PING);
        assert_eq!(encode(&mut encoder, WebSocketMessage::Close(None))[0], FINAL | CLOSE);
    }
}

#[test]
fn w03_compressed_messages_are_read_in_parts() {
    let sample: String = (0..5000).map(|number| format!("{number}é")).collect();
    for role in ROLES {
        for keeps in [true, false] {
            let (mut encoder, decoder) = pair(role, keeps);
            let bytes = [
                encode(&mut encoder, text(&sample)),
                encode(&mut encoder, text("")),
                encode(&mut encoder, text("short")),
            ]
            .concat();
            let (parts, error) = decode(decoder.parts(), bytes.chunks(1000));
            assert!(parts.len() > 10);
            let expected = vec![text(&sample), text(""), text("short")];
            assert_eq!((join_parts(parts), error), (expected, None));
        }
    }
}
