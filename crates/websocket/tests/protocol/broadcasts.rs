//! Messages for many connections (W06): each frame is made once, and its bytes are shared.

use std::thread;

use bytes::{Bytes, BytesMut};
use waterwheel_websocket::{
    BroadcastMessage, DeflateOptions, MessageEncoder, SendError, WebSocketMessage, WebSocketRole,
};

use super::deflate::{agreed, options, pair, server_with};
use super::support::*;

/// Encodes a message that is sent as a shared frame.
fn shared(encoder: &mut MessageEncoder, message: &BroadcastMessage) -> Bytes {
    let mut before = BytesMut::new();
    let frame = encoder.encode_broadcast(message, &mut before).unwrap().expect("a shared frame");
    assert!(before.is_empty());
    frame
}

#[test]
fn w06_servers_without_compression_share_one_frame() {
    for len in [0, 10, 125, 126, 70_000] {
        let data = "x".repeat(len);
        for (message, expected) in [
            (BroadcastMessage::text(&data), text(&data)),
            (BroadcastMessage::binary(&data), binary(data.as_bytes())),
        ] {
            let first = shared(&mut MessageEncoder::new(WebSocketRole::Server), &message);
            for _ in 0..3 {
                let other = message.clone();
                let again = shared(&mut MessageEncoder::new(WebSocketRole::Server), &other);
                assert_eq!((again.as_ptr(), again.len()), (first.as_ptr(), first.len()));
            }
            let decoded = decode(decoder(WebSocketRole::Client), [&first[..]]);
            assert_eq!(decoded, (vec![expected], None));
        }
    }
}

#[test]
fn w06_servers_with_compression_share_one_frame_for_each_setting() {
    let message = BroadcastMessage::text("a message that is compressed ".repeat(30));
    let mut frames: Vec<Bytes> = Vec::new();
    for (level, bits) in [(1, 15), (1, 9), (9, 15)] {
        let first = shared(&mut server_with(level, bits, true), &message);
        assert!(frames.iter().all(|other| other.as_ptr() != first.as_ptr()), "another setting");
        for keeps in [true, false] {
            let again = shared(&mut server_with(level, bits, keeps), &message);
            assert_eq!(
                again.as_ptr(),
                first.as_ptr(),
                "the same, whether a context is kept or not"
            );
        }
        assert!(first.len() < 200 && first[0] == FINAL | RSV1 | TEXT);
        frames.push(first);
    }
    let plain = shared(&mut MessageEncoder::new(WebSocketRole::Server), &message);
    assert!(plain.len() > 800 && frames.iter().all(|frame| frame.as_ptr() != plain.as_ptr()));
}

#[test]
fn w06_loops_that_send_at_once_share_one_frame() {
    let message = BroadcastMessage::binary(vec![7; 100_000]);
    let frame_of = || shared(&mut server_with(1, 15, false), &message).as_ptr() as usize;
    let frames: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(frame_of)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(frames.iter().all(|frame| *frame == frames[0]));
}

#[test]
fn w06_a_short_message_is_shared_as_it_is() {
    let options = DeflateOptions::builder().min_size(100).build().unwrap();
    let mut encoder = MessageEncoder::new(WebSocketRole::Server).deflate(&options, &agreed(false));
    let short = BroadcastMessage::text("x".repeat(99));
    let plain = shared(&mut MessageEncoder::new(WebSocketRole::Server), &short);
    assert_eq!(shared(&mut encoder, &short).as_ptr(), plain.as_ptr());
    let long = BroadcastMessage::text("x".repeat(100));
    assert_eq!(shared(&mut encoder, &long)[0], FINAL | RSV1 | TEXT);
}

#[test]
fn w06_receivers_that_keep_their_context_read_messages_of_their_own_between_broadcasts() {
    for keeps in [true, false] {
        let (mut encoder, decoder) = pair(WebSocketRole::Server, keeps);
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for round in 0..20 {
            let own = format!("a message of its own, which resembles the others: {}", round / 3);
            let to_all = format!("a message for all, which resembles the others: {}", round / 2);
            for _ in 0..round % 3 {
                bytes.extend(encode(&mut encoder, text(&own)));
                expected.push(text(&own));
            }
            bytes.extend(shared(&mut encoder, &BroadcastMessage::text(&to_all)));
            expected.push(text(&to_all));
            bytes.extend(encode(&mut encoder, text(&own)));
            expected.push(text(&own));
        }
        assert_eq!(decode(decoder, bytes.chunks(1000)), (expected, None));
    }
}

#[test]
fn w06_a_client_masks_each_copy() {
    let message = BroadcastMessage::text("from a client");
    let mut encoder = MessageEncoder::new(WebSocketRole::Client);
    let mut bytes = BytesMut::new();
    for _ in 0..2 {
        assert_eq!(encoder.encode_broadcast(&message, &mut bytes), Ok(None));
    }
    assert_ne!(bytes[..19], bytes[19..]);
    let decoded = decode(decoder(WebSocketRole::Server), [&bytes[..]]);
    assert_eq!(decoded, (vec![text("from a client"); 2], None));
}

#[test]
fn w06_a_broadcast_is_refused_inside_of_a_message_in_parts_and_behind_a_close() {
    let message = BroadcastMessage::text("x".repeat(200));
    for mut encoder in [
        MessageEncoder::new(WebSocketRole::Server),
        MessageEncoder::new(WebSocketRole::Client),
        MessageEncoder::new(WebSocketRole::Server).deflate(&options(true), &agreed(true)),
    ] {
        encode(&mut encoder, part("begun", false));
        let mut dst = BytesMut::new();
        let refused = encoder.encode_broadcast(&message, &mut dst);
        assert_eq!(refused, Err(SendError::UnfinishedMessage));
        encode(&mut encoder, WebSocketMessage::Close(None));
        assert_eq!(encoder.encode_broadcast(&message, &mut dst), Err(SendError::Closing));
        assert!(dst.is_empty());
    }
}
