//! Texts that are not UTF-8: each fails at its first wrong byte, however it is cut into frames and reads (W02).

use waterwheel_websocket::ProtocolError;

use super::naive_decoder::Decoded;
use super::support::*;

/// Texts that are wrong, with the number of bytes before the first wrong one.
const WRONG: [(&[u8], usize); 19] = [
    (b"\x80", 0),
    (b"abc\xbf", 3),
    (b"ab\xc0\xaf", 2),
    (b"\xc1\xbf", 0),
    (b"\xc3\x28", 1),
    (b"\xe0\x80\x80", 1),
    (b"\xe0\x9f\xbf", 1),
    (b"\xed\xa0\x80", 1),
    (b"\xed\xbf\xbf", 1),
    (b"\xe6\xbc\x41", 2),
    (b"\xf0\x80\x80\x80", 1),
    (b"\xf0\x8f\xbf\xbf", 1),
    (b"\xf0\x9f\x98\xf0", 3),
    (b"\xf4\x90\x80\x80", 1),
    (b"\xf5\x80\x80\x80", 0),
    (b"\xf8\x88\x80\x80\x80", 0),
    (b"\xfe", 0),
    (b"\xff", 0),
    (b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80", 12),
];

/// Feeds a text in frames of some bytes each, byte by byte, and never its end; returns the number of its bytes before the
/// one at which it fails.
fn fails_at(data: &[u8], frame_len: usize, is_deflated: bool) -> Option<usize> {
    let role = ROLES[0];
    let (mut decoder, mut decoded) = (decoder(role), Decoded::default());
    if is_deflated {
        decoder = decoder.deflate(&super::deflate::agreed(true));
    }
    for (index, piece) in data.chunks(frame_len).enumerate() {
        let opcode = if index == 0 { TEXT } else { CONTINUATION };
        // The frame announces more than is sent of the last one.
        decode_piece(&mut decoder, &head_of(role, opcode, piece.len() as u64), &mut decoded);
        for (at, byte) in masked(role, piece).iter().enumerate() {
            decode_piece(&mut decoder, &[*byte], &mut decoded);
            if let Some(error) = decoded.1 {
                assert_eq!(error, ProtocolError::InvalidUtf8);
                assert_eq!(decoded.0, []);
                return Some(index * frame_len + at);
            }
        }
    }
    None
}

#[test]
fn w02_a_text_fails_at_its_first_wrong_byte_in_frames_of_any_length() {
    for before in ["", "x", "κόσμε", &"long ".repeat(1000), &"漢".repeat(1365)] {
        for (wrong, at) in WRONG {
            let data = [before.as_bytes(), wrong, b" and more"].concat();
            for frame_len in [1, 2, 3, 5, 4096, data.len()] {
                for is_deflated in [false, true] {
                    let found = fails_at(&data, frame_len, is_deflated);
                    assert_eq!(found, Some(before.len() + at), "{wrong:x?} in {frame_len}");
                }
            }
        }
    }
}

#[test]
fn w02_a_text_that_comes_in_one_read_fails_when_its_frame_is_not_complete() {
    for role in ROLES {
        for (wrong, _) in WRONG {
            let bytes = [head_of(role, TEXT, 1000), masked(role, wrong)].concat();
            let decoded = decode(decoder(role), [&bytes[..]]);
            assert_eq!(decoded, (vec![], Some(ProtocolError::InvalidUtf8)), "{wrong:x?}");
        }
    }
}

#[test]
fn w02_characters_are_cut_by_frames_with_control_frames_between_them() {
    let sample = "aé漢😀\u{fffd}\u{10ffff}\u{d7ff}\u{e000}\0";
    for role in ROLES {
        let mut bytes = frame(role, TEXT, b"");
        for byte in sample.as_bytes() {
            bytes.extend(frame(role, CONTINUATION, &[*byte]));
            bytes.extend(frame(role, FINAL | PING, b"\xff"));
        }
        bytes.extend(frame(role, FINAL | CONTINUATION, b""));
        let (mut messages, error) = decode_every_way(|| decoder(role), naive(role), &bytes);
        assert_eq!(error, None);
        assert_eq!(messages.pop(), Some(text(sample)));
        assert_eq!(messages.len(), sample.len());
    }
}

#[test]
fn w02_a_text_that_ends_inside_of_a_character_fails_at_the_end_of_its_message() {
    for role in ROLES {
        for end in [&b"\xc3"[..], b"\xe2\x82", b"\xf0\x9f\x98"] {
            let open = frame(role, TEXT, &[b"ok", end].concat());
            let mut decoder = decoder(role);
            let mut decoded = Decoded::default();
            decode_piece(&mut decoder, &open, &mut decoded);
            assert_eq!(decoded, (vec![], None), "the rest may follow");
            decode_piece(&mut decoder, &frame(role, FINAL | PING, b""), &mut decoded);
            assert_eq!(decoded, (vec![ping(b"")], None));
            decode_piece(&mut decoder, &frame(role, FINAL | CONTINUATION, b""), &mut decoded);
            assert_eq!(decoded.1, Some(ProtocolError::InvalidUtf8));
        }
    }
}

#[test]
fn w02_a_compressed_text_that_is_not_utf_8_fails() {
    for role in ROLES {
        for (wrong, _) in WRONG {
            for before in [0, 10, 5000] {
                let data = [&vec![b'x'; before][..], wrong].concat();
                let (mut encoder, decoder) = super::deflate::pair(peer_of(role), true);
                let mut bytes = encode(&mut encoder, binary(&data));
                bytes[0] = FINAL | RSV1 | TEXT;
                let decoded = decode(decoder, [&bytes[..]]);
                assert_eq!(decoded, (vec![], Some(ProtocolError::InvalidUtf8)), "{wrong:x?}");
            }
        }
    }
}
