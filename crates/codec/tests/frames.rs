//! Decodes frames by delimiter, fixed length, varint and JSON brackets, split at every position, and encodes them.

use bytes::Bytes;
use waterwheel_channel::{Decode, Inbound, Stage};
use waterwheel_codec::{
    DelimiterDecoder, Delimiters, FixedLength, FrameError, InvalidFrames, JsonDecoder, LossyUtf8,
    NotUtf8, TextEncoder, Utf8, VarintDecoder, VarintPrepender,
};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;
use waterwheel_testkit::embedded::Embedded;

mod support;

use support::{growing_prefixes, parts, write, writer};

fn delimited(shape: Delimiters) -> DecoderVerifier<DelimiterDecoder> {
    let decoder = shape.decoder().unwrap();
    DecoderVerifier::new(move || decoder.clone())
}

fn frames<const N: usize>(frames: [&'static str; N]) -> [Bytes; N] {
    frames.map(Bytes::from)
}

fn too_long(codec: &'static str, length: u64, limit: usize) -> FrameError {
    FrameError::TooLong { codec, length: Some(length), limit }
}

#[test]
fn k02_frames_end_with_any_of_several_delimiters() {
    delimited(Delimiters::new(["\r\n", "\n", "\0"]))
        .gives("a\r\nb\nc\0", frames(["a", "b", "c"]))
        .gives("\r\r\n\n\0", frames(["\r", "", ""]))
        .verify();
    delimited(Delimiters::new(["|", ";", ",", ".", "end"]))
        .gives("a|b;c,d.eend", frames(["a", "b", "c", "d", "e"]))
        .verify();
    delimited(Delimiters::new(["abab"])).gives("xabaabab", frames(["xaba"])).verify();
    delimited(Delimiters::new(["aaa"])).gives("aaaaaa", frames(["", ""])).verify();
}

#[test]
fn k02_delimiters_are_kept_with_keep() {
    delimited(Delimiters::new(["\r\n", "\n"]).keep())
        .gives("a\r\nb\n\n", frames(["a\r\n", "b\n", "\n"]))
        .verify();
}

#[test]
fn k02_a_frame_beyond_the_limit_is_one_error_and_the_next_is_decoded() {
    delimited(Delimiters::new(["--"]).max_frame(4))
        .gives("1234--", frames(["1234"]))
        .fails("12345--", too_long("delimiter", 5, 4))
        .gives("12345678-x", [])
        .fails("--", too_long("delimiter", 10, 4))
        .gives("1234-", [])
        .gives("-", frames(["1234"]))
        .gives("1234567890", [])
        .fails_at_end(too_long("delimiter", 10, 4))
        .verify();
    delimited(Delimiters::new(["--"]).max_frame(4).fail_fast())
        .gives("1234-", [])
        .fails("5", "delimiter: a frame has more than 4 bytes; at most 4 are allowed")
        .gives("more of it --1--", frames(["1"]))
        .verify();
}

#[test]
fn k02_an_unfinished_frame_at_the_end_is_an_error_or_delivered_with_give_unfinished() {
    let cut_off = FrameError::CutOff { codec: "delimiter", unread: 3 };
    delimited(Delimiters::new([";;"]))
        .gives("a;;bc;", frames(["a"]))
        .fails_at_end(cut_off)
        .verify();
    delimited(Delimiters::new([";;"]).give_unfinished())
        .gives("a;;bc;", frames(["a"]))
        .gives_at_end(frames(["bc;"]))
        .verify();
    delimited(Delimiters::new([";;"]).give_unfinished()).gives("a;;", frames(["a"])).verify();
}

#[test]
fn k02_delimiters_that_cannot_be_found_are_refused() {
    let none: [&str; 0] = [];
    assert_eq!(Delimiters::new(none).decoder().unwrap_err(), InvalidFrames::NoDelimiter);
    assert_eq!(Delimiters::new(["a", ""]).encoder().unwrap_err(), InvalidFrames::NoDelimiter);
    assert_eq!(
        Delimiters::new(["\n\n", "\n"]).decoder().unwrap_err().to_string(),
        "delimiter: '\\n\\n' is never found, because '\\n' ends inside of it"
    );
    assert!(Delimiters::new(["abc", "b"]).decoder().is_err());
    assert!(Delimiters::new(["\r\n", "\n", "\n"]).decoder().is_ok());
}

#[test]
fn k02_a_message_that_would_not_decode_as_one_frame_is_refused() {
    let mut channel = writer(Delimiters::new(["\n", "\r\n"]).max_frame(4).encoder().unwrap());
    for (message, error) in [
        ("a\nb", FrameError::EmbeddedDelimiter { at: 2, length: 3 }),
        ("ab\r", FrameError::EmbeddedDelimiter { at: 4, length: 3 }),
        ("12345", too_long("delimiter", 5, 4)),
    ] {
        assert_eq!(write(&mut channel, Bytes::from(message)).unwrap_err(), error.to_string());
    }
    write(&mut channel, Bytes::from("\ra")).unwrap();
    assert_eq!(parts(&mut channel), ["\ra\n"]);
    let mut channel = writer(Delimiters::new(["aab"]).encoder().unwrap());
    write(&mut channel, Bytes::from("aa")).unwrap();
    assert_eq!(parts(&mut channel), ["aaaab"]);
    let mut channel = writer(Delimiters::new(["aa"]).encoder().unwrap());
    let error = FrameError::EmbeddedDelimiter { at: 2, length: 1 };
    assert_eq!(write(&mut channel, Bytes::from("a")).unwrap_err(), error.to_string());
}

#[test]
fn k05_long_payloads_of_delimiters_and_varints_are_written_without_a_copy() {
    let payload = Bytes::from(vec![b'x'; 10_000]);
    let mut channel = writer(Delimiters::new(["\r\n"]).encoder().unwrap());
    write(&mut channel, payload.clone()).unwrap();
    let written = parts(&mut channel);
    assert_eq!((written[0].as_ptr(), &written[1][..]), (payload.as_ptr(), &b"\r\n"[..]));
    let mut channel = writer(VarintPrepender);
    write(&mut channel, payload.clone()).unwrap();
    let written = parts(&mut channel);
    assert_eq!((&written[0][..], written[1].as_ptr()), (&b"\x90\x4e"[..], payload.as_ptr()));
}

#[test]
fn k05_a_frame_without_a_delimiter_keeps_nothing_beyond_the_limit() {
    let mut decoder = Delimiters::new(["--"]).max_frame(8).decoder().unwrap();
    let mut kept = Vec::new();
    for _ in 0..1000 {
        let mut buf = Bytes::from([&kept[..], b"almost - - - "].concat());
        assert_eq!(decoder.next_frame(&mut buf), Ok(None));
        kept = buf.to_vec();
        assert!(kept.len() <= 1, "only the beginning of a delimiter is kept");
    }
    let mut buf = Bytes::from([&kept[..], b"--next--"].concat());
    assert_eq!(decoder.next_frame(&mut buf), Err(too_long("delimiter", 13_000, 8)));
    assert_eq!(decoder.next_frame(&mut buf).unwrap().unwrap(), "next");
}

#[test]
fn k05_no_byte_of_a_split_frame_is_scanned_twice() {
    let mut decoder = Delimiters::new(["\r\n", "\n"]).decoder().unwrap();
    for seen in growing_prefixes(&[b'x'; 4000]) {
        assert_eq!(decoder.next_frame(&mut seen.clone()), Ok(None));
    }
    let mut decoder = JsonDecoder::new();
    let json = Bytes::from(format!("[{}\"{}\"]", "{},".repeat(1000), "\\n".repeat(1000)));
    for seen in growing_prefixes(&json) {
        let seen: Vec<_> =
            seen.iter().map(|&byte| if byte == b'\n' { b'}' } else { byte }).collect();
        assert_eq!(decoder.next_frame(&mut seen.into()), Ok(None));
    }
    assert_eq!(decoder.next_frame(&mut json.clone()), Ok(Some(json)));
}

#[test]
fn k02_frames_of_a_fixed_length_are_decoded_and_encoded() {
    let frames_of_four = FixedLength::new(4).unwrap();
    DecoderVerifier::new(move || frames_of_four)
        .gives("abcdefgh", frames(["abcd", "efgh"]))
        .gives("\n\0\n\0", frames(["\n\0\n\0"]))
        .gives("i", [])
        .fails_at_end(FrameError::CutOff { codec: "fixed length", unread: 1 })
        .verify();
    assert_eq!(FixedLength::new(0).unwrap_err(), InvalidFrames::NoLength);
    let mut channel = writer(frames_of_four);
    write(&mut channel, Bytes::from("abcd")).unwrap();
    assert_eq!(
        write(&mut channel, Bytes::from("abc")).unwrap_err(),
        "fixed length: a message has 3 bytes instead of 4"
    );
    assert_eq!(parts(&mut channel), ["abcd"]);
}

#[test]
fn k02_frames_with_a_varint_length_are_decoded() {
    let verify = || DecoderVerifier::new(|| VarintDecoder::new(300));
    let long = Bytes::from(vec![b'x'; 300]);
    let stream = [b"\xac\x02", &long[..]].concat();
    verify()
        .gives(stream, [long])
        .gives(b"\x80\x80\x80\x80\0\x81\0!", frames(["", "!"]))
        .fails(b"\xad\x02", too_long("varint", 301, 300))
        .gives([b'x'; 301], [])
        .gives(b"\x01!", frames(["!"]))
        .gives(b"\x02!", [])
        .fails_at_end(FrameError::CutOff { codec: "varint", unread: 2 })
        .verify();
    verify().fails(b"\xff\xff\xff\xff\x0f", too_long("varint", u64::from(u32::MAX), 300)).verify();
    for stream in [b"\xff\xff\xff\xff\x10", b"\xff\xff\xff\xff\x80"] {
        verify().fails(stream, FrameError::LongVarint).gives("\x01!", []).verify();
    }
}

#[test]
fn k02_json_objects_and_arrays_are_found_by_their_brackets() {
    DecoderVerifier::new(JsonDecoder::new)
        .gives("{}", frames(["{}"]))
        .gives("[][]", frames(["[]", "[]"]))
        .gives(" \t\r\n{\"a\": [1, {\"b\": null}]}\n\n", frames(["{\"a\": [1, {\"b\": null}]}"]))
        .gives(r#"["}", "]", "\"]", "\\"]"#, frames([r#"["}", "]", "\"]", "\\"]"#]))
        .gives(r#"{"\\\"{[": 1}"#, frames([r#"{"\\\"{[": 1}"#]))
        .gives("[\"ü€\"]", frames(["[\"ü€\"]"]))
        .gives("[\"unfinished", [])
        .fails_at_end("JSON: the stream ended after 12 bytes of an incomplete frame")
        .verify();
}

#[test]
fn k02_invalid_or_too_large_json_stops_the_decoder() {
    let small = || JsonDecoder::new().max_frame(16).max_depth(3);
    for (stream, error) in [
        ("\"text\"", "JSON: '\\\"' at byte 0 of a frame instead of '{' or '['"),
        ("null", "JSON: 'n' at byte 0 of a frame instead of '{' or '['"),
        ("]", "JSON: ']' at byte 0 of a frame instead of '{' or '['"),
        ("[{]", "JSON: ']' at byte 2 of a frame instead of '}'"),
        ("{[}", "JSON: '}' at byte 2 of a frame instead of ']'"),
        ("[[[[", "JSON: a frame is nested more than 3 deep"),
        ("[1234567890123456", "JSON: a frame has more than 16 bytes; at most 16 are allowed"),
    ] {
        let verify = DecoderVerifier::new(small).gives("[]", frames(["[]"]));
        verify.fails(stream, error).gives(" []", []).verify();
    }
    DecoderVerifier::new(small).gives("[12345678901234]", frames(["[12345678901234]"])).verify();
}

#[test]
fn k02_text_is_decoded_strictly_or_lossily_and_encoded() {
    let build = |edit: &mut waterwheel_channel::Edit<'_>, lossy: bool| {
        let frames = FixedLength::new(3)?;
        edit.add_last("frames", frames)?;
        edit.add_last("text", TextEncoder)?;
        let decode = Decode::new(frames);
        if lossy {
            edit.add_last("in", Inbound(decode.then(LossyUtf8)))?;
        } else {
            edit.add_last("in", Inbound(decode.then(Utf8)))?;
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    for lossy in [true, false] {
        let mut channel = Embedded::builder()
            .stream()
            .build(|edit| build(edit, lossy).map_err(waterwheel_executor::Error::new))
            .unwrap();
        channel.write_inbound(Bytes::from_static(b"abca\xffb\xe2\x82\xac"));
        let texts: Vec<String> = std::iter::from_fn(|| channel.read_inbound()).collect();
        if lossy {
            assert_eq!(texts, ["abc", "a\u{fffd}b", "€"]);
        } else {
            assert_eq!(texts, ["abc", "€"]);
            let error = channel.read_error().unwrap().to_string();
            assert_eq!(error, NotUtf8 { at: 1, length: 3 }.to_string());
        }
        write(&mut channel, "abc").unwrap();
        write(&mut channel, String::from("€")).unwrap();
        write(&mut channel, Bytes::from_static(b"xyz")).unwrap();
        assert!(write(&mut channel, "€€").is_err(), "the frame encoder refuses six bytes");
        assert_eq!(parts(&mut channel), ["abc", "€", "xyz"]);
    }
}
