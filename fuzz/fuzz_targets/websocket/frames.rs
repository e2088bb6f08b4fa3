//! Fuzzes the decoder of WebSocket frames, of both roles, with any limits, against a slow one: messages and violation are
//! the same however the bytes are cut, and in parts; what was read can be written again.
#![no_main]

#[path = "../../../crates/websocket/tests/protocol/naive_decoder.rs"]
#[allow(dead_code, reason = "the tests that it is written for need more")]
mod naive_decoder;
#[path = "../../../crates/websocket/tests/protocol/naive_inflate.rs"]
#[allow(dead_code, reason = "the tests that it is written for need more")]
mod naive_inflate;
#[path = "../../../crates/websocket/tests/protocol/support.rs"]
#[allow(dead_code, reason = "the tests that it is written for need more")]
mod support;

use libfuzzer_sys::fuzz_target;
use naive_decoder::NaiveDecoder;
use support::{ROLES, decode, encode, join_parts, peer_of};
use waterwheel_fuzz::Input;
use waterwheel_websocket::{MessageDecoder, MessageEncoder, WebSocketLimits};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let role = ROLES[input.below(2)];
    let (max_frame, max_message) = (limit(&mut input), limit(&mut input));
    let step = 1 + input.below(64);
    let Input(stream) = input;
    let limits = WebSocketLimits::default().max_frame(max_frame).max_message(max_message);
    let make = || MessageDecoder::new(role, limits);
    let expected = NaiveDecoder { role, max_frame, max_message, deflate: None }.decode(stream);
    assert_eq!(decode(make(), [stream]), expected, "as a whole");
    assert_eq!(decode(make(), stream.chunks(step)), expected, "in pieces of {step}");
    assert_eq!(decode(make(), stream.chunks(1)), expected, "byte by byte");
    let (parts, violation) = decode(make().parts(), stream.chunks(step));
    assert_eq!((join_parts(parts), violation), expected, "in parts");

    let (messages, _) = expected;
    let mut encoder = MessageEncoder::new(peer_of(role));
    let written: Vec<u8> =
        messages.iter().flat_map(|message| encode(&mut encoder, message.clone())).collect();
    let decoder = MessageDecoder::new(role, WebSocketLimits::default());
    assert_eq!(decode(decoder, [&written[..]]), (messages, None), "written again");
});

/// Returns a limit of some bytes, or none.
fn limit(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        255 => u64::MAX,
        byte => 4 * u64::from(byte),
    }
}
