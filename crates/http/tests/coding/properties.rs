//! Encoding then decoding is the identity, however the bytes are cut; and no cut changes the bytes.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use waterwheel_http::{
    ContentCoding, ContentDecoder, ContentEncoder, DECODE_STEP, DecodeLimits, DecodeStatus,
    ENCODE_STEP, EncoderOptions,
};

use crate::coding_support::{SENT, decode, encode, encoder, without_reason};

/// Bodies that compress well, badly and not at all, of a length that crosses the steps now and then.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..2000),
        (vec(any::<u8>(), 1..50), 1..2000_usize).prop_map(|(unit, times)| unit.repeat(times)),
        (vec(select(b"abc \n".as_slice()), 0..3000), 1..30_usize)
            .prop_map(|(text, times)| text.repeat(times)),
    ]
}

/// Cuts bytes at the given distances, again and again.
fn pieces<'a>(mut bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for cut in cuts.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at(bytes.len().min(*cut));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![1..20_usize, 1..40_000_usize], 1..6)
}

/// The first bytes of streams, behind which random bytes get further than on their own.
const HEADS: &[&[u8]] = &[b"", b"\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\x28\xb5\x2f\xfd", b"\x78\x9c"];

/// Limits that honest bodies of these tests do not reach.
fn wide() -> DecodeLimits {
    DecodeLimits { ratio: u64::MAX, ..DecodeLimits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn h09_encoding_then_decoding_is_the_identity_however_both_are_cut(
        coding in select(SENT.as_slice()),
        body in bodies(),
        body_cuts in cuts(),
        encoded_cuts in cuts(),
    ) {
        let (mut encoder, mut encoded) = (encoder(coding), BytesMut::new());
        for mut piece in pieces(&body, &body_cuts) {
            while !piece.is_empty() {
                let before = piece.len();
                encoder.encode(&mut piece, &mut encoded).unwrap();
                prop_assert!(before - piece.len() <= ENCODE_STEP);
            }
        }
        encoder.finish(&mut encoded).unwrap();
        prop_assert_eq!(&encoded[..], &encode(coding, &body)[..], "a cut of the body shows");
        let decoded = decode(&[coding], wide(), pieces(&encoded, &encoded_cuts)).unwrap();
        prop_assert_eq!(&decoded[..], &body[..]);
    }

    #[test]
    fn h09_two_layers_are_decoded_however_they_are_cut(
        inner in select(SENT.as_slice()),
        outer in select(SENT.as_slice()),
        body in bodies(),
        cuts in cuts(),
    ) {
        let encoded = encode(outer, &encode(inner, &body));
        let decoded = decode(&[inner, outer], wide(), pieces(&encoded, &cuts)).unwrap();
        prop_assert_eq!(&decoded[..], &body[..]);
    }

    #[test]
    fn h09_after_a_flush_every_byte_so_far_can_be_decoded(
        coding in select(SENT.as_slice()),
        events in vec(vec(any::<u8>(), 0..300), 1..20),
    ) {
        let mut encoder = encoder(coding);
        let mut decoder = ContentDecoder::new(&[coding], wide()).unwrap();
        for event in &events {
            let mut encoded = BytesMut::new();
            encoder.encode(&mut &event[..], &mut encoded).unwrap();
            encoder.flush(&mut encoded).unwrap();
            let (mut input, mut decoded) = (&encoded[..], BytesMut::new());
            while decoder.decode(&mut input, &mut decoded).unwrap() == DecodeStatus::HasMore {}
            prop_assert_eq!(&decoded[..], &event[..]);
        }
        let mut encoded = BytesMut::new();
        encoder.finish(&mut encoded).unwrap();
        let (mut input, mut decoded) = (&encoded[..], BytesMut::new());
        while decoder.decode(&mut input, &mut decoded).unwrap() == DecodeStatus::HasMore {}
        prop_assert!(decoded.is_empty());
        decoder.finish().unwrap();
    }

    #[test]
    fn h09_random_bytes_are_decoded_alike_however_they_are_cut(
        coding in select(ContentCoding::ALL.as_slice()),
        head in select(HEADS),
        tail in vec(any::<u8>(), 0..400),
        cuts in cuts(),
    ) {
        let bytes = [head, &tail].concat();
        let whole = decode(&[coding], wide(), [&bytes[..]]);
        let in_pieces = decode(&[coding], wide(), pieces(&bytes, &cuts));
        prop_assert_eq!(without_reason(in_pieces), without_reason(whole));
    }
}

#[test]
fn h09_a_step_of_decoding_is_bounded() {
    let body = vec![7; 1_000_000];
    for coding in SENT {
        let encoded = encode(coding, &body);
        let mut decoder = ContentDecoder::new(&[coding], wide()).unwrap();
        let (mut input, mut decoded, mut steps) = (&encoded[..], BytesMut::new(), 0);
        loop {
            let before = decoded.len();
            let status = decoder.decode(&mut input, &mut decoded).unwrap();
            assert!(decoded.len() - before <= DECODE_STEP);
            steps += 1;
            if status == DecodeStatus::NeedsInput {
                break;
            }
        }
        assert_eq!(decoded, body);
        assert!(steps >= body.len() / DECODE_STEP, "{steps} steps");
        assert_eq!(decoder.encoded(), encoded.len() as u64);
    }
}

#[test]
fn h09_every_level_and_window_round_trips() {
    let text = b"A line of text that comes again, and again. ".repeat(3000);
    let default = EncoderOptions::default();
    let gzip = (1..=9).map(|gzip_level| EncoderOptions { gzip_level, ..default });
    let brotli = (0..=9).map(|brotli_quality| EncoderOptions { brotli_quality, ..default });
    let zstd = (1..=12).map(|zstd_level| EncoderOptions { zstd_level, ..default });
    let windows = (10..=23).map(|window_log| EncoderOptions { window_log, ..default });
    for options in gzip.chain(brotli).chain(zstd).chain(windows) {
        for coding in SENT {
            let mut encoder = ContentEncoder::new(coding, &options, None).unwrap();
            let (mut input, mut encoded) = (&text[..], BytesMut::new());
            while !input.is_empty() {
                encoder.encode(&mut input, &mut encoded).unwrap();
            }
            encoder.finish(&mut encoded).unwrap();
            assert!(encoded.len() < text.len() / 10, "{coding} {options:?}: {}", encoded.len());
            assert_eq!(decode(&[coding], wide(), [&encoded[..]]).unwrap(), text);
        }
    }
}

#[test]
fn h09_an_empty_body_is_a_stream_of_its_own() {
    for coding in SENT {
        let encoded = encode(coding, b"");
        assert!(!encoded.is_empty() && encoded.len() <= 20, "{coding}: {}", encoded.len());
        assert_eq!(decode(&[coding], wide(), [&encoded[..]]).unwrap(), "");
    }
}
