//! Messages in several frames, with control frames between them (W02).

use super::support::*;
use waterwheel_websocket::WebSocketMessage;

#[test]
fn w02_control_frames_come_between_the_frames_of_a_message() {
    for role in ROLES {
        let bytes = frames(
            role,
            &[
                (TEXT, b"one "),
                (FINAL | PING, b"first"),
                (CONTINUATION, b""),
                (FINAL | PONG, b""),
                (FINAL | PING, &[0xff; 125]),
                (CONTINUATION, b"two "),
                (FINAL | CONTINUATION, b"three"),
                (FINAL | BINARY, b"next"),
            ],
        );
        let decoded = decode_every_way(|| decoder(role), naive(role), &bytes);
        let expected = vec![
            ping(b"first"),
            WebSocketMessage::Pong(b"".as_slice().into()),
            ping(&[0xff; 125]),
            text("one two three"),
            binary(b"next"),
        ];
        assert_eq!(decoded, (expected, None));
    }
}

#[test]
fn w02_empty_messages_and_frames_are_read() {
    for role in ROLES {
        let bytes = frames(
            role,
            &[
                (FINAL | TEXT, b""),
                (FINAL | BINARY, b""),
                (TEXT, b""),
                (FINAL | CONTINUATION, b""),
                (BINARY, b""),
                (CONTINUATION, b""),
                (CONTINUATION, b"\0"),
                (FINAL | CONTINUATION, b""),
                (FINAL | PING, b""),
            ],
        );
        let decoded = decode_every_way(|| decoder(role), naive(role), &bytes);
        let expected = vec![text(""), binary(b""), text(""), binary(b"\0"), ping(b"")];
        assert_eq!(decoded, (expected, None));
    }
}

#[test]
fn w02_messages_of_every_length_about_a_border_are_read() {
    let borders = [0, 125, 126, 127, 128, 1023, 1024, 1025, 4095, 4096, 4097, 65_535, 65_536];
    for role in ROLES {
        for len in borders {
            let data: Vec<u8> = (0..len).map(|at: usize| b'a' + (at % 23) as u8).collect();
            for (opcode, message) in
                [(TEXT, text(str::from_utf8(&data).unwrap())), (BINARY, binary(&data))]
            {
                let bytes = frame(role, FINAL | opcode, &data);
                for piece in [bytes.len(), 1, 2, 13, 14, 15, 1000, 4096, 5000] {
                    let decoded = decode(decoder(role), bytes.chunks(piece));
                    assert_eq!(decoded, (vec![message.clone()], None), "{len} in {piece}");
                }
            }
        }
    }
}

#[test]
fn w02_a_message_of_many_frames_is_read() {
    let data: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    for role in ROLES {
        for len in [1, 2, 100, 4096, 50_000] {
            let mut bytes = frame(role, BINARY, b"");
            for (index, piece) in data.chunks(len).enumerate() {
                bytes.extend(frame(role, CONTINUATION, piece));
                if index % 1000 == 7 {
                    bytes.extend(frame(role, FINAL | PING, b"?"));
                }
            }
            bytes.extend(frame(role, FINAL | CONTINUATION, b""));
            for piece in [bytes.len(), 1, 999, 65_536] {
                let (mut messages, error) = decode(decoder(role), bytes.chunks(piece));
                assert_eq!(error, None);
                messages.retain(|message| !matches!(message, WebSocketMessage::Ping(_)));
                assert_eq!(messages, [binary(&data)]);
            }
        }
    }
}

#[test]
fn w02_the_decoder_is_idle_between_messages_only() {
    use super::naive_decoder::Decoded;
    for role in ROLES {
        let mut decoder = decoder(role);
        let first =
            frames(role, &[(TEXT, b"a"), (FINAL | PING, b"p"), (FINAL | CONTINUATION, b"b")]);
        let mut decoded = Decoded::default();
        assert!(decoder.is_idle());
        for byte in &first {
            assert!(decoded.0.len() < 2);
            decode_piece(&mut decoder, &[*byte], &mut decoded);
            assert_eq!(decoder.is_idle(), decoded.0.len() == 2);
        }
    }
}
