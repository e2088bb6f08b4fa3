//! Decodes random frames split at random: the result matches a simple model, and the messages that were encoded.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_codec::{
    Delimiters, FixedLength, FrameError, JsonDecoder, VarintDecoder, VarintPrepender,
};

mod support;

use support::{Outcome, cuts, decode, parts, pieces, write, writer};

const CODEC: &str = "delimiter";

fn delimiters() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(select(b"ab;".to_vec()), 1..4), 1..4)
        .prop_filter("can be found", |all| Delimiters::new(all).decoder().is_ok())
}

/// Models the delimiter decoder: looks for every delimiter at every position of the stream.
fn delimited(
    all: &[Vec<u8>],
    limit: usize,
    flags: [bool; 3],
    stream: &[u8],
) -> Vec<Outcome<Bytes>> {
    let [keep, fast, give] = flags;
    let too_long = |length: usize| {
        let length = (!fast).then_some(length as u64);
        Err(FrameError::TooLong { codec: CODEC, length, limit }.to_string())
    };
    let mut outcomes = Vec::new();
    let mut begin = 0;
    for end in 1..=stream.len() {
        let ends = all.iter().filter(|one| stream[begin..end].ends_with(one)).map(Vec::len).max();
        let Some(length) = ends else { continue };
        let frame = &stream[begin..end - length];
        outcomes.push(if frame.len() > limit {
            too_long(frame.len())
        } else {
            Ok(Bytes::copy_from_slice(if keep { &stream[begin..end] } else { frame }))
        });
        begin = end;
    }
    let rest = &stream[begin..];
    if rest.len() > limit {
        outcomes.push(too_long(rest.len()));
    } else if !rest.is_empty() && give {
        outcomes.push(Ok(Bytes::copy_from_slice(rest)));
    } else if !rest.is_empty() {
        outcomes.push(Err(FrameError::CutOff { codec: CODEC, unread: rest.len() }.to_string()));
    }
    outcomes
}

/// Models the JSON decoder: reads characters one by one, with a stack of open brackets.
fn json(stream: &str, limit: usize, depth: usize) -> Vec<Option<Bytes>> {
    let mut outcomes = Vec::new();
    let mut chars = stream.char_indices().peekable();
    loop {
        while chars.next_if(|(_, c)| " \t\r\n".contains(*c)).is_some() {}
        let Some(&(begin, _)) = chars.peek() else { return outcomes };
        let mut open = String::new();
        let mut end = None;
        while let Some((at, c)) = chars.next() {
            let wrong = at - begin >= limit
                || match c {
                    '{' | '[' => {
                        open.push(c);
                        open.len() > depth
                    }
                    '}' => open.pop() != Some('{'),
                    ']' => open.pop() != Some('['),
                    _ if open.is_empty() => true,
                    '"' => {
                        // Skips to the end of the string.
                        while let Some((_, c)) = chars.next() {
                            if c == '\\' {
                                chars.next();
                            } else if c == '"' {
                                break;
                            }
                        }
                        false
                    }
                    _ => false,
                };
            if wrong {
                outcomes.push(None);
                return outcomes;
            }
            if open.is_empty() {
                end = Some(at + 1);
                break;
            }
        }
        match end {
            Some(end) if end - begin <= limit => {
                outcomes.push(Some(Bytes::copy_from_slice(&stream.as_bytes()[begin..end])));
            }
            _ => {
                outcomes.push(None);
                return outcomes;
            }
        }
    }
}

fn json_streams() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "{",
        "}",
        "[",
        "]",
        "{}",
        "[]",
        "\"a\"",
        "\"",
        "\\",
        "\\\"",
        ",",
        ":",
        "1",
        " ",
        "\n",
        "é",
        "[1]",
        "{\"a\":\"}\"}",
    ]);
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn json_values() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        "[a-z{}\\[\\]]{0,6}".prop_map(|text| format!("\"{text}\\\"\\\\\"")),
    ];
    let nested = leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(", "))),
            vec(inner, 0..4).prop_map(|all| {
                let members: Vec<_> = all.iter().map(|value| format!("\"k\": {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    nested
        .prop_map(|value| if value.starts_with(['{', '[']) { value } else { format!("[{value}]") })
}

proptest! {
    #[test]
    fn k02_delimited_frames_match_a_model_however_the_stream_is_split(
        all in delimiters(),
        limit in 0..8usize,
        flags in any::<[bool; 3]>(),
        stream in vec(select(b"aabb;;x".to_vec()), 0..60),
        cuts in cuts(),
        own_buffers in any::<bool>(),
    ) {
        let mut shape = Delimiters::new(&all).max_frame(limit);
        if flags[0] { shape = shape.keep(); }
        if flags[1] { shape = shape.fail_fast(); }
        if flags[2] { shape = shape.give_unfinished(); }
        let decoded = decode(shape.decoder().unwrap(), pieces(&stream, &cuts, own_buffers));
        prop_assert_eq!(decoded, delimited(&all, limit, flags, &stream));
    }

    #[test]
    fn k05_messages_written_with_a_delimiter_decode_to_themselves(
        all in delimiters(),
        messages in vec(vec(select(b"aabb;;x".to_vec()), 0..10), 0..10),
        cuts in cuts(),
    ) {
        let shape = Delimiters::new(&all);
        let mut channel = writer(shape.encoder().unwrap());
        let mut accepted = Vec::new();
        for message in messages {
            let message = Bytes::from(message);
            // The encoder must accept the messages that decode to themselves, and no others.
            let alone = [&message[..], &all[0]].concat();
            let flags = [false; 3];
            let one = delimited(&all, 100, flags, &alone) == [Ok(message.clone())];
            prop_assert_eq!(write(&mut channel, message.clone()).is_ok(), one, "{:?}", message);
            if one {
                accepted.push(Ok(message));
            }
        }
        let sent = parts(&mut channel).concat();
        prop_assert_eq!(decode(shape.decoder().unwrap(), pieces(&sent, &cuts, false)), accepted);
    }

    #[test]
    fn k02_fixed_length_frames_do_not_depend_on_how_the_stream_is_split(
        length in 1..9usize, stream in vec(any::<u8>(), 0..60), cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let codec = FixedLength::new(length).unwrap();
        let expected: Vec<_> = stream.chunks(length).map(|chunk| match chunk.len() {
            whole if whole == length => Ok(Bytes::copy_from_slice(chunk)),
            unread => Err(FrameError::CutOff { codec: "fixed length", unread }.to_string()),
        }).collect();
        prop_assert_eq!(decode(codec, pieces(&stream, &cuts, own_buffers)), expected);
        let mut channel = writer(codec);
        for chunk in stream.chunks_exact(length) {
            write(&mut channel, Bytes::copy_from_slice(chunk)).unwrap();
        }
        prop_assert_eq!(parts(&mut channel).concat(), &stream[..stream.len() / length * length]);
    }

    #[test]
    fn k02_varint_frames_match_a_model_however_the_stream_is_split(
        stream in vec(prop_oneof![4 => 0..6u8, 1 => Just(0x80u8), 1 => any::<u8>()], 0..60),
        limit in 0..12usize,
        cuts in cuts(),
        own_buffers in any::<bool>(),
    ) {
        let mut expected: Vec<Outcome<Bytes>> = Vec::new();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let cut_off = FrameError::CutOff { codec: "varint", unread: rest.len() };
            let head = rest.iter().position(|byte| *byte < 128).map_or(rest.len() + 1, |at| at + 1);
            let value = rest.iter().take(head).enumerate()
                .fold(0u128, |sum, (at, byte)| sum + (u128::from(byte % 128) << (7 * at.min(9))));
            // The fifth byte shows whether the value exceeds 32 bits.
            if rest.len() >= 5 && (head > 5 || value > u128::from(u32::MAX)) {
                expected.push(Err(FrameError::LongVarint.to_string()));
                break;
            }
            if head > rest.len() {
                expected.push(Err(cut_off.to_string()));
                break;
            }
            let length = value as usize;
            if length > limit {
                let length = Some(length as u64);
                expected.push(Err(FrameError::TooLong { codec: "varint", length, limit }.to_string()));
            } else if rest.len() < head + length {
                expected.push(Err(cut_off.to_string()));
                break;
            } else {
                expected.push(Ok(Bytes::copy_from_slice(&rest[head..head + length])));
            }
            rest = rest.get(head + length..).unwrap_or(&[]);
        }
        prop_assert_eq!(decode(VarintDecoder::new(limit), pieces(&stream, &cuts, own_buffers)), expected);
    }

    #[test]
    fn k05_messages_written_with_a_varint_decode_to_themselves(
        lengths in vec(any::<Index>(), 1..8), cuts in cuts(),
    ) {
        let mut channel = writer(VarintPrepender);
        let mut written = Vec::new();
        for length in lengths {
            let message = Bytes::from(vec![length.index(256) as u8; length.index(20_000)]);
            write(&mut channel, message.clone()).unwrap();
            written.push(Ok(message));
        }
        let sent = parts(&mut channel).concat();
        prop_assert_eq!(decode(VarintDecoder::new(20_000), pieces(&sent, &cuts, false)), written);
    }

    #[test]
    fn k02_json_frames_match_a_model_however_the_stream_is_split(
        stream in json_streams(), depth in 1..5usize, cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let decoder = JsonDecoder::new().max_depth(depth);
        let found: Vec<_> = decode(decoder, pieces(stream.as_bytes(), &cuts, own_buffers))
            .into_iter().map(Result::ok).collect();
        prop_assert_eq!(found, json(&stream, usize::MAX, depth), "{}", stream);
    }

    #[test]
    fn k05_json_values_are_read_as_they_were_written(
        values in vec(json_values(), 0..6), between in select(vec!["", "\n", " \r\n\t"]), cuts in cuts(),
    ) {
        let stream = values.join(between);
        let expected: Vec<Outcome<Bytes>> = values.into_iter().map(|value| Ok(value.into())).collect();
        prop_assert_eq!(decode(JsonDecoder::new(), pieces(stream.as_bytes(), &cuts, false)), expected);
    }
}
