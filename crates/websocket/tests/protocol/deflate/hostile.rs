//! Compressed data that is corrupt, or becomes more than the limit (W03, R04).

use waterwheel_websocket::{
    CloseCode, MessageDecoder, MessagePart, ProtocolError, WebSocketLimits, WebSocketMessage,
    WebSocketRole,
};

use super::{agreed, pair, server_with};
use crate::naive_decoder::Decoded;
use crate::support::*;

/// Reads the bytes of a server with this limit for a message.
fn decode_limited(max_message: u64, bytes: &[u8], piece: usize) -> Decoded {
    let limits = WebSocketLimits::default().max_message(max_message);
    let decoder = MessageDecoder::new(WebSocketRole::Client, limits).deflate(&agreed(false));
    decode(decoder, bytes.chunks(piece))
}

#[test]
fn w03_the_limit_of_a_message_counts_what_was_inflated() {
    for limit in [1, 100, 4095, 4096, 4097, 100_000] {
        for piece in [1, 1000] {
            let at = encode(&mut server_with(9, 15, false), binary(&vec![0; limit]));
            let (messages, error) = decode_limited(limit as u64, &at, piece);
            assert_eq!((messages.len(), error), (1, None), "{limit}");
        }
    }
    for limit in [64, 4095, 4096, 4097, 100_000] {
        for piece in [1, 1000] {
            let above = encode(&mut server_with(9, 15, false), binary(&vec![0; limit + 1]));
            assert!(above.len() < limit);
            let error = ProtocolError::MessageTooBig { limit: limit as u64 };
            assert_eq!(error.close_code(), CloseCode::TOO_BIG);
            assert_eq!(decode_limited(limit as u64, &above, piece), (vec![], Some(error)));
        }
    }
}

#[test]
fn w03_a_bomb_is_stopped_at_the_limit() {
    // A thousand times as much as is sent: 64 MiB of zeros in 64 KiB.
    let bomb = encode(&mut server_with(9, 15, false), binary(&vec![0; 64 << 20]));
    assert!(bomb.len() < 70_000, "{}", bomb.len());
    let error = ProtocolError::MessageTooBig { limit: 1 << 20 };
    for piece in [bomb.len(), 100, 1] {
        let decoder = decoder(WebSocketRole::Client).deflate(&agreed(true));
        assert_eq!(decode(decoder, bomb.chunks(piece)), (vec![], Some(error)));
    }
    // The error comes with the bytes that exceed the limit, long before the end of the frame.
    let decoder = decoder(WebSocketRole::Client).deflate(&agreed(true));
    assert_eq!(decode(decoder, [&bomb[..1200]]), (vec![], Some(error)));
}

#[test]
fn w03_the_fragments_of_a_bomb_are_counted_together() {
    let (mut encoder, decoder) = pair(WebSocketRole::Server, true);
    let mut bytes = Vec::new();
    for _ in 0..17 {
        bytes.extend(encode(&mut encoder, part(&[0; 64 << 10][..], false)));
    }
    let error = ProtocolError::MessageTooBig { limit: 1 << 20 };
    assert_eq!(decode(decoder, [&bytes[..]]), (vec![], Some(error)));
}

#[test]
fn w03_the_parts_of_a_bomb_are_bounded_each() {
    let bomb = encode(&mut server_with(9, 15, false), binary(&vec![0; 32 << 20]));
    let limits = WebSocketLimits::default().max_message(u64::MAX);
    let mut decoder = MessageDecoder::new(WebSocketRole::Client, limits);
    decoder = decoder.deflate(&agreed(false)).parts();
    let (parts, error) = decode(decoder, [&bomb[..]]);
    assert_eq!(error, None);
    let mut sum = 0;
    for message in parts {
        let WebSocketMessage::Part(MessagePart { data, .. }) = message else { panic!() };
        assert!(data.len() <= 5 << 20, "{}", data.len());
        sum += data.len();
    }
    assert_eq!(sum, 32 << 20);
}

#[test]
fn w03_the_limit_of_a_frame_counts_what_is_sent() {
    let message = encode(&mut server_with(9, 15, false), binary(&vec![0; 100_000]));
    let payload = (message.len() - 2) as u64;
    assert!(payload < 125);
    for (max_frame, expected) in [
        (payload, None),
        (payload - 1, Some(ProtocolError::FrameTooBig { len: payload, limit: payload - 1 })),
    ] {
        let limits = WebSocketLimits::default().max_frame(max_frame);
        let decoder = MessageDecoder::new(WebSocketRole::Client, limits).deflate(&agreed(false));
        assert_eq!(decode(decoder, [&message[..]]).1, expected);
    }
}

#[test]
fn w03_corrupt_data_is_told_as_1007() {
    let error = ProtocolError::CorruptDeflate;
    assert_eq!(error.close_code(), CloseCode::INVALID_DATA);
    let corrupt: [&[u8]; 6] = [
        b"\x06",                             // a block of the reserved type
        b"\x00\x05\x00\x00\x00Hello",        // a stored block whose lengths differ
        b"\xf2\x00\x11\x00\x00",             // a reference to before the beginning
        b"\x04\x00\x04\x00\x00\x00\x00\x00", // codes that are not complete
        b"\xfc\xff\xff\xff\xff\xff\xff\xff", // too many codes
        b"\x1a\x03",                         // a literal that is none
    ];
    for role in ROLES {
        for payload in corrupt {
            for keeps in [true, false] {
                let bytes = frames(
                    role,
                    &[(RSV1 | BINARY, payload), (CONTINUATION, b"\0\0\0\0"), (FINAL | PING, b"")],
                );
                for piece in [1, 100] {
                    let decoder = decoder(role).deflate(&agreed(keeps));
                    let decoded = decode(decoder, bytes.chunks(piece));
                    assert_eq!(decoded, (vec![], Some(error)), "{payload:x?}");
                }
            }
        }
    }
}

#[test]
fn w03_a_context_that_is_not_taken_over_is_gone() {
    for role in ROLES {
        let bytes = frames(
            role,
            &[
                (FINAL | RSV1 | TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00"),
                (FINAL | RSV1 | TEXT, b"\xf2\x00\x11\x00\x00"),
            ],
        );
        let decoded = decode(decoder(role).deflate(&agreed(true)), [&bytes[..]]);
        assert_eq!(decoded, (vec![text("Hello"), text("Hello")], None));
        let decoded = decode(decoder(role).deflate(&agreed(false)), [&bytes[..]]);
        assert_eq!(decoded, (vec![text("Hello")], Some(ProtocolError::CorruptDeflate)));
    }
}

#[test]
fn r04_a_connection_that_failed_leaves_nothing_to_others() {
    let role = WebSocketRole::Server;
    for _ in 0..20 {
        let half = frame(role, RSV1 | TEXT, b"\xf2\x48\xcd");
        let corrupt = frame(role, FINAL | RSV1 | TEXT, b"\x06");
        decode(decoder(role).deflate(&agreed(false)), [&half[..]]);
        assert!(decode(decoder(role).deflate(&agreed(false)), [&corrupt[..]]).1.is_some());
        let whole = frame(role, FINAL | RSV1 | TEXT, b"\xf2\x48\xcd\xc9\xc9\x07\x00");
        let decoded = decode(decoder(role).deflate(&agreed(false)), [&whole[..]]);
        assert_eq!(decoded, (vec![text("Hello")], None));
    }
}
