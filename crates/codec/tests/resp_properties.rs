//! Decodes random RESP split at random: the result matches a recursive model, and the values that were encoded.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use waterwheel_codec::{
    RespCommand, RespCommandDecoder, RespDecoder, RespEncoder, RespLimits, RespValue, RespVersion,
};

mod support;

use support::{cuts, decode, parts, pieces, write, writer};

/// Returns limits that random messages of this size cannot reach.
fn limits() -> RespLimits {
    RespLimits::default()
}

/// A model of the decoder: takes values off the front of a complete stream, line by line.
struct ModelReader<'a>(&'a [u8]);

/// The reason why the model found no value.
#[derive(Debug, PartialEq)]
enum NoValue {
    /// The stream ends before the value does.
    Incomplete,
    Invalid,
    /// The end marker of a value of unknown length.
    EndMarker,
}

impl ModelReader<'_> {
    fn line(&mut self, max: usize) -> Result<String, NoValue> {
        let mut line = Vec::new();
        loop {
            match self.0 {
                [b'\r', b'\n', rest @ ..] => {
                    self.0 = rest;
                    // Every byte becomes one character (Latin-1).
                    return Ok(line.into_iter().map(char::from).collect());
                }
                [b'\r', _, ..] | [b'\n', ..] => return Err(NoValue::Invalid),
                [byte, rest @ ..] if *byte != b'\r' => {
                    line.push(*byte);
                    self.0 = rest;
                }
                _ => return Err(NoValue::Incomplete),
            }
            if line.len() > max {
                return Err(NoValue::Invalid);
            }
        }
    }

    fn counted(&mut self, count: usize) -> Result<Bytes, NoValue> {
        if count > limits().bulk {
            return Err(NoValue::Invalid);
        }
        if self.0.len() < count + 2 {
            return Err(NoValue::Incomplete);
        }
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest.strip_prefix(b"\r\n").ok_or(NoValue::Invalid)?;
        Ok(Bytes::copy_from_slice(bytes))
    }

    fn value(&mut self, depth: usize) -> Result<RespValue, NoValue> {
        let Some((&kind, rest)) = self.0.split_first() else { return Err(NoValue::Incomplete) };
        if !b"+-:$*_#,(!=%~>|.;".contains(&kind) {
            return Err(NoValue::Invalid);
        }
        self.0 = rest;
        let text = b"+-,(".contains(&kind);
        let line = self.line(if text { limits().line } else { 24 })?;
        let bytes = || Bytes::from(line.chars().map(|c| c as u8).collect::<Vec<_>>());
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let count = || {
            if digits(&line) {
                line.parse::<usize>().map_err(|_| NoValue::Invalid)
            } else {
                Err(NoValue::Invalid)
            }
        };
        let unsigned = line.trim_start_matches(['+', '-']);
        let signed = digits(unsigned) && line.len() - unsigned.len() <= 1;
        Ok(match kind {
            b'+' => RespValue::Simple(bytes()),
            b'-' => RespValue::Error(bytes()),
            b':' if signed => RespValue::Integer(line.parse().map_err(|_| NoValue::Invalid)?),
            b'(' if signed => RespValue::BigNumber(bytes()),
            b'_' if line.is_empty() => RespValue::Null,
            b'#' if line == "t" || line == "f" => RespValue::Boolean(line == "t"),
            b',' => match line.as_str() {
                "inf" | "+inf" | "-inf" => RespValue::Double(line.parse().unwrap()),
                // Replaced by a text, because NaN does not equal itself.
                "nan" | "-nan" => RespValue::simple("nan"),
                _ if line.chars().any(|c| c.is_alphabetic() && !"eE".contains(c)) => {
                    return Err(NoValue::Invalid);
                }
                _ => RespValue::Double(line.parse().map_err(|_| NoValue::Invalid)?),
            },
            b'$' | b'*' if line == "-1" => RespValue::Null,
            b'$' if line == "?" => {
                let mut whole = Vec::new();
                loop {
                    match self.0.first() {
                        None => return Err(NoValue::Incomplete),
                        Some(b';') => self.0 = &self.0[1..],
                        // An incomplete value may turn out to be invalid.
                        Some(_) => {
                            return Err(self
                                .value(0)
                                .err()
                                .filter(|error| *error == NoValue::Incomplete)
                                .unwrap_or(NoValue::Invalid));
                        }
                    }
                    let line = self.line(24)?;
                    if !digits(&line) {
                        return Err(NoValue::Invalid);
                    }
                    match line.parse().map_err(|_| NoValue::Invalid)? {
                        0 => break RespValue::Bulk(whole.into()),
                        count => whole.extend(self.counted(count)?),
                    }
                }
            }
            b'$' => RespValue::Bulk(self.counted(count()?)?),
            b'!' => RespValue::BulkError(self.counted(count()?)?),
            b'=' => {
                let text = self.counted(count()?)?;
                if text.get(3) != Some(&b':') {
                    return Err(NoValue::Invalid);
                }
                let format = *text.first_chunk().unwrap();
                RespValue::Verbatim { format, text: text.slice(4..) }
            }
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                let streamed = line == "?" && b"*~%".contains(&kind);
                let count = if streamed { usize::MAX } else { count()? };
                let pairs = kind == b'%' || kind == b'|';
                if kind == b'>' && depth > 0 {
                    return Err(NoValue::Invalid);
                }
                if !streamed && count.saturating_mul(if pairs { 2 } else { 1 }) >= limits().elements
                {
                    return Err(NoValue::Invalid);
                }
                if count > 0 && depth >= limits().depth {
                    return Err(NoValue::Invalid);
                }
                let total = if pairs { count.saturating_mul(2) } else { count };
                let mut all = Vec::new();
                while all.len() < total {
                    match self.value(depth + 1) {
                        Err(NoValue::EndMarker) if streamed && !(pairs && all.len() % 2 == 1) => {
                            break;
                        }
                        Err(NoValue::EndMarker) => return Err(NoValue::Invalid),
                        value => all.push(value?),
                    }
                }
                let mut two = all.clone().into_iter();
                let mut two = std::iter::from_fn(|| Some((two.next()?, two.next()?)));
                match kind {
                    b'*' => RespValue::Array(all),
                    b'~' => RespValue::Set(all),
                    b'>' => RespValue::Push(all),
                    b'%' => RespValue::Map(two.collect()),
                    _ => {
                        let mut attributes: Vec<_> = two.by_ref().collect();
                        let value = match self.value(depth) {
                            Err(NoValue::EndMarker) => return Err(NoValue::Invalid),
                            value => value?,
                        };
                        match value {
                            RespValue::Attributed { attributes: more, value } => {
                                attributes.extend(more);
                                RespValue::Attributed { attributes, value }
                            }
                            value => RespValue::Attributed { attributes, value: Box::new(value) },
                        }
                    }
                }
            }
            b'.' if line.is_empty() => return Err(NoValue::EndMarker),
            _ => return Err(NoValue::Invalid),
        })
    }
}

/// Returns the values of a stream by the model, with `None` at the end for an error.
fn read(stream: &[u8]) -> Vec<Option<RespValue>> {
    let mut reader = ModelReader(stream);
    let mut values = Vec::new();
    while !reader.0.is_empty() {
        let value = reader.value(0);
        let wrong = value.is_err();
        values.push(value.ok());
        if wrong {
            break;
        }
    }
    values
}

/// Replaces NaN, which does not equal itself, by the text that the model returns.
fn without_nan(value: RespValue) -> RespValue {
    let all = |values: Vec<RespValue>| values.into_iter().map(without_nan).collect();
    let pairs = |pairs: Vec<(RespValue, RespValue)>| {
        pairs.into_iter().map(|(key, value)| (without_nan(key), without_nan(value))).collect()
    };
    match value {
        RespValue::Double(value) if value.is_nan() => RespValue::simple("nan"),
        RespValue::Array(values) => RespValue::Array(all(values)),
        RespValue::Set(values) => RespValue::Set(all(values)),
        RespValue::Push(values) => RespValue::Push(all(values)),
        RespValue::Map(values) => RespValue::Map(pairs(values)),
        RespValue::Attributed { attributes, value } => RespValue::Attributed {
            attributes: pairs(attributes),
            value: Box::new(without_nan(*value)),
        },
        other => other,
    }
}

fn text() -> impl Strategy<Value = Bytes> {
    vec(select(b"ab :$\xff\0".to_vec()), 0..8).prop_map(Bytes::from)
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        9 => vec(select(b"a\r\n+\xff".to_vec()), 0..12).prop_map(Bytes::from),
        1 => (500..1200usize).prop_map(|length| Bytes::from(vec![b'l'; length])),
    ]
}

fn values() -> impl Strategy<Value = RespValue> {
    let leaf = prop_oneof![
        text().prop_map(RespValue::Simple),
        text().prop_map(RespValue::Error),
        any::<i64>().prop_map(RespValue::Integer),
        bytes().prop_map(RespValue::Bulk),
        Just(RespValue::Null),
        any::<bool>().prop_map(RespValue::Boolean),
        any::<f64>()
            .prop_filter("equals itself", |value| !value.is_nan())
            .prop_map(RespValue::Double),
        "-?[0-9]{1,30}".prop_map(|digits| RespValue::BigNumber(digits.into())),
        bytes().prop_map(RespValue::BulkError),
        (any::<[u8; 3]>(), bytes()).prop_map(|(format, text)| RespValue::Verbatim { format, text }),
    ];
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        let pairs = || vec((inner.clone(), inner.clone()), 0..3);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(RespValue::Array),
            vec(inner.clone(), 0..4).prop_map(RespValue::Set),
            pairs().prop_map(RespValue::Map),
            (
                pairs(),
                inner.clone().prop_filter("attributes in a row are one list", |value| {
                    !matches!(value, RespValue::Attributed { .. })
                })
            )
                .prop_map(|(attributes, value)| RespValue::Attributed {
                    attributes,
                    value: Box::new(value),
                }),
        ]
    });
    prop_oneof![4 => nested.clone(), 1 => vec(nested, 0..4).prop_map(RespValue::Push)]
}

/// Generates streams of RESP fragments in any order.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "+a\r\n",
        ":1\r\n",
        ":-12\r\n",
        "$1\r\nb\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "$?\r\n",
        ";1\r\nc\r\n",
        ";0\r\n",
        "*2\r\n",
        "*1\r\n",
        "*0\r\n",
        "*?\r\n",
        "*-1\r\n",
        "%1\r\n",
        "%?\r\n",
        "~1\r\n",
        "~?\r\n",
        ">1\r\n",
        "|1\r\n",
        "|0\r\n",
        ".\r\n",
        "#t\r\n",
        "_\r\n",
        ",1.5\r\n",
        ",nan\r\n",
        ",-inf\r\n",
        "(12\r\n",
        "=5\r\ntxt:x\r\n",
        "!1\r\ne\r\n",
        "-E\r\n",
        "\r",
        "\n",
        "x",
        "$",
        "*",
        ":",
        "9",
    ]);
    let piece = prop_oneof![30 => piece.prop_map(|piece| piece.as_bytes().to_vec()), 1 => vec(any::<u8>(), 1..3)];
    vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn k03_values_match_a_model_however_the_stream_is_split(
        stream in streams(), cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let found: Vec<_> = decode(RespDecoder::default(), pieces(&stream, &cuts, own_buffers))
            .into_iter().map(|outcome| outcome.ok().map(without_nan)).collect();
        prop_assert_eq!(found, read(&stream), "{:?}", stream.escape_ascii().to_string());
    }
}

proptest! {
    #[test]
    fn k05_the_decoder_reads_values_written_by_the_encoder(
        values in vec(values(), 1..5), cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let mut channel = writer(RespEncoder::new(RespVersion::Resp3));
        let mut plain = BytesMut::new();
        for value in &values {
            write(&mut channel, value.clone()).unwrap();
            value.encode(RespVersion::Resp3, &mut plain).unwrap();
        }
        let sent = parts(&mut channel).concat();
        prop_assert_eq!(&sent, &plain, "the encoder's parts differ from the encoding in one piece");
        let read = decode(RespDecoder::default(), pieces(&sent, &cuts, own_buffers));
        prop_assert_eq!(read, values.into_iter().map(Ok).collect::<Vec<_>>());
    }

    #[test]
    fn k05_values_written_in_resp2_have_resp2_types_only(value in values()) {
        let mut wire = BytesMut::new();
        value.encode(RespVersion::Resp2, &mut wire).unwrap();
        let read = decode(RespDecoder::default(), [wire.freeze()]);
        let only = |value: &RespValue| matches!(
            value,
            RespValue::Simple(_) | RespValue::Error(_) | RespValue::Integer(_) | RespValue::Bulk(_)
                | RespValue::Array(_) | RespValue::Null
        );
        prop_assert!(matches!(&read[..], [Ok(value)] if only(value)), "{:?}", read);
    }

    #[test]
    fn k05_commands_are_read_as_they_were_written(
        commands in vec(vec(bytes(), 1..12), 1..5), cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        let commands: Vec<_> = commands.iter().map(|words| RespCommand::new(words)).collect();
        let mut channel = writer(RespEncoder::default());
        for command in &commands {
            write(&mut channel, command.clone()).unwrap();
        }
        let sent = parts(&mut channel).concat();
        let read = decode(RespCommandDecoder::default(), pieces(&sent, &cuts, own_buffers));
        prop_assert_eq!(read, commands.iter().cloned().map(Ok).collect::<Vec<_>>());
        // The value decoder reads a command as an array of bulk strings.
        let values = decode(RespDecoder::default(), pieces(&sent, &cuts, own_buffers));
        let arrays: Vec<_> = commands.iter().map(|command| {
            let words = (0..command.len()).map(|at| RespValue::Bulk(command.argument(at).unwrap()));
            Ok(RespValue::Array(words.collect()))
        }).collect();
        prop_assert_eq!(values, arrays);
    }

    #[test]
    fn k03_inline_commands_do_not_depend_on_how_the_stream_is_split(
        lines in vec(vec("[a-z]{1,5}", 0..4), 1..6), ends in any::<Index>(), cuts in cuts(),
    ) {
        let end = ["\n", "\r\n", " \r\n"][ends.index(3)];
        let stream: String = lines.iter().map(|words| words.join(" ") + end).collect();
        let read = decode(RespCommandDecoder::default(), pieces(stream.as_bytes(), &cuts, false));
        let expected: Vec<_> = lines.iter().filter(|words| !words.is_empty())
            .map(|words| Ok(RespCommand::new(words))).collect();
        prop_assert_eq!(read, expected);
    }
}
