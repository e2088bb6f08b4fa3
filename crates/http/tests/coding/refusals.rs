//! Bodies that are corrupt, cut short, too long, too large or made to exhaust memory.

use bytes::{BufMut, BytesMut};
use waterwheel_http::{
    ContentCoding, ContentDecodeError, ContentDecoder, ContentEncodeError, ContentEncoder,
    DECODE_STEP, DecodeLimits, DecodeStatus, EncoderOptions,
};

use crate::coding_support::{SENT, decode, encode, encoder, without_reason};

const BODY: &[u8] = b"A body of a few words, and a few words more: words, words, words.";

/// "zlib" as Python's zlib.compress writes it.
const ZLIB: &[u8] = &[0x78, 0x9c, 0xab, 0xca, 0xc9, 0x4c, 0x02, 0x00, 0x04, 0x64, 0x01, 0xb2];

fn limits() -> DecodeLimits {
    DecodeLimits::default()
}

#[test]
fn h09_a_truncated_body_is_an_error_wherever_it_ends() {
    for coding in SENT {
        let encoded = encode(coding, BODY);
        for end in 0..encoded.len() {
            let error = decode(&[coding], limits(), [&encoded[..end]]).unwrap_err();
            assert_eq!(error, ContentDecodeError::Truncated { coding }, "after {end} bytes");
        }
    }
}

#[test]
fn h09_bytes_behind_the_end_are_an_error() {
    for coding in SENT {
        for behind in [&b"x"[..], b"\0", b"\x1f\x8c", b"garbage garbage"] {
            let mut encoded = encode(coding, BODY);
            encoded.put_slice(behind);
            let whole = decode(&[coding], limits(), [&encoded[..]]).unwrap_err();
            assert_eq!(decode(&[coding], limits(), encoded.chunks(1)), Err(whole));
            match (coding, whole) {
                // libzstd takes them for the begin of another frame.
                (ContentCoding::Zstd, ContentDecodeError::Corrupt { .. }) => {}
                (ContentCoding::Zstd, error) => {
                    assert_eq!(error, ContentDecodeError::Truncated { coding }, "{behind:?}");
                }
                (_, error) => assert_eq!(error, ContentDecodeError::TrailingBytes { coding }),
            }
        }
    }
}

#[test]
fn h09_a_corrupt_byte_anywhere_is_an_error_or_another_text_and_never_a_panic() {
    for coding in SENT {
        let encoded = encode(coding, BODY);
        let mut undetected = 0;
        for at in 0..encoded.len() {
            for bit in 0..8 {
                let mut corrupt = encoded.clone();
                corrupt[at] ^= 1 << bit;
                let whole = decode(&[coding], limits(), [&corrupt[..]]);
                let in_bytes = decode(&[coding], limits(), corrupt.chunks(1));
                assert_eq!(without_reason(in_bytes), without_reason(whole.clone()));
                undetected += usize::from(whole.is_ok_and(|body| body != BODY));
            }
        }
        // Gzip and zstd have checksums; brotli has none.
        if coding != ContentCoding::Brotli {
            assert_eq!(undetected, 0, "{coding}");
        }
    }
}

#[test]
fn h09_an_error_is_repeated_by_every_later_call() {
    let mut decoder = ContentDecoder::new(&[ContentCoding::Gzip], limits()).unwrap();
    let mut out = BytesMut::new();
    let error = decoder.decode(&mut &b"no gzip"[..], &mut out).unwrap_err();
    let coding = ContentCoding::Gzip;
    assert_eq!(error, ContentDecodeError::Corrupt { coding, reason: "no gzip magic number" });
    assert_eq!(error.to_string(), "the gzip body is corrupt: no gzip magic number");
    assert_eq!(decoder.decode(&mut &encode(coding, BODY)[..], &mut out), Err(error));
    assert_eq!(decoder.finish(), Err(error));
    assert!(out.is_empty());
}

#[test]
fn h09_members_and_frames_that_follow_each_other_are_joined() {
    for coding in [ContentCoding::Gzip, ContentCoding::Zstd] {
        let mut encoded = encode(coding, b"one, ");
        encoded.unsplit(encode(coding, b""));
        encoded.unsplit(encode(coding, b"two"));
        assert_eq!(decode(&[coding], limits(), [&encoded[..]]).unwrap(), "one, two");
        assert_eq!(decode(&[coding], limits(), encoded.chunks(1)).unwrap(), "one, two");
    }
    // A skippable frame of zstd (RFC 8878, section 3.1.2).
    let mut encoded = BytesMut::from(&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..]);
    encoded.unsplit(encode(ContentCoding::Zstd, b"text"));
    assert_eq!(decode(&[ContentCoding::Zstd], limits(), encoded.chunks(1)).unwrap(), "text");
}

#[test]
fn h09_deflate_is_read_as_zlib_and_raw_deflate_is_refused() {
    let coding = ContentCoding::Deflate;
    assert_eq!(decode(&[coding], limits(), [ZLIB]).unwrap(), "zlib");
    assert_eq!(decode(&[coding], limits(), ZLIB.chunks(1)).unwrap(), "zlib");
    let end = ZLIB.len() - 1;
    let truncated = decode(&[coding], limits(), [&ZLIB[..end]]);
    assert_eq!(truncated, Err(ContentDecodeError::Truncated { coding }));
    let corrupt =
        ContentDecodeError::Corrupt { coding, reason: "invalid deflate data or checksum" };
    let mut wrong_sum = ZLIB.to_vec();
    wrong_sum[end] ^= 1;
    assert_eq!(decode(&[coding], limits(), [&wrong_sum[..]]), Err(corrupt));
    assert_eq!(decode(&[coding], limits(), [&ZLIB[2..]]), Err(corrupt));
    let trailing = [ZLIB, b"x"].concat();
    let error = Err(ContentDecodeError::TrailingBytes { coding });
    assert_eq!(decode(&[coding], limits(), [&trailing[..]]), error);
    let encoder = ContentEncoder::new(coding, &EncoderOptions::default(), None);
    assert_eq!(encoder.unwrap_err(), ContentEncodeError::NotAvailable { coding });
}

#[test]
fn h09_a_decoded_body_may_be_as_large_as_the_limit_and_no_larger() {
    let body = BODY.repeat(1000);
    for coding in SENT {
        let encoded = encode(coding, &body);
        let size = body.len() as u64;
        let exact = DecodeLimits { size, ratio: 1_000_000, ..limits() };
        assert_eq!(decode(&[coding], exact, [&encoded[..]]).unwrap(), body);
        let below = DecodeLimits { size: size - 1, ..exact };
        let error = ContentDecodeError::TooLarge { limit: size - 1 };
        assert_eq!(decode(&[coding], below, [&encoded[..]]), Err(error));
        assert_eq!(decode(&[coding], below, encoded.chunks(1)), Err(error));
    }
}

#[test]
fn h09_a_body_may_not_expand_more_than_the_ratio_beyond_the_grace() {
    for coding in SENT {
        let small = encode(coding, &[0; 64 * 1024]);
        assert!(decode(&[coding], limits(), [&small[..]]).is_ok(), "within the grace");
        let large = encode(coding, &[0; 1024 * 1024]);
        match decode(&[coding], limits(), [&large[..]]) {
            Err(ContentDecodeError::Ratio { decoded, encoded, limit: 100 }) => {
                assert!(decoded > 64 * 1024 && decoded <= 64 * 1024 + DECODE_STEP as u64);
                assert!(encoded <= large.len() as u64 && decoded > 100 * encoded);
            }
            other => panic!("{coding}: {other:?}"),
        }
        let wide = DecodeLimits { ratio: 1_000_000, ..limits() };
        assert_eq!(decode(&[coding], wide, [&large[..]]).unwrap().len(), 1024 * 1024);
    }
}

/// A bomb in a bomb: some hundred bytes that hold megabytes that hold gigabytes.
#[test]
fn h09_the_ratio_of_two_layers_counts_from_the_bytes_received() {
    for outer in SENT {
        let inner = encode(ContentCoding::Gzip, &vec![0; 8 * 1024 * 1024]);
        let bomb = encode(outer, &inner);
        // Each layer alone would pass with this ratio; together they would not.
        let limits = DecodeLimits { ratio: 1100, ..limits() };
        assert!(inner.len() as u64 * limits.ratio > 8 * 1024 * 1024);
        let result = decode(&[ContentCoding::Gzip, outer], limits, [&bomb[..]]);
        assert!(matches!(result, Err(ContentDecodeError::Ratio { .. })), "{outer}: {result:?}");
    }
}

#[test]
fn h09_an_error_of_a_layer_names_its_coding() {
    let codings = [ContentCoding::Gzip, ContentCoding::Brotli];
    let garbage = encode(ContentCoding::Brotli, b"not gzip");
    let error = decode(&codings, limits(), [&garbage[..]]).unwrap_err();
    let coding = ContentCoding::Gzip;
    assert_eq!(error, ContentDecodeError::Corrupt { coding, reason: "no gzip magic number" });
    let half = encode(coding, BODY);
    let truncated = encode(ContentCoding::Brotli, &half[..20]);
    let error = decode(&codings, limits(), [&truncated[..]]).unwrap_err();
    assert_eq!(error, ContentDecodeError::Truncated { coding });
}

#[test]
fn h09_a_window_above_the_limit_is_refused() {
    let options = EncoderOptions { window_log: 20, ..EncoderOptions::default() };
    for coding in [ContentCoding::Brotli, ContentCoding::Zstd] {
        let mut encoder = ContentEncoder::new(coding, &options, None).unwrap();
        let mut encoded = BytesMut::new();
        encoder.encode(&mut &BODY[..], &mut encoded).unwrap();
        // Without a flush the length would be known, and zstd would declare no window.
        encoder.flush(&mut encoded).unwrap();
        encoder.finish(&mut encoded).unwrap();
        let exact = DecodeLimits { window_log: 20, ..limits() };
        assert_eq!(decode(&[coding], exact, [&encoded[..]]).unwrap(), BODY);
        let below = DecodeLimits { window_log: 19, ..limits() };
        let error = ContentDecodeError::WindowTooLarge { coding, limit: 19 };
        assert_eq!(decode(&[coding], below, [&encoded[..]]), Err(error));
        assert_eq!(decode(&[coding], below, encoded.chunks(1)), Err(error));
    }
}

#[test]
fn h09_windows_beyond_the_rfcs_are_refused() {
    // A zstd frame with a window of 16 MiB: descriptor, then exponent 14 (RFC 8878, section 3.1.1.1.2).
    let coding = ContentCoding::Zstd;
    let frame = b"\x28\xb5\x2f\xfd\0\x70\x01\0\0";
    let error = Err(ContentDecodeError::WindowTooLarge { coding, limit: 23 });
    assert_eq!(decode(&[coding], limits(), [&frame[..]]), error);
    // 128 MiB and the largest window that the format has.
    for exponent in [17 << 3, 31 << 3 | 7] {
        let mut frame = *frame;
        frame[5] = exponent;
        assert_eq!(decode(&[coding], limits(), [&frame[..]]), error);
    }
    // The large window of brotli: the reserved pattern 0010001, then a window of 2^26.
    let coding = ContentCoding::Brotli;
    let error = ContentDecodeError::Corrupt { coding, reason: "invalid brotli data" };
    assert_eq!(decode(&[coding], limits(), [&b"\x11\x1a\x03"[..]]), Err(error));
}

#[test]
fn h09_a_stream_without_end_is_refused_at_the_limit() {
    const MEGABYTES: u64 = 64;
    for coding in SENT {
        let limits = DecodeLimits { size: MEGABYTES << 20, ratio: u64::MAX, ..limits() };
        let mut decoder = ContentDecoder::new(&[coding], limits).unwrap();
        let (mut encoder, mut encoded, mut out) =
            (encoder(coding), BytesMut::new(), BytesMut::new());
        let zeros = vec![0; 1 << 20];
        let error = 'body: loop {
            let mut input = &zeros[..];
            while !input.is_empty() {
                encoder.encode(&mut input, &mut encoded).unwrap();
            }
            encoder.flush(&mut encoded).unwrap();
            let received = encoded.split();
            let mut received = &received[..];
            loop {
                out.clear();
                match decoder.decode(&mut received, &mut out) {
                    Ok(DecodeStatus::HasMore) => {}
                    Ok(DecodeStatus::NeedsInput) => break,
                    Err(error) => break 'body error,
                }
            }
        };
        assert_eq!(error, ContentDecodeError::TooLarge { limit: MEGABYTES << 20 });
        assert!(decoder.encoded() < 200_000, "{coding}: {} bytes", decoder.encoded());
    }
}

#[test]
fn r04_input_that_brings_no_output_ends_a_step() {
    // Fixed blocks without content take 10 bits each, and the time of building their tables.
    let mut stream = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let empty_blocks = [0x02, 0x08, 0x20, 0x80, 0x00];
    stream.extend(empty_blocks.iter().cycle().take(20_000));
    let mut decoder = ContentDecoder::new(&[ContentCoding::Gzip], limits()).unwrap();
    let (mut rest, mut out) = (&stream[..], BytesMut::new());
    let mut steps = 0;
    loop {
        let before = decoder.encoded();
        let status = decoder.decode(&mut rest, &mut out).unwrap();
        let taken = decoder.encoded() - before;
        assert!(taken <= 2048, "{taken} bytes without output in a step");
        steps += 1;
        if status == DecodeStatus::NeedsInput {
            break;
        }
    }
    assert!(rest.is_empty() && out.is_empty() && steps > 10);
}
