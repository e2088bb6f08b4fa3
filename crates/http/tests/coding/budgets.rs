//! Memory of encoders and decoders. That of zstd is not here: libzstd allocates by malloc, which the counting allocator
//! does not see; unit tests of its file ask the library.

use bytes::BytesMut;
use waterwheel_http::{
    ContentCoding, ContentDecodeError, ContentDecoder, ContentEncoder, DecodeLimits, DecodeStatus,
    EncoderOptions,
};

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::bytes;

const KIB: usize = 1024;

/// Text that compresses to about a fifth.
fn text(len: usize) -> Vec<u8> {
    let mut text = String::new();
    let mut number = 1_u32;
    while text.len() < len {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(&format!("line {} of a text\n", number >> 8));
    }
    text.into_bytes()
}

/// Encodes a text; returns the output, and the most memory that the encoder held, without the output's.
fn encode(coding: ContentCoding, options: &EncoderOptions, text: &[u8]) -> (BytesMut, usize) {
    let mut out = BytesMut::with_capacity(text.len() + KIB);
    let before = bytes();
    let mut encoder = ContentEncoder::new(coding, options, None).unwrap();
    let (mut input, mut most) = (text, 0);
    while !input.is_empty() {
        encoder.encode(&mut input, &mut out).unwrap();
        most = most.max(bytes() - before);
    }
    encoder.flush(&mut out).unwrap();
    most = most.max(bytes() - before);
    encoder.finish(&mut out).unwrap();
    assert_eq!(bytes(), before, "all memory is freed at the end");
    (out, most)
}

/// Decodes a body; returns its length, and the most memory that the decoder held between two steps.
fn decode(coding: ContentCoding, limits: DecodeLimits, mut input: &[u8]) -> (usize, usize) {
    let mut out = BytesMut::with_capacity(64 * KIB);
    let before = bytes();
    let mut decoder = ContentDecoder::new(&[coding], limits).unwrap();
    let (mut len, mut most) = (0, 0);
    loop {
        let status = decoder.decode(&mut input, &mut out).unwrap();
        most = most.max(bytes() - before);
        len += out.len();
        out.clear();
        if status == DecodeStatus::NeedsInput {
            break;
        }
    }
    decoder.finish().unwrap();
    drop(decoder);
    assert_eq!(bytes(), before, "all memory is freed at the end");
    (len, most)
}

fn wide() -> DecodeLimits {
    DecodeLimits { size: u64::MAX, ratio: u64::MAX, ..DecodeLimits::default() }
}

#[test]
fn h09_an_encoder_holds_no_more_memory_than_its_documentation_says() {
    let large = text(KIB * KIB);
    let default = EncoderOptions::default();
    for (coding, text, most) in [
        (ContentCoding::Gzip, &large[..100], 372 * KIB),
        (ContentCoding::Gzip, &large, 372 * KIB),
        (ContentCoding::Brotli, &large[..100], 520 * KIB),
        (ContentCoding::Brotli, &large, 3200 * KIB),
    ] {
        let (_, held) = encode(coding, &default, text);
        assert!(held <= most, "{coding}, {} bytes of text: {held} bytes held", text.len());
    }
}

#[test]
fn h09_a_decoder_holds_no_more_memory_than_its_documentation_says() {
    // Runs of one byte are quickly encoded; the decoder keeps them as it keeps other bytes.
    let body = vec![b'x'; 20 * KIB * KIB];
    for (coding, window_log, most) in [
        (ContentCoding::Gzip, 18, 47 * KIB),
        (ContentCoding::Brotli, 18, 300 * KIB),
        (ContentCoding::Brotli, 20, 1100 * KIB),
        (ContentCoding::Brotli, 23, 8300 * KIB),
    ] {
        let options = EncoderOptions { window_log, ..EncoderOptions::default() };
        let (encoded, _) = encode(coding, &options, &body);
        let (len, held) = decode(coding, wide(), &encoded);
        assert_eq!(len, body.len());
        assert!(held <= most, "{coding}, window 2^{window_log}: {held} bytes held");
    }
}

/// A gzip stream of 10 GB of zeros in 10 MB. Behind a flush a block refers to nothing but zeros, so it can be repeated.
fn gzip_bomb() -> Vec<u8> {
    let zeros = vec![0; KIB * KIB];
    let options = EncoderOptions::default();
    let mut encoder = ContentEncoder::new(ContentCoding::Gzip, &options, None).unwrap();
    let mut block = || {
        let (mut input, mut out) = (&zeros[..], BytesMut::new());
        while !input.is_empty() {
            encoder.encode(&mut input, &mut out).unwrap();
        }
        encoder.flush(&mut out).unwrap();
        out
    };
    let first = block();
    [&first[..], &block().repeat(10_000)].concat()
}

#[test]
fn h09_ten_gigabytes_in_ten_megabytes_are_refused_at_the_limit_with_flat_memory() {
    let bomb = gzip_bomb();
    assert!((9_000_000..12_000_000).contains(&bomb.len()), "{} bytes", bomb.len());
    let by_size = DecodeLimits { size: 32 << 20, ratio: u64::MAX, ..DecodeLimits::default() };
    let by_ratio = DecodeLimits { size: u64::MAX, ..DecodeLimits::default() };
    for (limits, most_decoded) in [(by_size, 32 << 20), (by_ratio, 80 * KIB as u64)] {
        let mut out = BytesMut::with_capacity(64 * KIB);
        let before = bytes();
        let mut decoder = ContentDecoder::new(&[ContentCoding::Gzip], limits).unwrap();
        let (mut input, mut most, mut decoded) = (&bomb[..], 0, 0);
        let error = loop {
            let result = decoder.decode(&mut input, &mut out);
            most = most.max(bytes() - before);
            decoded += out.len() as u64;
            out.clear();
            match result {
                Ok(status) => assert_eq!(status, DecodeStatus::HasMore),
                Err(error) => break error,
            }
        };
        assert!(
            decoded <= most_decoded && decoded + 4096 >= most_decoded.min(64 << 10),
            "{decoded}"
        );
        assert!(most <= 48 * KIB, "{most} bytes");
        let is_size =
            matches!(error, ContentDecodeError::TooLarge { limit } if limit == limits.size);
        let is_ratio = matches!(error, ContentDecodeError::Ratio { limit: 100, .. });
        assert!(if limits == by_size { is_size } else { is_ratio }, "{error}");
    }
}
