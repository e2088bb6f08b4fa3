//! Random frames and messages: the decoder against the slow one, and the encoder against the decoder (K05, W02, W03).

use proptest::prelude::*;
use waterwheel_websocket::{
    CloseCode, CloseReason, DeflateOptions, MessageDecoder, MessageEncoder, PartData,
    ProtocolError, WebSocketLimits, WebSocketMessage, WebSocketRole,
};

use super::naive_decoder::{Decoded, NaiveDecoder, NaiveDeflate};
use super::support::*;

fn role() -> impl Strategy<Value = WebSocketRole> {
    prop::sample::select(&ROLES[..])
}

/// Frames that are valid most of the time.
fn any_frame(to: WebSocketRole) -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        4 => Just(CONTINUATION),
        3 => Just(TEXT),
        3 => Just(BINARY),
        2 => Just(PING),
        1 => Just(PONG),
        1 => Just(CLOSE),
        1 => 0..16_u8,
    ];
    let bits = prop_oneof![30 => Just(0_u8), 1 => 0..8_u8];
    let payload = prop_oneof![
        6 => "[a-zé漢😀]{0,40}".prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..200),
        1 => Just(b"\x03\xe8bye".to_vec()),
    ];
    (opcode, any::<bool>(), bits, payload).prop_map(move |(opcode, is_final, bits, payload)| {
        let is_final = is_final || opcode >= 8;
        frame(to, if is_final { FINAL } else { 0 } | bits << 4 | opcode, &payload)
    })
}

/// Frames, and at times something else behind them.
fn any_stream(to: WebSocketRole) -> impl Strategy<Value = Vec<u8>> {
    let rest = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(any::<u8>(), 0..40)];
    (prop::collection::vec(any_frame(to), 0..12), rest)
        .prop_map(|(frames, rest)| [frames.concat(), rest].concat())
}

fn message() -> impl Strategy<Value = WebSocketMessage> {
    let code = prop::sample::select(vec![1000_u16, 1001, 1011, 1014, 3000, 4999]);
    let close = (code, ".{0,40}").prop_map(|(code, reason)| {
        WebSocketMessage::Close(Some(CloseReason::new(CloseCode::new(code).unwrap(), reason)))
    });
    let data = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..300),
            (any::<u8>(), 0..6000_usize).prop_map(|(byte, len)| vec![byte; len]),
        ]
    };
    let parts = || prop::collection::vec(".{0,30}", 1..5);
    // Several parts make one element, so that they follow each other.
    prop_oneof![
        5 => ".{0,200}".prop_map(|of| text(&of)),
        5 => data().prop_map(|of| binary(&of)),
        3 => parts().prop_map(|of| part(&*of.join("\u{1}"), true)),
        1 => prop::collection::vec(any::<u8>(), 0..126).prop_map(|of| WebSocketMessage::Ping(of.into())),
        1 => prop::collection::vec(any::<u8>(), 0..126).prop_map(|of| WebSocketMessage::Pong(of.into())),
        1 => close,
    ]
}

/// Splits a text of joined parts into its parts.
fn split_parts(message: WebSocketMessage) -> Vec<WebSocketMessage> {
    let WebSocketMessage::Part(whole) = &message else { return vec![message] };
    let PartData::Text(joined) = &whole.data else { return vec![message] };
    let count = joined.split('\u{1}').count();
    let split = joined.split('\u{1}').enumerate();
    split.map(|(index, of)| part(of, index + 1 == count)).collect()
}

/// Returns a message as a peer reads it, whole.
fn as_read(message: &WebSocketMessage) -> WebSocketMessage {
    let WebSocketMessage::Part(whole) = message else { return message.clone() };
    let PartData::Text(joined) = &whole.data else { return message.clone() };
    text(&joined.replace('\u{1}', ""))
}

/// Cuts bytes into pieces of these lengths, over and over.
fn cut<'a>(bytes: &'a [u8], lens: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    lens.iter().cycle().map_while(move |len| {
        let piece;
        (piece, rest) = rest.split_at((*len).min(rest.len()));
        (!piece.is_empty()).then_some(piece)
    })
}

fn without_error_kind((messages, error): Decoded) -> (Vec<WebSocketMessage>, bool) {
    (messages, error.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn w02_the_decoder_reads_as_the_slow_one_at_every_byte(
        (role, bytes) in role().prop_flat_map(|role| (Just(role), any_stream(role))),
        max_frame in prop_oneof![Just(u64::MAX), 0..200_u64],
        max_message in prop_oneof![Just(u64::MAX), 0..300_u64],
        lens in prop::collection::vec(1..60_usize, 1..5),
    ) {
        let limits = WebSocketLimits::default().max_frame(max_frame).max_message(max_message);
        let naive = NaiveDecoder { role, max_frame, max_message, deflate: None };
        let whole = decode(MessageDecoder::new(role, limits), [&bytes[..]]);
        prop_assert_eq!(&whole, &naive.decode(&bytes));
        let (mut decoder, mut decoded) = (MessageDecoder::new(role, limits), Decoded::default());
        for (at, byte) in bytes.iter().enumerate() {
            decode_piece(&mut decoder, &[*byte], &mut decoded);
            prop_assert_eq!(&decoded, &naive.decode(&bytes[..=at]), "after byte {}", at);
        }
        let decoder = || MessageDecoder::new(role, limits);
        prop_assert_eq!(&decode(decoder(), cut(&bytes, &lens)), &whole);
        let (parts, error) = decode(decoder().parts(), cut(&bytes, &lens));
        prop_assert_eq!((join_parts(parts), error), whole);
    }

    #[test]
    fn w02_a_decoder_reads_what_the_encoder_wrote(
        role in role(),
        deflate in prop::option::of((1..10_u32, 9..16_u8, any::<bool>(), 0..200_usize)),
        messages in prop::collection::vec(message(), 0..10),
        lens in prop::collection::vec(1..2000_usize, 1..5),
    ) {
        let mut encoder = MessageEncoder::new(role);
        let make = || MessageDecoder::new(peer_of(role), WebSocketLimits::default());
        let mut decoders = [make(), make().parts()];
        if let Some((level, bits, keeps, min_size)) = deflate {
            let builder = DeflateOptions::builder().level(level).min_size(min_size);
            let builder = builder.context_takeover(keeps).peer_context_takeover(keeps);
            let options = builder.window_bits(bits).peer_window_bits(bits).build().unwrap();
            let agreed = options.negotiate([[("client_max_window_bits", None)]]).unwrap();
            encoder = encoder.deflate(&options, &agreed);
            decoders = decoders.map(|decoder| decoder.deflate(&agreed));
        }
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for message in messages {
            let is_close = matches!(message, WebSocketMessage::Close(_));
            expected.push(as_read(&message));
            for message in split_parts(message) {
                bytes.extend(encode(&mut encoder, message));
            }
            if is_close {
                break;
            }
        }
        let [whole, in_parts] = decoders;
        prop_assert_eq!(&decode(whole, cut(&bytes, &lens)), &(expected.clone(), None));
        let (parts, error) = decode(in_parts, cut(&bytes, &lens));
        prop_assert_eq!((join_parts(parts), error), (expected, None));
    }

    #[test]
    fn w03_random_compressed_data_is_read_as_the_slow_inflate_reads_it(
        role in role(),
        keeps in any::<bool>(),
        payloads in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..30),
                Just(b"\xf2\x48\xcd\xc9\xc9\x07\x00".to_vec()),
                Just(b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00".to_vec()),
                Just(b"\xf2\x00\x11\x00\x00".to_vec()),
            ],
            1..5,
        ),
        lens in prop::collection::vec(1..20_usize, 1..5),
    ) {
        let deflate = Some(match keeps {
            true => NaiveDeflate::ContextTakeover,
            false => NaiveDeflate::NoContextTakeover,
        });
        let bytes: Vec<u8> = payloads
            .iter()
            .flat_map(|payload| frame(role, FINAL | RSV1 | BINARY, payload))
            .collect();
        let naive = NaiveDecoder { deflate, ..naive(role) }.decode(&bytes);
        let make = || decoder(role).deflate(&super::deflate::agreed(keeps));
        let whole = decode(make(), [&bytes[..]]);
        prop_assert_eq!(&decode(make(), cut(&bytes, &lens)), &whole);
        prop_assert!(matches!(whole.1, None | Some(ProtocolError::CorruptDeflate)));
        prop_assert_eq!(without_error_kind(whole), without_error_kind(naive));
    }
}
