//! Violations of the protocol by a peer: each one, the byte at which it is found, and the code that the peer is told (W02).

use waterwheel_websocket::{CloseCode, ProtocolError, WebSocketMessage, WebSocketRole};

use super::support::*;

/// Checks that the bytes are a violation, however they are cut, for an endpoint with this role: behind another message,
/// and with more behind them.
#[track_caller]
fn fails(role: WebSocketRole, bytes: &[u8], error: ProtocolError, code: CloseCode) {
    assert_eq!(error.close_code(), code, "{error}");
    let before = frame(role, FINAL | TEXT, b"before");
    let after = frame(role, FINAL | TEXT, b"after");
    let all = [&before, bytes, &after].concat();
    let (mut messages, found) = decode_every_way(|| decoder(role), naive(role), &all);
    messages.retain(|message| !matches!(message, WebSocketMessage::Ping(_)));
    assert_eq!((messages, found), (vec![text("before")], Some(error)), "{role:?}: {bytes:x?}");
}

#[test]
fn w02_reserved_bits_are_refused_on_every_frame() {
    for role in ROLES {
        for opcode in [TEXT, BINARY, CLOSE, PING, PONG] {
            for bits in 1..8 {
                let error = ProtocolError::ReservedBits { bits };
                let bytes = frame(role, FINAL | bits << 4 | opcode, b"");
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
            }
        }
        for bits in 1..8 {
            let error = ProtocolError::ReservedBits { bits };
            let bytes = frames(role, &[(TEXT, b"a"), (FINAL | bits << 4 | CONTINUATION, b"b")]);
            fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
        }
    }
}

#[test]
fn w02_reserved_opcodes_are_refused() {
    for role in ROLES {
        for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
            for first in [opcode, FINAL | opcode] {
                let error = ProtocolError::ReservedOpcode { opcode };
                fails(role, &frame(role, first, b"x"), error, CloseCode::PROTOCOL_ERROR);
            }
        }
    }
}

#[test]
fn w02_a_server_refuses_frames_without_a_mask_and_a_client_those_with_one() {
    for first in [TEXT, FINAL | TEXT, FINAL | BINARY, FINAL | CLOSE, FINAL | PING, FINAL | PONG] {
        for payload in [&b""[..], b"ab", &[b'x'; 125]] {
            let to_client = frame(WebSocketRole::Client, first, payload);
            let error = ProtocolError::UnmaskedFrame;
            fails(WebSocketRole::Server, &to_client, error, CloseCode::PROTOCOL_ERROR);
            let to_server = frame(WebSocketRole::Server, first, payload);
            let error = ProtocolError::MaskedFrame;
            fails(WebSocketRole::Client, &to_server, error, CloseCode::PROTOCOL_ERROR);
        }
    }
}

#[test]
fn w02_control_frames_are_whole_and_short() {
    for role in ROLES {
        for opcode in [CLOSE, PING, PONG] {
            let fragment = frame(role, opcode, b"");
            let error = ProtocolError::FragmentedControl;
            fails(role, &fragment, error, CloseCode::PROTOCOL_ERROR);
            for len in [126, 65_535, 65_536] {
                let error = ProtocolError::ControlTooLong;
                let bytes = head_of(role, FINAL | opcode, len);
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
            }
        }
    }
}

#[test]
fn w02_lengths_are_in_their_shortest_form_and_below_two_to_the_63() {
    for role in ROLES {
        for first in [FINAL | TEXT, BINARY] {
            for len in [0_u16, 1, 124, 125] {
                let bytes = head(role, first, 126, &len.to_be_bytes());
                let error = ProtocolError::LongLength { len: len.into() };
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
            }
            for len in [0_u64, 125, 126, 65_535] {
                let bytes = head(role, first, 127, &len.to_be_bytes());
                let error = ProtocolError::LongLength { len };
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
            }
            for len in [1_u64 << 63, u64::MAX, 1 << 63 | 5] {
                let bytes = head(role, first, 127, &len.to_be_bytes());
                let error = ProtocolError::LengthOverflow;
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
            }
        }
        // The longest that a frame may announce is beyond the limit, not beyond the protocol.
        let len = u64::MAX >> 1;
        let error = ProtocolError::MessageTooBig { limit: 1 << 20 };
        fails(role, &head_of(role, FINAL | BINARY, len), error, CloseCode::TOO_BIG);
    }
}

#[test]
fn w02_a_continuation_needs_a_message_and_a_message_ends_before_the_next() {
    for role in ROLES {
        for first in [CONTINUATION, FINAL | CONTINUATION] {
            let error = ProtocolError::UnexpectedContinuation;
            fails(role, &frame(role, first, b"more"), error, CloseCode::PROTOCOL_ERROR);
            let of_whole = frames(role, &[(FINAL | PING, b""), (first, b"")]);
            fails(role, &of_whole, error, CloseCode::PROTOCOL_ERROR);
        }
        for open in [TEXT, BINARY] {
            for next in [TEXT, BINARY, FINAL | TEXT, FINAL | BINARY] {
                let error = ProtocolError::UnfinishedMessage;
                let bytes = frames(role, &[(open, b"a"), (next, b"b")]);
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
                let bytes = frames(
                    role,
                    &[(open, b"a"), (CONTINUATION, b""), (FINAL | PING, b""), (next, b"")],
                );
                fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
            }
        }
    }
}

#[test]
fn w02_a_close_has_no_payload_or_a_code_and_utf_8() {
    for role in ROLES {
        let half = frame(role, FINAL | CLOSE, b"\x03");
        fails(role, &half, ProtocolError::CloseTooShort, CloseCode::PROTOCOL_ERROR);
        for reason in [&b"\x03\xe8\xff"[..], b"\x03\xe8abc\xe2\x82", b"\x03\xe8\xed\xa0\x80"] {
            let bytes = frame(role, FINAL | CLOSE, reason);
            fails(role, &bytes, ProtocolError::InvalidCloseText, CloseCode::INVALID_DATA);
        }
        let bytes = frames(role, &[(TEXT, b"open"), (FINAL | CLOSE, b"\x03\xed")]);
        let error = ProtocolError::InvalidCloseCode { code: 1005 };
        fails(role, &bytes, error, CloseCode::PROTOCOL_ERROR);
    }
}

#[test]
fn w02_a_text_that_is_not_utf_8_is_told_as_1007() {
    for role in ROLES {
        let error = ProtocolError::InvalidUtf8;
        for bytes in [
            frame(role, FINAL | TEXT, b"abc\xff"),
            frame(role, FINAL | TEXT, b"an end in \xf0\x9f\x98"),
            frames(role, &[(TEXT, b"\xe2"), (FINAL | CONTINUATION, b"")]),
            frames(role, &[(TEXT, b"\xe2"), (FINAL | PING, b"\xff"), (CONTINUATION, b"\x28")]),
        ] {
            fails(role, &bytes, error, CloseCode::INVALID_DATA);
        }
    }
}

#[test]
fn w02_an_error_says_what_is_wrong() {
    let table = [
        (ProtocolError::ReservedBits { bits: 4 }, "0b100"),
        (ProtocolError::ReservedOpcode { opcode: 11 }, "0xb"),
        (ProtocolError::LongLength { len: 12 }, "12"),
        (ProtocolError::FrameTooBig { len: 70, limit: 60 }, "70 bytes, at most 60"),
        (ProtocolError::MessageTooBig { limit: 60 }, "more than 60"),
        (ProtocolError::InvalidCloseCode { code: 1005 }, "1005"),
    ];
    for (error, words) in table {
        assert!(error.to_string().contains(words), "{error}");
        // The reason of a Close frame has room for the sentence.
        assert!(error.to_string().len() <= 123, "{error}");
    }
}
