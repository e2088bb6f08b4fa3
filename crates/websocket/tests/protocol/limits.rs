//! Limits of frames and messages: at the limit, below and above it (W02, R04).

use waterwheel_websocket::{
    CloseCode, MessageDecoder, ProtocolError, WebSocketLimits, WebSocketRole,
};

use super::naive_decoder::{Decoded, NaiveDecoder};
use super::support::*;

fn limited(role: WebSocketRole, max_frame: u64, max_message: u64) -> MessageDecoder {
    let limits = WebSocketLimits::default().max_frame(max_frame).max_message(max_message);
    MessageDecoder::new(role, limits)
}

/// Reads frames of these lengths as one binary message, whole and in parts, and returns the error and the number of bytes
/// of the message.
fn outcome(lens: &[usize], max_frame: u64, max_message: u64) -> Result<usize, ProtocolError> {
    let mut outcomes = Vec::new();
    for role in ROLES {
        let mut bytes = Vec::new();
        for (index, len) in lens.iter().enumerate() {
            let opcode = if index == 0 { BINARY } else { CONTINUATION };
            let is_final = if index == lens.len() - 1 { FINAL } else { 0 };
            bytes.extend(frame(role, is_final | opcode, &vec![7; *len]));
        }
        let naive = NaiveDecoder { role, max_frame, max_message, deflate: None };
        let whole = decode_every_way(|| limited(role, max_frame, max_message), naive, &bytes);
        for piece in [1, 3, bytes.len()] {
            let in_parts = limited(role, max_frame, max_message).parts();
            let (parts, error) = decode(in_parts, bytes.chunks(piece));
            assert_eq!((join_parts(parts), error), whole, "in pieces of {piece}");
        }
        outcomes.push(match whole {
            (messages, None) => {
                assert_eq!(messages, [binary(&vec![7; lens.iter().sum()])]);
                Ok(lens.iter().sum())
            }
            (messages, Some(error)) => {
                assert_eq!((messages, error.close_code()), (vec![], CloseCode::TOO_BIG));
                Err(error)
            }
        });
    }
    assert_eq!(outcomes[0], outcomes[1]);
    outcomes[0]
}

#[test]
fn w02_a_message_has_at_most_its_limit_in_one_frame_or_in_several() {
    let too_big = Err(ProtocolError::MessageTooBig { limit: 100 });
    let table: [(&[usize], _); 12] = [
        (&[99], Ok(99)),
        (&[100], Ok(100)),
        (&[101], too_big),
        (&[50, 50], Ok(100)),
        (&[50, 51], too_big),
        (&[100, 0, 0], Ok(100)),
        (&[100, 1], too_big),
        (&[0, 0, 100], Ok(100)),
        (&[0, 101], too_big),
        (&[1; 100], Ok(100)),
        (&[1; 101], too_big),
        (&[60, 20, 30], too_big),
    ];
    for (lens, expected) in table {
        assert_eq!(outcome(lens, u64::MAX, 100), expected, "{lens:?}");
    }
    assert_eq!(outcome(&[0], u64::MAX, 0), Ok(0));
    assert_eq!(outcome(&[1], u64::MAX, 0), Err(ProtocolError::MessageTooBig { limit: 0 }));
}

#[test]
fn w02_a_frame_has_at_most_its_limit() {
    let too_big = |len| Err(ProtocolError::FrameTooBig { len, limit: 200 });
    assert_eq!(outcome(&[199], 200, 1000), Ok(199));
    assert_eq!(outcome(&[200, 200], 200, 1000), Ok(400));
    assert_eq!(outcome(&[201], 200, 1000), too_big(201));
    assert_eq!(outcome(&[200, 201], 200, 1000), too_big(201));
    // Of two limits, that of the frame is named.
    assert_eq!(outcome(&[300], 200, 250), too_big(300));
    assert_eq!(outcome(&[0], 0, 0), Ok(0));
}

#[test]
fn w02_limits_hold_about_every_form_of_a_length() {
    for limit in [0, 1, 125, 126, 1023, 1024, 1025, 65_535, 65_536, 100_000] {
        for role in ROLES {
            for opcode in [TEXT, BINARY] {
                let at = frame(role, FINAL | opcode, &vec![b'x'; limit]);
                let (messages, error) = decode(limited(role, u64::MAX, limit as u64), [&at[..]]);
                assert_eq!((messages.len(), error), (1, None), "{limit}");
                let above = frame(role, FINAL | opcode, &vec![b'x'; limit + 1]);
                let error = ProtocolError::MessageTooBig { limit: limit as u64 };
                let decoded = decode(limited(role, u64::MAX, limit as u64), [&above[..]]);
                assert_eq!(decoded, (vec![], Some(error)));
            }
        }
    }
}

#[test]
fn w02_control_frames_are_not_limited_as_messages() {
    for role in ROLES {
        let bytes = frame(role, FINAL | PING, &[1; 125]);
        assert_eq!(decode(limited(role, 0, 0), [&bytes[..]]), (vec![ping(&[1; 125])], None));
    }
}

#[test]
fn w02_a_frame_that_is_too_long_is_refused_at_its_head() {
    for role in ROLES {
        for len in [101, 126, 65_536, u64::MAX >> 1] {
            let head = head_of(role, BINARY, len);
            let (mut decoder, mut decoded) = (limited(role, u64::MAX, 100), Decoded::default());
            decode_piece(&mut decoder, &head[..head.len() - 1], &mut decoded);
            assert_eq!(decoded, (vec![], None));
            decode_piece(&mut decoder, &head[head.len() - 1..], &mut decoded);
            let error = ProtocolError::MessageTooBig { limit: 100 };
            assert_eq!(decoded, (vec![], Some(error)));
        }
    }
}

#[test]
fn w02_a_message_in_parts_may_be_without_limit() {
    let limits = WebSocketLimits::default().max_message(u64::MAX);
    let mut decoder = MessageDecoder::new(WebSocketRole::Client, limits).parts();
    let mut decoded = Decoded::default();
    decode_piece(&mut decoder, b"\x02\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", &mut decoded);
    for _ in 0..100 {
        decode_piece(&mut decoder, &[1; 1000], &mut decoded);
    }
    assert_eq!((decoded.0.len(), decoded.1), (100, None));
}

#[test]
fn w02_the_limit_of_a_message_is_one_mib_unless_set() {
    let limit = WebSocketLimits::DEFAULT_MAX_MESSAGE;
    assert_eq!(limit, 1 << 20);
    for role in ROLES {
        let at = frame(role, FINAL | BINARY, &vec![0; limit as usize]);
        assert_eq!(decode(decoder(role), [&at[..]]).1, None);
        let above = head_of(role, FINAL | BINARY, limit + 1);
        let error = ProtocolError::MessageTooBig { limit };
        assert_eq!(decode(decoder(role), [&above[..]]), (vec![], Some(error)));
    }
}
