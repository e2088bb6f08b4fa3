//! Messages that are read and written in parts (W02).

use bytes::BytesMut;
use waterwheel_websocket::{MessageEncoder, ProtocolError, SendError, WebSocketMessage};

use super::support::*;

#[test]
fn w02_parts_are_returned_as_they_come() {
    for role in ROLES {
        let bytes =
            frames(role, &[(TEXT, b"one"), (FINAL | PING, b"p"), (FINAL | CONTINUATION, b"two")]);
        let decoded = decode(decoder(role).parts(), [&bytes[..]]);
        let expected = vec![part("one", false), ping(b"p"), part("two", true)];
        assert_eq!(decoded, (expected, None), "in one piece");

        let expected = vec![
            part("o", false),
            part("n", false),
            part("e", false),
            ping(b"p"),
            part("t", false),
            part("w", false),
            part("o", true),
        ];
        let decoded = decode(decoder(role).parts(), bytes.chunks(1));
        assert_eq!(decoded, (expected, None), "byte by byte");
    }
}

#[test]
fn w02_parts_of_a_text_end_between_two_characters() {
    let sample = "aé漢😀";
    for role in ROLES {
        let bytes = frame(role, FINAL | TEXT, sample.as_bytes());
        let decoded = decode(decoder(role).parts(), bytes.chunks(1));
        let expected =
            vec![part("a", false), part("é", false), part("漢", false), part("😀", true)];
        assert_eq!(decoded, (expected, None));
        for cut in 0..bytes.len() {
            let (first, second) = bytes.split_at(cut);
            let (parts, error) = decode(decoder(role).parts(), [first, second]);
            assert_eq!((join_parts(parts), error), (vec![text(sample)], None), "{cut}");
        }
        let unfinished = frame(role, FINAL | TEXT, "a😀".as_bytes().split_last().unwrap().1);
        let decoded = decode(decoder(role).parts(), unfinished.chunks(1));
        assert_eq!(decoded, (vec![part("a", false)], Some(ProtocolError::InvalidUtf8)));
    }
}

#[test]
fn w02_only_the_last_part_may_be_empty() {
    for role in ROLES {
        let empty = frames(role, &[(FINAL | TEXT, b""), (FINAL | BINARY, b"")]);
        let expected = vec![part("", true), part(&b""[..], true)];
        assert_eq!(decode(decoder(role).parts(), [&empty[..]]), (expected.clone(), None));
        let frames = frames(
            role,
            &[(TEXT, b""), (CONTINUATION, b""), (FINAL | CONTINUATION, b""), (FINAL | BINARY, b"")],
        );
        assert_eq!(decode(decoder(role).parts(), [&frames[..]]), (expected, None));
    }
}

#[test]
fn w02_violations_are_the_same_in_parts() {
    for role in ROLES {
        let cases = [
            frames(role, &[(TEXT, b"a"), (FINAL | TEXT, b"b")]),
            frames(role, &[(FINAL | BINARY, b"a"), (CONTINUATION, b"b")]),
            frames(role, &[(TEXT, b"a"), (CONTINUATION, b"b\xff")]),
            frames(role, &[(BINARY, b"a"), (PING, b"")]),
            [head_of(role, BINARY, 1 << 20), vec![0; 1 << 20], head_of(role, CONTINUATION, 1)]
                .concat(),
        ];
        for bytes in cases {
            let (messages, error) = decode(decoder(role), [&bytes[..]]);
            assert!(error.is_some());
            for piece in [bytes.len(), 1000, 7] {
                let (parts, in_parts) = decode(decoder(role).parts(), bytes.chunks(piece));
                assert_eq!(in_parts, error);
                let joined = join_parts(parts);
                let is_same =
                    |message: &&WebSocketMessage| !matches!(message, WebSocketMessage::Part(_));
                assert!(joined.iter().filter(is_same).eq(&messages));
            }
        }
    }
}

#[test]
fn w02_each_part_is_sent_as_a_frame() {
    let mut encoder = MessageEncoder::new(ROLES[0]);
    assert_eq!(encode(&mut encoder, part("a", false)), b"\x01\x01a");
    assert_eq!(encode(&mut encoder, ping(b"p")), b"\x89\x01p");
    assert_eq!(encode(&mut encoder, part("", false)), b"\x00\x00");
    assert_eq!(encode(&mut encoder, part("b", true)), b"\x80\x01b");
    assert_eq!(encode(&mut encoder, part(&b"c"[..], true)), b"\x82\x01c");
    let long = [1; 5000];
    let bytes = encode(&mut encoder, part(&long[..], false));
    assert_eq!((&bytes[..4], &bytes[4..]), (&b"\x02\x7e\x13\x88"[..], &long[..]));
    assert_eq!(encode(&mut encoder, part(&long[..], true))[..4], *b"\x80\x7e\x13\x88");
}

#[test]
fn w02_no_message_is_sent_between_the_parts_of_another() {
    for role in ROLES {
        let mut encoder = MessageEncoder::new(role);
        encode(&mut encoder, part("begun", false));
        let mut dst = BytesMut::new();
        for message in [
            text("x"),
            text(&"x".repeat(1000)),
            binary(b"x"),
            binary(&[1; 1000]),
            part(&b"x"[..], true),
        ] {
            assert_eq!(encoder.encode(message, &mut dst), Err(SendError::UnfinishedMessage));
        }
        assert!(dst.is_empty(), "nothing was appended");
        encode(&mut encoder, part("ended", true));
        encode(&mut encoder, text("x"));
    }
}

#[test]
fn w02_parts_are_read_as_they_were_written() {
    for role in ROLES {
        let (mut encoder, mut bytes) = (MessageEncoder::new(role), Vec::new());
        let sent = [part("éa", false), part("漢", false), part("", true), part(&b"\xff"[..], true)];
        for message in &sent {
            bytes.extend(encode(&mut encoder, message.clone()));
        }
        let (parts, error) = decode(decoder(peer_of(role)).parts(), [&bytes[..]]);
        assert_eq!((parts, error), (sent.to_vec(), None));
    }
}
