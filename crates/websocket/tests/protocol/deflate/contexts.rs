//! Every combination of parameters: contexts that are taken over or not, and windows (W03).

use waterwheel_websocket::{
    DeflateOptions, MessageDecoder, MessageEncoder, WebSocketLimits, WebSocketMessage,
    WebSocketRole,
};

use super::pair;
use crate::naive_inflate::inflate_naively;
use crate::support::*;

/// Messages of many lengths that refer to what was far before.
fn samples() -> Vec<WebSocketMessage> {
    let mut random: u32 = 1;
    let mut noise = |len: usize| -> Vec<u8> {
        let next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        std::iter::repeat_with(next).take(len).collect()
    };
    let far = noise(600);
    vec![
        text(""),
        text("x"),
        text(&"{\"channel\":\"news\",\"id\":17,\"text\":\"Hello\"}".repeat(3)),
        binary(&[&far[..], &noise(100), &far, &noise(300), &far[200..]].concat()),
        text(""),
        text(""),
        binary(&noise(20_000)),
        binary(&vec![0; 50_000]),
        text(&"{\"channel\":\"news\",\"id\":18,\"text\":\"Hello\"}".repeat(3)),
        binary(&[&far[..], &noise(40_000), &far].concat()),
        text(&"漢".repeat(3000)),
    ]
}

fn data_of(message: &WebSocketMessage) -> &[u8] {
    match message {
        WebSocketMessage::Text(text) => text.as_bytes(),
        WebSocketMessage::Binary(bytes) => bytes,
        other => panic!("{other:?} has no data"),
    }
}

/// Returns the payload of the only frame, which a server has sent.
fn payload_of(frame: &[u8]) -> &[u8] {
    match frame[1] {
        126 => &frame[4..],
        127 => &frame[10..],
        _ => &frame[2..],
    }
}

#[test]
fn w03_messages_pass_with_every_parameter_in_both_directions() {
    let samples = samples();
    for bits in 8..=15_u8 {
        for takeovers in 0..4 {
            let offered = bits.to_string();
            let mut offer = vec![
                ("server_max_window_bits", Some(&*offered)),
                ("client_max_window_bits", Some(&*offered)),
            ];
            if takeovers & 1 == 0 {
                offer.push(("server_no_context_takeover", None));
            }
            if takeovers & 2 == 0 {
                offer.push(("client_no_context_takeover", None));
            }
            let options = DeflateOptions::builder()
                .level(1 + u32::from(bits) % 9)
                .min_size(0)
                .context_takeover(true)
                .peer_context_takeover(true)
                .build()
                .unwrap();
            let agreed = options.negotiate([&offer]).unwrap();
            assert_eq!(agreed.server_max_window_bits(), bits);
            assert_eq!(agreed.client_max_window_bits(), bits);
            assert_eq!(agreed.server_no_context_takeover(), takeovers & 1 == 0);
            assert_eq!(agreed.client_no_context_takeover(), takeovers & 2 == 0);
            for role in ROLES {
                let mut encoder = MessageEncoder::new(role).deflate(&options, &agreed);
                let limits = WebSocketLimits::default();
                let decoder = MessageDecoder::new(peer_of(role), limits).deflate(&agreed);
                let bytes: Vec<u8> = samples
                    .iter()
                    .flat_map(|message| encode(&mut encoder, message.clone()))
                    .collect();
                assert_eq!(decode(decoder, bytes.chunks(1500)), (samples.clone(), None));
            }
        }
    }
}

#[test]
fn w03_no_compressor_refers_to_data_before_its_window() {
    // The naive reader is slow.
    let samples: Vec<_> =
        samples().into_iter().filter(|message| data_of(message).len() < 4000).collect();
    for bits in [8, 9, 11, 15_u8] {
        for level in [1, 2, 3, 6, 9] {
            for keeps in [false, true] {
                let options = DeflateOptions::builder()
                    .level(level)
                    .min_size(0)
                    .context_takeover(keeps)
                    .build()
                    .unwrap();
                let offered = bits.to_string();
                let offer = [("server_max_window_bits", Some(&*offered))];
                let agreed = options.negotiate([offer]).unwrap();
                let mut encoder =
                    MessageEncoder::new(WebSocketRole::Server).deflate(&options, &agreed);
                let mut streams = vec![(Vec::new(), Vec::new())];
                for message in &samples {
                    let frame = encode(&mut encoder, message.clone());
                    if !keeps {
                        streams.push((Vec::new(), Vec::new()));
                    }
                    let (stream, expected) = streams.last_mut().unwrap();
                    stream.extend_from_slice(payload_of(&frame));
                    stream.extend_from_slice(&[0, 0, 0xff, 0xff]);
                    expected.extend_from_slice(data_of(message));
                }
                for (stream, expected) in streams {
                    let inflated = inflate_naively(&stream);
                    assert!(!inflated.is_corrupt && inflated.data == expected, "{bits} {level}");
                    let far = inflated.largest_distance;
                    assert!(far <= 1 << bits, "{far} with {bits} bits at level {level}");
                }
            }
        }
    }
}

#[test]
fn w03_a_context_is_taken_over_if_both_agree() {
    let message = text("a message that is sent twice, and is shorter the second time");
    for role in ROLES {
        for keeps in [true, false] {
            let (mut encoder, decoder) = pair(role, keeps);
            let first = encode(&mut encoder, message.clone());
            let second = encode(&mut encoder, message.clone());
            assert_eq!(keeps, second.len() < first.len() / 2, "{} {}", first.len(), second.len());
            let third = encode(&mut encoder, message.clone());
            let bytes = [first, second, third].concat();
            let expected = vec![message.clone(); 3];
            assert_eq!(decode(decoder, bytes.chunks(7)), (expected, None));
        }
    }
}

#[test]
fn w03_a_window_that_slides_over_many_messages_stays_in_step() {
    for role in ROLES {
        let (mut encoder, mut decoder) = pair(role, true);
        for round in 0..3000 {
            let message = text(&format!("{round:5} {}", "news ".repeat(round * 7 % 90)));
            let bytes = encode(&mut encoder, message.clone());
            let mut decoded = Default::default();
            for piece in bytes.chunks(64) {
                decode_piece(&mut decoder, piece, &mut decoded);
            }
            assert_eq!(decoded, (vec![message], None));
        }
    }
}

#[test]
fn w03_connections_of_a_thread_do_not_see_each_others_contexts() {
    let mut pairs: Vec<_> = (0..12).map(|index| pair(ROLES[index % 2], index % 3 == 0)).collect();
    for round in 0..10 {
        // Each message is begun on all connections before any of them ends.
        for (index, (encoder, decoder)) in pairs.iter_mut().enumerate() {
            let mut decoded = Default::default();
            let begin = part(&*format!("connection {index}, round {round}, "), false);
            decode_piece(decoder, &encode(encoder, begin), &mut decoded);
            assert_eq!(decoded, (vec![], None));
        }
        for (index, (encoder, decoder)) in pairs.iter_mut().enumerate() {
            let mut decoded = Default::default();
            decode_piece(decoder, &encode(encoder, part("the end", true)), &mut decoded);
            let expected = text(&format!("connection {index}, round {round}, the end"));
            assert_eq!(decoded, (vec![expected], None));
        }
    }
}
