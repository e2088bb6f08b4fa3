//! Fuzzes permessage-deflate. Compressed messages of the fuzzer's making, against a slow inflate: the outcome does not
//! depend on how the bytes are cut, and no message exceeds the limit. And messages that are compressed with any options
//! and read again.
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
use naive_decoder::{Decoded, NaiveDecoder, NaiveDeflate};
use support::{BINARY, CONTINUATION, FINAL, ROLES, RSV1, decode, encode, frame, join_parts, peer_of};
use waterwheel_fuzz::Input;
use waterwheel_websocket::{
    DeflateOptions, DeflateOptionsBuilder, DeflateParameters, MessageDecoder, MessageEncoder, ProtocolError,
    WebSocketLimits, WebSocketMessage, WebSocketRole,
};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let role = ROLES[input.below(2)];
    match input.flag() {
        true => inflate(role, input),
        false => round_trip(role, input),
    }
});

/// Reads compressed messages of one frame or two.
fn inflate(role: WebSocketRole, mut input: Input<'_>) {
    let keeps_context = input.flag();
    let max_message = 1 << input.below(18);
    let step = 1 + input.below(64);
    let mut bytes = Vec::new();
    // The slow inflate begins at the first message each time.
    for _ in 0..4 {
        let (first, second) = (input.below(256), input.below(256));
        let (first, second) = (take(&mut input, first), take(&mut input, second));
        bytes.extend(frame(role, RSV1 | BINARY, first));
        bytes.extend(frame(role, FINAL | CONTINUATION, second));
    }
    let (_, agreed) = negotiate(DeflateOptions::builder(), keeps_context);
    let limits = WebSocketLimits::default().max_message(max_message);
    let make = || MessageDecoder::new(role, limits).deflate(&agreed);
    let whole = decode(make(), [&bytes[..]]);
    assert_eq!(decode(make(), bytes.chunks(step)), whole, "in pieces of {step}");
    assert_eq!(decode(make(), bytes.chunks(1)), whole, "byte by byte");
    let (parts, violation) = decode(make().parts(), bytes.chunks(step));
    assert_eq!((join_parts(parts), violation), whole, "in parts");
    for message in &whole.0 {
        let WebSocketMessage::Binary(data) = message else { panic!("{message:?} was not sent") };
        assert!(data.len() as u64 <= max_message, "{} bytes, not {max_message}", data.len());
    }
    let allowed = [ProtocolError::CorruptDeflate, ProtocolError::MessageTooBig { limit: max_message }];
    assert!(whole.1.is_none_or(|violation| allowed.contains(&violation)), "{:?}", whole.1);
    let deflate = Some(match keeps_context {
        true => NaiveDeflate::ContextTakeover,
        false => NaiveDeflate::NoContextTakeover,
    });
    let naive = NaiveDecoder { role, max_frame: u64::MAX, max_message, deflate }.decode(&bytes);
    // If several things are wrong, the slow one may find another first.
    assert_eq!(has_failed(whole), has_failed(naive), "by the slow inflate");
}

/// Compresses messages, and reads them again.
fn round_trip(from: WebSocketRole, mut input: Input<'_>) {
    let keeps_context = input.flag();
    let builder = DeflateOptions::builder()
        .level(1 + input.below(9) as u32)
        .window_bits(9 + input.below(7) as u8)
        .peer_window_bits(9 + input.below(7) as u8)
        .min_size(input.below(64));
    let (options, agreed) = negotiate(builder, keeps_context);
    let (repeats, step) = (1 + input.below(200), 1 + input.below(64));
    let mut messages = Vec::new();
    while !input.0.is_empty() {
        let len = input.below(256);
        let data = take(&mut input, len);
        messages.push(match str::from_utf8(data) {
            Ok(text) => WebSocketMessage::text(text.repeat(repeats)),
            Err(_) => WebSocketMessage::binary(data.repeat(repeats)),
        });
    }
    let mut encoder = MessageEncoder::new(from).deflate(&options, &agreed);
    let bytes: Vec<u8> =
        messages.iter().flat_map(|message| encode(&mut encoder, message.clone())).collect();
    let make =
        || MessageDecoder::new(peer_of(from), WebSocketLimits::default()).deflate(&agreed);
    assert_eq!(decode(make(), bytes.chunks(step)), (messages.clone(), None), "whole");
    let (parts, violation) = decode(make().parts(), bytes.chunks(step));
    assert_eq!((join_parts(parts), violation), (messages, None), "in parts");
}

/// Takes bytes from the front, as many as there are.
fn take<'a>(input: &mut Input<'a>, len: usize) -> &'a [u8] {
    let (taken, rest) = input.0.split_at(len.min(input.0.len()));
    input.0 = rest;
    taken
}

fn negotiate(
    builder: DeflateOptionsBuilder,
    keeps_context: bool,
) -> (DeflateOptions, DeflateParameters) {
    let builder = builder.context_takeover(keeps_context).peer_context_takeover(keeps_context);
    let options = builder.build().expect("the options are in range");
    let agreed = options.negotiate([[("client_max_window_bits", None)]]).expect("an offer");
    (options, agreed)
}

fn has_failed((messages, violation): Decoded) -> (Vec<WebSocketMessage>, bool) {
    (messages, violation.is_some())
}
