//! Decodes random NATS split at random: the result matches a model that reads line by line, and what was encoded.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use waterwheel_codec::{
    NatsDecoder, NatsEncoder, NatsHeaders, NatsLimits, NatsMessage, NatsOperation,
};

mod support;

use support::{cuts, decode, parts, pieces, write, writer};

/// Returns limits that random streams reach now and then.
fn limits() -> NatsLimits {
    NatsLimits { control_line: 24, options: 30, payload: 40, headers: 30 }
}

/// A model of the decoder: takes operations off the front of a complete stream; `None` is an error.
fn read(mut stream: &[u8], is_client: bool) -> Vec<Option<NatsOperation>> {
    let mut operations = Vec::new();
    while !stream.is_empty() {
        let operation = read_one(&mut stream, is_client);
        let is_wrong = operation.is_none();
        operations.push(operation);
        if is_wrong {
            break;
        }
    }
    operations
}

fn read_one(stream: &mut &[u8], is_client: bool) -> Option<NatsOperation> {
    let end = stream.iter().position(|byte| b"\r\n".contains(byte))?;
    let long = if is_client { b"Ii" } else { b"Cc" };
    let limit = if long.contains(&stream[0]) { limits().options } else { limits().control_line };
    if end > limit || !stream[end..].starts_with(b"\r\n") {
        return None;
    }
    let (line, rest) = (&stream[..end], &stream[end + 2..]);
    *stream = rest;
    let is_blank = |byte: &u8| b" \t".contains(byte);
    let words: Vec<&[u8]> = line.split(is_blank).filter(|word| !word.is_empty()).collect();
    // A line that begins with a blank has an empty verb.
    let (verb, words) = words.split_first().filter(|_| !is_blank(&line[0]))?;
    let rest_of_line = Bytes::copy_from_slice(line[verb.len()..].trim_ascii());
    let verb = String::from_utf8(verb.to_ascii_uppercase()).ok()?;
    let of = |word: &&[u8]| Bytes::copy_from_slice(word);
    Some(match (is_client, verb.as_str(), words) {
        (_, "PING", []) => NatsOperation::Ping,
        (_, "PONG", []) => NatsOperation::Pong,
        (true, "+OK", []) => NatsOperation::Ok,
        (true, "INFO", [_, ..]) => NatsOperation::Info(rest_of_line),
        (false, "CONNECT", [_, ..]) => NatsOperation::Connect(rest_of_line),
        (true, "-ERR", _) => {
            let inner = rest_of_line.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'"));
            NatsOperation::Error(inner.map_or(rest_of_line.clone(), Bytes::copy_from_slice))
        }
        (false, "SUB", [subject, id]) => {
            NatsOperation::Subscribe { subject: of(subject), queue: None, subscription: of(id) }
        }
        (false, "SUB", [subject, queue, id]) => NatsOperation::Subscribe {
            subject: of(subject),
            queue: Some(of(queue)),
            subscription: of(id),
        },
        (false, "UNSUB", [id]) => {
            NatsOperation::Unsubscribe { subscription: of(id), max_messages: None }
        }
        (false, "UNSUB", [id, max]) => {
            NatsOperation::Unsubscribe { subscription: of(id), max_messages: Some(number(max)?) }
        }
        (true, "MSG", [subject, id, reply @ .., size]) if reply.len() < 2 => {
            let message = body(stream, subject, reply, None, size)?;
            NatsOperation::Deliver { subscription: of(id), message }
        }
        (true, "HMSG", [subject, id, reply @ .., headers, size]) if reply.len() < 2 => {
            let message = body(stream, subject, reply, Some(headers), size)?;
            NatsOperation::Deliver { subscription: of(id), message }
        }
        (false, "PUB", [subject, reply @ .., size]) if reply.len() < 2 => {
            NatsOperation::Publish(body(stream, subject, reply, None, size)?)
        }
        (false, "HPUB", [subject, reply @ .., headers, size]) if reply.len() < 2 => {
            NatsOperation::Publish(body(stream, subject, reply, Some(headers), size)?)
        }
        _ => return None,
    })
}

fn number(word: &[u8]) -> Option<u64> {
    let digits = word.iter().all(u8::is_ascii_digit);
    if digits { str::from_utf8(word).ok()?.parse().ok() } else { None }
}

fn body(
    stream: &mut &[u8],
    subject: &[u8],
    reply: &[&[u8]],
    headers: Option<&[u8]>,
    size: &[u8],
) -> Option<NatsMessage> {
    let size = number(size)? as usize;
    let header_size = match headers {
        Some(headers) => number(headers)? as usize,
        None => 0,
    };
    let is_within = header_size <= limits().headers && size <= limits().payload;
    if !is_within || header_size > size || stream.len() < size + 2 {
        return None;
    }
    let (body, rest) = stream.split_at(size);
    *stream = rest.strip_prefix(b"\r\n")?;
    let block = Bytes::copy_from_slice(&body[..header_size]);
    let headers = match headers {
        Some(_) => Some(NatsHeaders::from_wire(block).ok()?),
        None => None,
    };
    Some(NatsMessage {
        subject: Bytes::copy_from_slice(subject),
        reply: reply.first().map(|reply| Bytes::copy_from_slice(reply)),
        headers,
        payload: Bytes::copy_from_slice(&body[header_size..]),
    })
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "PING\r\n",
        "pong\r\n",
        "+OK\r\n",
        "-ERR 'a b'\r\n",
        "INFO {\"a\":1}\r\n",
        "INFO {\"a\":123456789012345}\r\n",
        "CONNECT {}\r\n",
        "MSG a 1 2\r\nhi\r\n",
        "MSG a 1 r 0\r\n\r\n",
        "MSG a 1 99\r\n",
        "HMSG a 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        "HMSG a 1 r 15 15\r\nNATS/1.0 1\r\n\r\n ",
        "PUB a 2\r\n\r\n\r\n",
        "PUB a r 1\r\nx\r\n",
        "HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        "HPUB a 13 12\r\n",
        "SUB a 1\r\n",
        "SUB a.> q 2\r\n",
        "UNSUB 1\r\n",
        "UNSUB 1 5\r\n",
        "PUB 123456789012345678901234567890\r\n",
        " ",
        "\t",
        "\r",
        "\n",
        "MSG ",
        "1",
        "x",
        "'",
    ]);
    let piece = prop_oneof![
        30 => piece.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..3),
    ];
    vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

fn word() -> impl Strategy<Value = Bytes> {
    "[a-z.*>_$ä]{1,12}".prop_map(Bytes::from)
}

fn messages() -> impl Strategy<Value = NatsMessage> {
    let payload = prop_oneof![
        9 => vec(select(b"a\r\n \xff\0".to_vec()), 0..12).prop_map(Bytes::from),
        1 => (500..1200usize).prop_map(|length| Bytes::from(vec![b'l'; length])),
    ];
    let value = prop_oneof![9 => "[a-z]{0,5}", 1 => "[a-z]{600}"];
    let headers = vec(("[A-Z][a-z-]{0,8}", value), 0..3)
        .prop_map(|fields| NatsHeaders::new(&fields).unwrap());
    (word(), option::of(word()), option::of(headers), payload).prop_map(
        |(subject, reply, headers, payload)| NatsMessage { subject, reply, headers, payload },
    )
}

fn of_server() -> impl Strategy<Value = NatsOperation> {
    prop_oneof![
        "\\{[a-z \":]{0,40}\\}".prop_map(|options| NatsOperation::Info(options.into())),
        (word(), messages())
            .prop_map(|(subscription, message)| NatsOperation::Deliver { subscription, message }),
        "[a-z ']{0,20}".prop_map(|text| NatsOperation::Error(text.into())),
        select(vec![NatsOperation::Ping, NatsOperation::Pong, NatsOperation::Ok]),
    ]
}

fn of_client() -> impl Strategy<Value = NatsOperation> {
    prop_oneof![
        "\\{[a-z \":]{0,40}\\}".prop_map(|options| NatsOperation::Connect(options.into())),
        messages().prop_map(NatsOperation::Publish),
        (word(), option::of(word()), word()).prop_map(|(subject, queue, subscription)| {
            NatsOperation::Subscribe { subject, queue, subscription }
        }),
        (word(), option::of(any::<u64>())).prop_map(|(subscription, max_messages)| {
            NatsOperation::Unsubscribe { subscription, max_messages }
        }),
        select(vec![NatsOperation::Ping, NatsOperation::Pong]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn k05_nats_matches_a_model_however_the_stream_is_split(
        stream in streams(), cuts in cuts(), own_buffers in any::<bool>(), is_client in any::<bool>(),
    ) {
        let make = if is_client { NatsDecoder::client } else { NatsDecoder::server };
        let found: Vec<_> = decode(make(limits()), pieces(&stream, &cuts, own_buffers))
            .into_iter().map(Result::ok).collect();
        prop_assert_eq!(found, read(&stream, is_client), "{:?}", stream.escape_ascii().to_string());
    }
}

proptest! {
    #[test]
    fn k05_nats_operations_are_read_as_they_were_written(
        server in vec(of_server(), 0..5), client in vec(of_client(), 0..5),
        cuts in cuts(), own_buffers in any::<bool>(),
    ) {
        for (operations, make) in [
            (server, NatsDecoder::client as fn(NatsLimits) -> NatsDecoder),
            (client, NatsDecoder::server),
        ] {
            let mut channel = writer(NatsEncoder);
            let mut plain = BytesMut::new();
            for operation in &operations {
                write(&mut channel, operation.clone()).unwrap();
                operation.encode(&mut plain).unwrap();
            }
            let sent = parts(&mut channel).concat();
            prop_assert_eq!(&sent, &plain, "the encoder's parts differ from the encoding in one piece");
            let read = decode(make(NatsLimits::default()), pieces(&sent, &cuts, own_buffers));
            prop_assert_eq!(read, operations.into_iter().map(Ok).collect::<Vec<_>>());
        }
    }
}
