//! Fuzzes the decoders of content codings, with one layer or two and any limits: the outcome does not depend on how the
//! bytes are cut, no limit is exceeded, and nothing panics.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use waterwheel_fuzz::Input;
use waterwheel_http::{ContentCoding, ContentDecoder, DECODE_STEP, DecodeLimits, DecodeStatus};

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (inner, outer) = (coding(&mut input), coding(&mut input));
    let codings = if input.flag() { vec![inner, outer] } else { vec![inner] };
    let limits = DecodeLimits {
        size: 1 << input.below(20),
        // A ratio is checked while bytes arrive, so it would depend on the cuts.
        ratio: u64::MAX,
        window_log: 10 + input.below(15) as u8,
        ..DecodeLimits::default()
    };
    let step = 1 + input.below(64);
    let Input(stream) = input;
    let whole = decode(&codings, limits, [stream]);
    assert_eq!(whole, decode(&codings, limits, stream.chunks(step)), "in pieces of {step}");
    assert_eq!(whole, decode(&codings, limits, stream.chunks(1)), "byte by byte");
});

fn coding(input: &mut Input<'_>) -> ContentCoding {
    ContentCoding::ALL[input.below(ContentCoding::ALL.len())]
}

/// Returns the decoded body, `None` after an error: if several things are wrong, the cuts decide which is found first.
fn decode<'a>(
    codings: &[ContentCoding],
    limits: DecodeLimits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Option<BytesMut> {
    let mut decoder = ContentDecoder::new(codings, limits).expect("at most two codings");
    let mut out = BytesMut::new();
    for mut piece in pieces {
        loop {
            let before = out.len();
            let status = decoder.decode(&mut piece, &mut out).ok()?;
            assert!(out.len() - before <= DECODE_STEP, "a step is bounded");
            assert!(out.len() as u64 <= limits.size, "the size is limited");
            if status == DecodeStatus::NeedsInput {
                break;
            }
        }
        assert!(piece.is_empty(), "a decoder that needs input has taken all it was given");
    }
    decoder.finish().ok()?;
    Some(out)
}
