//! The memory that a peer's bytes cost before they are a message: it follows what has come, not what was announced (R04,
//! W03). `docs/WEBSOCKET.md` states the figures.

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use bytes::{Bytes, BytesMut};
use counting_allocator::{allocations_in, bytes};
use waterwheel_websocket::{
    DeflateOptions, DeflateParameters, MessageDecoder, MessageEncoder, WebSocketLimits,
    WebSocketMessage, WebSocketRole,
};

const KIB: usize = 1024;

/// Returns the bytes that this thread holds more than before.
fn bytes_since(before: usize) -> usize {
    bytes().wrapping_sub(before)
}

/// Feeds a piece, and drops the messages.
fn feed(decoder: &mut MessageDecoder, piece: &[u8]) -> usize {
    let mut input = Bytes::copy_from_slice(piece);
    let mut messages = 0;
    while decoder.decode(&mut input).unwrap().is_some() {
        messages += 1;
    }
    messages
}

fn client(max_message: u64) -> MessageDecoder {
    let limits = WebSocketLimits::default().max_message(max_message);
    MessageDecoder::new(WebSocketRole::Client, limits)
}

/// Returns the head of a frame of a server.
fn head(first: u8, len: u64) -> Vec<u8> {
    [&[first, 127][..], &len.to_be_bytes()].concat()
}

#[test]
fn r04_memory_follows_what_has_come_of_a_frame_not_what_it_announces() {
    for first in [0x81, 0x82, 0x01, 0x02] {
        let before = bytes();
        let mut decoder = client(1 << 40);
        feed(&mut decoder, &head(first, 1 << 30));
        assert!(bytes_since(before) < 256, "{}", bytes_since(before));
        let mut come = 0;
        for len in [1, 1, 98, 900, 3000, 4096, 60 * KIB, 1, 64 * KIB, 200 * KIB, 1024 * KIB] {
            feed(&mut decoder, &vec![b'x'; len]);
            come += len;
            let held = bytes_since(before);
            assert!(held >= come && held <= 2 * come + 4 * KIB + 256, "{held} for {come}");
        }
    }
}

#[test]
fn r04_a_message_of_known_length_is_held_once() {
    for len in [70_000, 1 << 20] {
        let mut decoder = client(1 << 20);
        let before = bytes();
        feed(&mut decoder, &head(0x82, len));
        for piece in vec![7; len as usize - 1].chunks(64 * KIB) {
            feed(&mut decoder, piece);
        }
        assert!(bytes_since(before) <= len as usize + 256, "{}", bytes_since(before));
        assert_eq!(feed(&mut decoder, &[7]), 1);
    }
}

#[test]
fn r04_a_message_of_many_frames_grows_by_doubling() {
    for first in [0x01, 0x02] {
        let mut decoder = client(1 << 20);
        let frames = [0x00, 0x01, b'x'].repeat(500_000);
        feed(&mut decoder, &[first, 0x00]);
        let before = bytes();
        let (allocations, messages) = allocations_in(|| feed(&mut decoder, &frames));
        assert_eq!(messages, 0);
        // One for each time the message doubles, and the input.
        assert!(allocations < 30, "{allocations} allocations");
        assert!(bytes_since(before) <= 2 * 500_000 + 4 * KIB, "{}", bytes_since(before));
    }
}

#[test]
fn r04_a_part_holds_no_more_than_its_bytes() {
    for first in [0x01, 0x02] {
        let mut decoder = client(1 << 40).parts();
        feed(&mut decoder, &head(first, 1 << 30));
        let mut parts = Vec::with_capacity(1000);
        let before = bytes();
        for _ in 0..1000 {
            let mut input = Bytes::from_static(b"a few bytes");
            parts.push(decoder.decode(&mut input).unwrap().unwrap());
        }
        let held = bytes_since(before);
        assert!(held < 1000 * 100, "{held} for parts of 11,000 bytes");
    }
}

#[test]
fn r04_an_endless_message_in_parts_is_not_held() {
    let mut decoder = client(u64::MAX).parts();
    feed(&mut decoder, &head(0x82, 1 << 62));
    let before = bytes();
    for _ in 0..1000 {
        assert_eq!(feed(&mut decoder, &[7; 10_000]), 1);
    }
    assert_eq!(bytes_since(before), 0);
}

#[test]
fn r04_a_bomb_holds_no_more_than_the_limit() {
    let (options, agreed) = deflate(true);
    let mut encoder = MessageEncoder::new(WebSocketRole::Server).deflate(&options, &agreed);
    let bomb = encode(&mut encoder, WebSocketMessage::binary(vec![0; 32 << 20]));
    let mut decoder = client(1 << 20).deflate(&agreed);
    let before = bytes();
    let mut most = 0;
    for piece in bomb.chunks(16) {
        let mut input = Bytes::copy_from_slice(piece);
        if decoder.decode(&mut input).is_err() {
            assert!(most > 1 << 19, "it was stopped at {most}");
            assert!(bytes_since(before) < 64 * KIB, "the message is dropped");
            return;
        }
        most = most.max(bytes_since(before));
        assert!(most <= (2 << 20) + 64 * KIB, "{most} for a limit of 1 MiB");
    }
    panic!("the bomb was not stopped");
}

/// Options and parameters by which both sides take their contexts over, or neither does.
fn deflate(context_takeover: bool) -> (DeflateOptions, DeflateParameters) {
    let options = DeflateOptions::builder()
        .context_takeover(context_takeover)
        .peer_context_takeover(context_takeover)
        .build()
        .unwrap();
    let agreed = options.negotiate([[("client_max_window_bits", None)]]).unwrap();
    (options, agreed)
}

fn encode(encoder: &mut MessageEncoder, message: WebSocketMessage) -> Vec<u8> {
    let mut frame = BytesMut::new();
    let payload = encoder.encode(message, &mut frame).unwrap();
    frame.extend_from_slice(&payload.unwrap_or_default());
    frame.to_vec()
}

/// Returns the bytes of one of 20 connections that have sent and received messages, for its compressor and decompressor.
fn deflate_bytes_at_rest(options: &DeflateOptions, agreed: &DeflateParameters) -> (usize, usize) {
    const CONNECTIONS: usize = 20;
    let message = WebSocketMessage::text("a message that is compressed, ".repeat(100));
    let make = || MessageEncoder::new(WebSocketRole::Server).deflate(options, agreed);
    // The first connection makes what the thread keeps.
    feed(&mut client(1 << 20).deflate(agreed), &encode(&mut make(), message.clone()));
    let mut encoders: Vec<_> = (0..CONNECTIONS).map(|_| make()).collect();
    let mut decoders: Vec<_> = (0..CONNECTIONS).map(|_| client(1 << 20).deflate(agreed)).collect();
    let frames = Vec::with_capacity(CONNECTIONS);
    let before = bytes();
    let frames = encoders.iter_mut().fold(frames, |mut frames: Vec<Vec<u8>>, encoder| {
        frames.push(encode(encoder, message.clone()));
        frames
    });
    let of_frames: usize = frames.iter().map(Vec::capacity).sum();
    let of_encoders = bytes_since(before) - of_frames;
    let before = bytes();
    for (decoder, frame) in decoders.iter_mut().zip(&frames) {
        assert_eq!(feed(decoder, frame), 1);
    }
    (of_encoders / CONNECTIONS, bytes_since(before) / CONNECTIONS)
}

#[test]
fn w03_a_connection_without_context_takeover_holds_no_compressor_at_rest() {
    let (options, agreed) = deflate(false);
    assert_eq!(deflate_bytes_at_rest(&options, &agreed), (0, 0));
}

#[test]
fn w03_the_memory_of_a_connection_with_context_takeover_is_as_documented() {
    // KiB of a compressor by the bits of its window, and of any decompressor.
    for (bits, documented) in [(9, 245), (11, 251), (13, 275), (15, 371)] {
        let options = DeflateOptions::builder()
            .context_takeover(true)
            .peer_context_takeover(true)
            .window_bits(bits)
            .build()
            .unwrap();
        let agreed = options.negotiate([[("client_max_window_bits", None)]]).unwrap();
        let (compressor, decompressor) = deflate_bytes_at_rest(&options, &agreed);
        let is_near = |bytes: usize, kib: usize| (bytes / KIB).abs_diff(kib) <= 4;
        assert!(is_near(compressor, documented), "{compressor} bytes with {bits} bits");
        assert!(is_near(decompressor, 46), "{decompressor} bytes");
    }
}

#[test]
fn w03_connections_that_never_compress_hold_no_compressor() {
    let (options, agreed) = deflate(true);
    let before = bytes();
    let mut encoder = MessageEncoder::new(WebSocketRole::Server).deflate(&options, &agreed);
    let mut decoder = client(1 << 20).deflate(&agreed);
    let frame = encode(&mut encoder, WebSocketMessage::text("short"));
    feed(&mut decoder, &frame);
    drop(frame);
    assert!(bytes_since(before) < 256, "{}", bytes_since(before));
}
