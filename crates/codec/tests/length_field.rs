//! Decodes frames with a length field, split at every position, and encodes them.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_channel::{ChannelOptions, WaterMarks};
use waterwheel_codec::{InvalidLengthField, LengthField, LengthFieldError};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;
use waterwheel_testkit::embedded::Embedded;

mod support;

use support::{Outcome, cuts, decode, parts, pieces, write, writer};

fn verify(shape: LengthField) -> DecoderVerifier<waterwheel_codec::LengthFieldDecoder> {
    let decoder = shape.decoder().unwrap();
    DecoderVerifier::new(move || decoder.clone())
}

fn frames<const N: usize>(frames: [&'static [u8]; N]) -> [Bytes; N] {
    frames.map(Bytes::from_static)
}

#[test]
fn k01_the_field_has_one_two_three_four_or_eight_bytes_in_either_order() {
    let big: [(usize, &[u8]); 5] = [
        (1, b"\x03abc"),
        (2, b"\0\x03abc"),
        (3, b"\0\0\x03abc"),
        (4, b"\0\0\0\x03abc"),
        (8, b"\0\0\0\0\0\0\0\x03abc"),
    ];
    for (width, stream) in big {
        verify(LengthField::new(width)).gives(stream, frames([b"abc"])).verify();
        let mut little = stream.to_vec();
        little[..width].reverse();
        verify(LengthField::new(width).little_endian()).gives(little, frames([b"abc"])).verify();
    }
    let long = vec![b'x'; 0x0102];
    for (shape, field) in
        [(LengthField::new(3), b"\0\x01\x02"), (LengthField::new(3).little_endian(), b"\x02\x01\0")]
    {
        let stream = [&field[..], &long].concat();
        verify(shape).gives(stream, [Bytes::from(long.clone())]).verify();
    }
}

/// Runs the examples in the documentation of Netty's `LengthFieldBasedFrameDecoder`.
#[test]
fn k01_offset_adjustment_and_strip_do_what_they_do_in_netty() {
    let cases: [(LengthField, &[u8], &'static [u8]); 8] = [
        (LengthField::new(2).strip(0), b"\0\x0cHELLO, WORLD", b"\0\x0cHELLO, WORLD"),
        (LengthField::new(2).strip(2), b"\0\x0cHELLO, WORLD", b"HELLO, WORLD"),
        (LengthField::new(2).adjustment(-2).strip(0), b"\0\x0eHELLO, WORLD", b"\0\x0eHELLO, WORLD"),
        (
            LengthField::new(3).offset(2).strip(0),
            b"\xca\xfe\0\0\x0cHELLO, WORLD",
            b"\xca\xfe\0\0\x0cHELLO, WORLD",
        ),
        (
            LengthField::new(3).adjustment(2).strip(0),
            b"\0\0\x0c\xca\xfeHELLO, WORLD",
            b"\0\0\x0c\xca\xfeHELLO, WORLD",
        ),
        (
            LengthField::new(2).offset(1).adjustment(1).strip(3),
            b"\xca\0\x0c\xfeHELLO, WORLD",
            b"\xfeHELLO, WORLD",
        ),
        (
            LengthField::new(2).offset(1).adjustment(-3).strip(3),
            b"\xca\0\x10\xfeHELLO, WORLD",
            b"\xfeHELLO, WORLD",
        ),
        (
            LengthField::new(2).offset(1).adjustment(-3).strip(4),
            b"\xca\0\x10\xfeHELLO, WORLD",
            b"HELLO, WORLD",
        ),
    ];
    for (shape, stream, frame) in cases {
        verify(shape).gives(stream, frames([frame])).gives(stream, frames([frame])).verify();
    }
}

#[test]
fn k01_a_frame_may_be_as_long_as_the_limit_with_its_header() {
    let shape = LengthField::new(1).max_frame(5);
    verify(shape)
        .gives(b"\x041234\0", frames([b"1234", b""]))
        .fails(b"\x05", LengthFieldError::TooLong { length: 6, limit: 5 })
        .gives(b"12345", [])
        .gives(b"\x041234", frames([b"1234"]))
        .verify();
}

#[test]
fn k01_fail_late_reports_a_too_long_frame_at_its_end() {
    let shape = LengthField::new(1).max_frame(5).fail_late();
    let too_long = LengthFieldError::TooLong { length: 6, limit: 5 };
    verify(shape)
        .gives(b"\x051234", [])
        .fails(b"5", too_long)
        .gives(b"\x01!", frames([b"!"]))
        .verify();
    verify(shape).gives(b"\x051234", []).fails_at_end(too_long).verify();
    verify(shape).gives(b"\x05", []).fails_at_end(too_long).verify();
}

#[test]
fn k01_a_length_that_is_negative_after_adjustment_ends_the_decoding() {
    verify(LengthField::new(2).adjustment(-2))
        .gives(b"\0\x03!", frames([b"!"]))
        .fails(b"\0\x01", "length field: a length of 1 with an adjustment of -2 is negative")
        .gives(b"\0\x03!", [])
        .verify();
}

#[test]
fn k01_a_length_beyond_sixty_four_bits_ends_the_decoding() {
    verify(LengthField::new(8))
        .fails(
            [0xff; 8],
            "length field: a length of 18446744073709551615 with an adjustment of 0 overflows",
        )
        .gives(b"\0\0\0\0\0\0\0\0", [])
        .verify();
    let longest = u64::MAX - 8;
    verify(LengthField::new(8))
        .fails(
            longest.to_be_bytes(),
            "length field: a frame has 18446744073709551615 bytes; at most 1048576 are allowed",
        )
        .gives(b"skipped", [])
        .verify();
}

#[test]
fn k01_a_frame_shorter_than_its_stripped_bytes_is_one_error() {
    let error = "length field: a frame has 2 bytes, fewer than the 3 to strip";
    verify(LengthField::new(1).strip(3))
        .fails(b"\x01!", error)
        .gives(b"\x02ab", frames([b""]))
        .gives(b"\x03abc", frames([b"c"]))
        .verify();
    // The largest value of the field also gives a frame that is too short.
    let error = "length field: a frame has 1 bytes, fewer than the 5 to strip";
    let shape = LengthField::new(1).adjustment(-255).strip(5);
    verify(shape).fails(b"\xff", error).fails(b"\xff", error).fails(b"\xff", error).verify();
    let stream = Bytes::from(vec![0xff; 16]);
    assert_eq!(decode(shape.decoder().unwrap(), [stream]), vec![Err(error.to_owned()); 16]);
}

#[test]
fn k01_a_frame_that_the_end_of_the_stream_cuts_off_is_an_error() {
    let cut_off = |unread| LengthFieldError::CutOff { unread };
    verify(LengthField::new(2))
        .gives(b"\0\x01!\0", frames([b"!"]))
        .fails_at_end(cut_off(1))
        .verify();
    verify(LengthField::new(2)).gives(b"\0\x02!", []).fails_at_end(cut_off(3)).verify();
    verify(LengthField::new(2)).gives(b"", []).verify();
    verify(LengthField::new(1).max_frame(2))
        .fails(b"\x02", LengthFieldError::TooLong { length: 3, limit: 2 })
        .gives(b"1", [])
        .verify();
}

#[test]
fn k01_contradictory_options_are_refused_with_an_error_that_shows_their_values() {
    let refused = |shape: LengthField| shape.decoder().unwrap_err().to_string();
    for width in [0, 5, 6, 7, 9, usize::MAX] {
        let error = LengthField::new(width).decoder().unwrap_err();
        assert_eq!(error, InvalidLengthField::Width { width });
    }
    assert_eq!(
        refused(LengthField::new(4).offset(1).max_frame(4)),
        "length field: 4 bytes at offset 1 do not fit into a frame of at most 4 bytes"
    );
    assert_eq!(
        refused(LengthField::new(4).offset(usize::MAX)),
        "length field: 4 bytes at offset 18446744073709551615 do not fit into a frame of at most \
         1048576 bytes"
    );
    assert_eq!(
        refused(LengthField::new(1).strip(9).max_frame(8)),
        "length field: 9 bytes cannot be stripped of a frame of at most 8 bytes"
    );
    for adjustment in [-256, 1 << 20, i64::MIN, i64::MAX] {
        let error = LengthField::new(1).adjustment(adjustment).decoder().unwrap_err();
        assert_eq!(
            error,
            InvalidLengthField::Adjustment { adjustment, width: 1, max_frame: 1 << 20 }
        );
    }
    assert!(LengthField::new(1).adjustment(-255).decoder().is_ok());
    let error = LengthField::new(2).strip(0).prepender().unwrap_err();
    assert_eq!(error, InvalidLengthField::PrependerStrip { strip: 0, header: 2 });
    let error = LengthField::new(2).offset(2).prepender().unwrap().header("abc").unwrap_err();
    assert_eq!(error, InvalidLengthField::PrependerHeader { given: 3, offset: 2 });
}

#[test]
fn k01_the_prepender_writes_the_length_as_the_decoder_reads_it() {
    let hello = Bytes::from_static(b"HELLO, WORLD");
    let cases: [(LengthField, &[u8]); 5] = [
        (LengthField::new(2), b"\0\x0c"),
        (LengthField::new(2).adjustment(-2), b"\0\x0e"),
        (LengthField::new(3).little_endian(), b"\x0c\0\0"),
        (LengthField::new(2).adjustment(2), b"\0\x0a"),
        (LengthField::new(8).offset(1).adjustment(-9), b"\0\0\0\0\0\0\0\0\x15"),
    ];
    for (shape, header) in cases {
        let mut channel = writer(shape.prepender().unwrap());
        write(&mut channel, hello.clone()).unwrap();
        assert_eq!(parts(&mut channel), [[header, &hello].concat()], "{shape:?}");
    }
}

#[test]
fn k01_a_length_that_does_not_fit_the_field_is_refused() {
    let mut channel = writer(LengthField::new(1).prepender().unwrap());
    assert_eq!(
        write(&mut channel, Bytes::from(vec![0; 256])).unwrap_err(),
        "length field: 256 bytes less an adjustment of 0 are no value of 1 bytes"
    );
    let mut channel = writer(LengthField::new(1).adjustment(2).max_frame(5).prepender().unwrap());
    assert_eq!(
        write(&mut channel, Bytes::from_static(b"a")).unwrap_err(),
        "length field: 1 bytes less an adjustment of 2 are no value of 1 bytes"
    );
    assert_eq!(
        write(&mut channel, Bytes::from_static(b"abcde")).unwrap_err(),
        "length field: a frame has 6 bytes; at most 5 are allowed"
    );
    assert!(parts(&mut channel).is_empty(), "nothing of a refused message is written");
    write(&mut channel, Bytes::from_static(b"ab")).unwrap();
    assert_eq!(parts(&mut channel), ["\0ab"]);
}

#[test]
fn k05_a_long_payload_is_written_without_a_copy() {
    let mut channel = writer(LengthField::new(4).prepender().unwrap());
    let payload = Bytes::from(vec![b'x'; 10_000]);
    write(&mut channel, payload.clone()).unwrap();
    let parts = parts(&mut channel);
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0], 10_000u32.to_be_bytes()[..]);
    assert_eq!(parts[1].as_ptr(), payload.as_ptr());
}

#[test]
fn k05_a_frame_in_two_parts_is_written_as_a_whole_or_not_at_all() {
    let marks = WaterMarks::new(100, 1000).unwrap().with_hard_cap(1500).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .stream()
        .options(options)
        .build(|edit| Ok(edit.add_last("f", LengthField::new(2).prepender().unwrap()).map(drop)?))
        .unwrap();
    // The header would fit below the cap, the payload would not.
    let refused = write(&mut channel, Bytes::from(vec![b'x'; 1499])).unwrap_err();
    assert_eq!(refused, "write of 1501 bytes refused: 0 bytes are pending, the hard cap is 1500");
    // A frame whose header is written cannot be cancelled: its payload follows.
    let sent = channel.on_loop(|channel| {
        let long = channel.write(Bytes::from(vec![b'y'; 1000]));
        assert!(!long.cancel(), "the header is in the queue already");
        let short = channel.write(Bytes::from_static(b"short"));
        assert!(short.cancel(), "a frame of one part can be cancelled");
        channel.flush();
        long
    });
    channel.run();
    sent.join().unwrap();
    assert_eq!(parts(&mut channel).concat(), [&[3, 232][..], &[b'y'; 1000]].concat());
}

/// Returns the frames and errors of a complete stream, by plain arithmetic: a model of the decoder.
fn model(shape: Shape, stream: &[u8]) -> Vec<Outcome<Bytes>> {
    let mut outcomes = Vec::new();
    let mut rest = stream;
    loop {
        if rest.is_empty() {
            return outcomes;
        }
        let cut_off = LengthFieldError::CutOff { unread: rest.len() };
        let header = shape.offset + shape.width;
        if rest.len() < header {
            outcomes.push(Err(cut_off.to_string()));
            return outcomes;
        }
        let mut value = 0u128;
        for at in 0..shape.width {
            let place = if shape.little { shape.width - 1 - at } else { at };
            value = value * 256 + u128::from(rest[shape.offset + place]);
        }
        let behind = value as i128 + i128::from(shape.adjustment);
        let value = value as u64;
        let adjustment = shape.adjustment;
        if behind < 0 {
            outcomes.push(Err(LengthFieldError::Negative { value, adjustment }.to_string()));
            return outcomes;
        }
        let length = behind + header as i128;
        if length > i128::from(u64::MAX) {
            outcomes.push(Err(LengthFieldError::Overflow { value, adjustment }.to_string()));
            return outcomes;
        }
        if length > shape.limit as i128 {
            let error = LengthFieldError::TooLong { length: length as u64, limit: shape.limit };
            outcomes.push(Err(error.to_string()));
            if length > rest.len() as i128 {
                return outcomes;
            }
        } else if length > rest.len() as i128 {
            outcomes.push(Err(cut_off.to_string()));
            return outcomes;
        } else {
            let frame = &rest[..length as usize];
            outcomes.push(match frame.get(shape.strip..) {
                Some(given) => Ok(Bytes::copy_from_slice(given)),
                None => Err(LengthFieldError::ShorterThanStrip {
                    length: frame.len(),
                    strip: shape.strip,
                }
                .to_string()),
            });
        }
        rest = &rest[length as usize..];
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    width: usize,
    offset: usize,
    adjustment: i64,
    strip: usize,
    limit: usize,
    little: bool,
    late: bool,
}

impl Shape {
    fn build(self) -> LengthField {
        let mut shape = LengthField::new(self.width)
            .offset(self.offset)
            .adjustment(self.adjustment)
            .strip(self.strip)
            .max_frame(self.limit);
        if self.little {
            shape = shape.little_endian();
        }
        if self.late {
            shape = shape.fail_late();
        }
        shape
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        select(vec![1usize, 2, 3, 4, 8]),
        0..4usize,
        -12..6i64,
        0..8usize,
        12..40usize,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(width, offset, adjustment, strip, limit, little, late)| Shape {
            width,
            offset,
            adjustment,
            strip,
            limit,
            little,
            late,
        })
        .prop_filter("valid options", |shape| shape.build().decoder().is_ok())
}

/// Generates streams in which small lengths are likely.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![8 => Just(0u8), 6 => 0..20u8, 1 => any::<u8>()], 0..120)
}

proptest! {
    #[test]
    fn k01_frames_match_a_model_however_the_stream_is_split(
        shape in shapes(), stream in streams(), cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let decoder = shape.build().decoder().unwrap();
        let decoded = decode(decoder, pieces(&stream, &cuts, own_buffers));
        prop_assert_eq!(decoded, model(shape, &stream));
    }

    #[test]
    fn k05_the_decoder_reads_frames_written_by_the_prepender(
        width in select(vec![1usize, 2, 3, 4, 8]),
        offset in 0..4usize,
        adjustment in -20..20i64,
        little in any::<bool>(),
        lengths in vec(any::<Index>(), 1..8),
        cuts in cuts(),
    ) {
        let mut shape = LengthField::new(width).offset(offset).adjustment(adjustment).max_frame(2000);
        if little {
            shape = shape.little_endian();
        }
        let mut writer = writer(shape.prepender().unwrap().header(vec![7; offset]).unwrap());
        let mut accepted = Vec::new();
        for length in lengths {
            let payload = Bytes::from(vec![length.index(256) as u8; length.index(1200)]);
            let value = payload.len() as i64 - adjustment;
            let fits = value >= 0 && (width > 1 || value < 256);
            prop_assert_eq!(write(&mut writer, payload.clone()).is_ok(), fits);
            if fits {
                accepted.push(Ok(payload));
            }
        }
        let sent = parts(&mut writer).concat();
        prop_assert_eq!(decode(shape.decoder().unwrap(), pieces(&sent, &cuts, false)), accepted);
    }
}

#[test]
fn k05_no_byte_of_a_too_long_frame_is_kept() {
    let mut decoder = LengthField::new(4).max_frame(16).fail_late().decoder().unwrap();
    let mut buf = Bytes::from_static(b"\0\x01\0\0");
    assert_eq!(decoder.next_frame(&mut buf), Ok(None));
    for _ in 0..0x1_0000 / 16 {
        assert!(buf.is_empty());
        buf = Bytes::from_static(b"0123456789abcdef");
        let _ = decoder.next_frame(&mut buf);
    }
    let mut dst = BytesMut::new();
    let prepender = LengthField::new(4).prepender().unwrap();
    prepender.put_header(3, &mut dst).unwrap();
    dst.extend_from_slice(b"abc");
    assert_eq!(decoder.next_frame(&mut dst.freeze()).unwrap().unwrap(), "abc");
}
