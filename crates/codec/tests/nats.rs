//! Decodes NATS operations, split at every position, and encodes them.

use bytes::{Bytes, BytesMut};
use waterwheel_codec::{
    NatsDecoder, NatsEncoder, NatsError, NatsHeaders, NatsLimits, NatsMessage, NatsOperation,
};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;

mod support;

use support::{decode, growing_prefixes, parts, write, writer};

fn client(limits: NatsLimits) -> DecoderVerifier<NatsDecoder> {
    DecoderVerifier::new(move || NatsDecoder::client(limits))
}

fn server(limits: NatsLimits) -> DecoderVerifier<NatsDecoder> {
    DecoderVerifier::new(move || NatsDecoder::server(limits))
}

fn small() -> NatsLimits {
    NatsLimits { control_line: 30, options: 40, payload: 32, headers: 24 }
}

fn deliver(subscription: &'static str, message: NatsMessage) -> NatsOperation {
    NatsOperation::Deliver { subscription: subscription.into(), message }
}

#[test]
fn k05_nats_operations_of_a_server_are_decoded_however_they_are_cut() {
    let headers = NatsHeaders::new(&[("A", "b")]).unwrap();
    let with_headers = NatsMessage::new("a.b", "hi").with_headers(headers);
    let reply = with_headers.clone().with_reply("_INBOX.1");
    let status = NatsHeaders::from_wire("NATS/1.0 503\r\n\r\n".into()).unwrap();
    client(NatsLimits::default())
        .gives(
            "INFO {\"server_id\":\"a\"} \r\n",
            [NatsOperation::Info("{\"server_id\":\"a\"}".into())],
        )
        .gives(
            "ping\r\nPONG \r\n+OK\r\n",
            [NatsOperation::Ping, NatsOperation::Pong, NatsOperation::Ok],
        )
        .gives(
            "-ERR 'Unknown Subject'\r\n-ERR\tplain\r\n-ERR '\r\n",
            [
                NatsOperation::Error("Unknown Subject".into()),
                NatsOperation::Error("plain".into()),
                NatsOperation::Error("'".into()),
            ],
        )
        .gives("MSG a.b 7 5\r\n\r\n\r\n!\r\n", [deliver("7", NatsMessage::new("a.b", "\r\n\r\n!"))])
        .gives(
            "MSG  a \t x1  r  0 \r\n\r\n",
            [deliver("x1", NatsMessage::new("a", "").with_reply("r"))],
        )
        .gives("HMSG a.b 7 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n", [deliver("7", with_headers)])
        .gives("HMSG a.b 7 _INBOX.1 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n", [deliver("7", reply)])
        .gives(
            "HMSG a 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
            [deliver("1", NatsMessage::new("a", "").with_headers(status))],
        )
        .verify();
}

#[test]
fn k05_nats_operations_of_a_client_are_decoded_however_they_are_cut() {
    let headers = NatsHeaders::new(&[("A", "b")]).unwrap();
    let message = NatsMessage::new("a.b", "hi").with_headers(headers);
    server(NatsLimits::default())
        .gives(
            "CONNECT {\"verbose\":false}\r\n",
            [NatsOperation::Connect("{\"verbose\":false}".into())],
        )
        .gives(
            "PUB a 2\r\nhi\r\nPUB a r 0\r\n\r\n",
            [
                NatsOperation::Publish(NatsMessage::new("a", "hi")),
                NatsOperation::Publish(NatsMessage::new("a", "").with_reply("r")),
            ],
        )
        .gives(
            "HPUB a.b 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n",
            [NatsOperation::Publish(message.clone())],
        )
        .gives(
            "HPUB a.b r 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n",
            [NatsOperation::Publish(message.with_reply("r"))],
        )
        .gives(
            "SUB a.> 1\r\nsub a.* workers 2\r\n",
            [
                NatsOperation::Subscribe {
                    subject: "a.>".into(),
                    queue: None,
                    subscription: "1".into(),
                },
                NatsOperation::Subscribe {
                    subject: "a.*".into(),
                    queue: Some("workers".into()),
                    subscription: "2".into(),
                },
            ],
        )
        .gives(
            "UNSUB 1\r\nUNSUB 2 10\r\n",
            [
                NatsOperation::Unsubscribe { subscription: "1".into(), max_messages: None },
                NatsOperation::Unsubscribe { subscription: "2".into(), max_messages: Some(10) },
            ],
        )
        .gives("PING\r\nPONG\r\n", [NatsOperation::Ping, NatsOperation::Pong])
        .verify();
}

#[test]
fn k05_invalid_nats_is_an_error_that_quotes_it_and_ends_the_decoding() {
    let of_server = [
        ("PUB a 1\r\nx\r\n", "NATS: 'PUB' is not an operation of a server"),
        ("\r\n", "NATS: '' is not an operation of a server"),
        ("PING\n", "NATS: a line does not end with \\r\\n"),
        ("PING\rx", "NATS: a line does not end with \\r\\n"),
        ("PING x\r\n", "NATS: expected no arguments, found 'PING x'"),
        ("INFO \r\n", "NATS: expected options behind INFO or CONNECT, found 'INFO '"),
        ("MSG a 1 x\r\n", "NATS: expected a number, found 'x'"),
        ("MSG a 1 -1\r\n", "NATS: expected a number, found '-1'"),
        ("MSG a 1 1\r\nxyz", "NATS: a payload does not end with \\r\\n"),
        (
            "MSG a 1\r\n",
            "NATS: expected MSG subject id [reply] size, or HMSG with two sizes, found 'MSG a 1'",
        ),
        ("MSG a b c d e f\r\n", "NATS: expected at most 5 arguments, found 'MSG a b c d e f'"),
        (
            "HMSG a 1 3 2\r\n",
            "NATS: expected headers that are no longer than the whole, found 'HMSG a 1 3 2'",
        ),
        (
            "HMSG a 1 4 4\r\nabcd\r\n",
            "NATS: expected headers from NATS/1.0 to an empty line, found 'abcd'",
        ),
    ];
    for (wire, error) in of_server {
        client(NatsLimits::default())
            .gives("PING\r\n", [NatsOperation::Ping])
            .fails(wire, error)
            .gives("PING\r\n", [])
            .verify();
    }
    let of_client = [
        ("MSG a 1 1\r\nx\r\n", "NATS: 'MSG' is not an operation of a client"),
        ("SUB a\r\n", "NATS: expected SUB subject [queue] id, found 'SUB a'"),
        ("UNSUB\r\n", "NATS: expected UNSUB id [number], found 'UNSUB'"),
        (
            "PUB 1\r\n",
            "NATS: expected PUB subject [reply] size, or HPUB with two sizes, found 'PUB 1'",
        ),
    ];
    for (wire, error) in of_client {
        server(NatsLimits::default()).fails(wire, error).gives("PING\r\n", []).verify();
    }
}

#[test]
fn k05_every_limit_of_nats_is_an_error_that_names_it() {
    let cases = [
        ("MSG a 1 33\r\n", "NATS: a payload is longer than 32 bytes"),
        ("MSG a 1 18446744073709551615\r\n", "NATS: a payload is longer than 32 bytes"),
        ("HMSG a 1 25 26\r\n", "NATS: a block of headers is longer than 24 bytes"),
        ("MSG 123456789012345678901234567", "NATS: a line is longer than 30 bytes"),
        ("INFO {\"123456789012345678901234567890123456", "NATS: a line is longer than 40 bytes"),
    ];
    for (wire, error) in cases {
        client(small()).gives("PING\r\n", [NatsOperation::Ping]).fails(wire, error).verify();
    }
    let connect = "CONNECT {\"12345678901234567890123456789012";
    server(small()).fails(connect, "NATS: a line is longer than 40 bytes").verify();
    // Everything up to a limit is accepted.
    let whole = NatsMessage::new("a", "x".repeat(32));
    let wire = format!("MSG a 1 32\r\n{}\r\n", "x".repeat(32));
    client(small()).gives(wire, [deliver("1", whole)]).verify();
}

#[test]
fn k05_a_nats_operation_that_the_end_of_the_stream_cuts_off_is_an_error() {
    client(small())
        .gives("PING\r\nMSG a 1 4\r\nab", [NatsOperation::Ping])
        .fails_at_end("NATS: the stream ended after 13 bytes of an incomplete operation")
        .verify();
}

#[test]
fn k05_a_long_nats_payload_is_not_copied_in_either_direction() {
    let payload = Bytes::from("x".repeat(600));
    let mut channel = writer(NatsEncoder);
    let message = NatsMessage::new("a", payload.clone());
    write(&mut channel, NatsOperation::Publish(message)).unwrap();
    let sent = parts(&mut channel);
    assert_eq!(sent, [Bytes::from("PUB a 600\r\n"), payload.clone(), Bytes::from("\r\n")]);
    assert_eq!(sent[1].as_ptr(), payload.as_ptr());
    let wire = Bytes::from(sent.concat());
    let decoder = NatsDecoder::server(NatsLimits::default());
    let read = decode(decoder, [wire.clone()]).remove(0).unwrap();
    let NatsOperation::Publish(message) = read else { panic!("{read:?}") };
    let start = wire.as_ptr() as usize;
    assert_eq!(message.payload.as_ptr() as usize - start, "PUB a 600\r\n".len());
}

#[test]
fn k05_small_nats_operations_are_one_part() {
    let mut channel = writer(NatsEncoder);
    let headers = NatsHeaders::new(&[("Kind", "json")]).unwrap();
    let publish = NatsMessage::new("a", "{}").with_reply("r").with_headers(headers);
    write(&mut channel, NatsOperation::Publish(publish)).unwrap();
    let wire = "HPUB a r 24 26\r\nNATS/1.0\r\nKind: json\r\n\r\n{}\r\n";
    assert_eq!(parts(&mut channel), [wire]);
}

#[test]
fn k05_a_nats_operation_that_would_be_read_differently_is_not_written() {
    let subscribe = |subject: &'static str, queue: Option<&'static str>, id: &'static str| {
        NatsOperation::Subscribe {
            subject: subject.into(),
            queue: queue.map(Bytes::from),
            subscription: id.into(),
        }
    };
    let refused = [
        (NatsOperation::Publish(NatsMessage::new("", "x")), "a subject cannot be written: ''"),
        (
            NatsOperation::Publish(NatsMessage::new("a b", "x")),
            "a subject cannot be written: 'a b'",
        ),
        (
            NatsOperation::Publish(NatsMessage::new("a", "x").with_reply("b\r\nPING")),
            "the subject for an answer cannot be written: 'b\\r\\nPING'",
        ),
        (subscribe("a", Some(""), "1"), "a queue group cannot be written: ''"),
        (subscribe("a", None, "1\t2"), "the id of a subscription cannot be written: '1\\t2'"),
        (NatsOperation::Connect("{}\r\nPUB".into()), "options cannot be written: '{}\\r\\nPUB'"),
        (NatsOperation::Info(Bytes::new()), "options cannot be written: ''"),
        (NatsOperation::Error("a\nb".into()), "an error cannot be written: 'a\\nb'"),
    ];
    for (operation, error) in refused {
        let mut channel = writer(NatsEncoder);
        assert_eq!(write(&mut channel, operation.clone()), Err(format!("NATS: {error}")));
        assert!(parts(&mut channel).is_empty());
        let mut wire = BytesMut::new();
        assert!(operation.encode(&mut wire).is_err() && wire.is_empty());
    }
    for (name, value) in [("", "x"), ("a:", "x"), ("a b", "x"), ("a", "x\r\ny"), ("a", " x")] {
        let refused = NatsHeaders::new(&[(name, value)]);
        assert!(matches!(refused, Err(NatsError::Unwritable { .. })), "{name:?} {value:?}");
    }
}

#[test]
fn k05_headers_of_nats_are_read_in_order() {
    let wire = "NATS/1.0 100 Idle Heartbeat\r\nA: 1\r\nno colon\r\na:2\r\nEmpty:\r\n\r\n";
    let headers = NatsHeaders::from_wire(wire.into()).unwrap();
    assert_eq!((headers.status(), headers.description()), (Some(100), &b"Idle Heartbeat"[..]));
    let fields: Vec<_> = headers.iter().collect();
    assert_eq!(fields, [(&b"A"[..], &b"1"[..]), (b"a", b"2"), (b"Empty", b"")]);
    assert_eq!(headers.get("A"), Some(&b"1"[..]));
    assert_eq!(headers.get("b"), None);
    for wire in ["NATS/1.0\r\n", "NATS/2.0\r\n\r\n", "NATS/1.0x\r\n\r\n", "\r\n\r\n", ""] {
        assert!(NatsHeaders::from_wire(wire.into()).is_err(), "{wire:?}");
    }
    let empty = NatsHeaders::from_wire("NATS/1.0\r\n\r\n".into()).unwrap();
    assert_eq!((empty.status(), empty.description(), empty.iter().count()), (None, &b""[..], 0));
}

#[test]
fn k05_no_byte_of_a_split_nats_operation_is_searched_twice() {
    let line = format!("INFO {{\"{}\"}}\r\n", "x".repeat(4000));
    let mut decoder = NatsDecoder::client(NatsLimits::default());
    for seen in growing_prefixes(line.as_bytes()) {
        assert_eq!(decoder.next_operation(&mut seen.clone()), Ok(None));
    }
    assert!(matches!(decoder.next_operation(&mut line.into()), Ok(Some(_))));
    // The control line of an incomplete message is not parsed again: here it is overwritten after it was read.
    let wire = format!("MSG a 1 4000\r\n{}\r\n", "\r".repeat(4000));
    let mut decoder = NatsDecoder::client(NatsLimits::default());
    let mut head = Bytes::from("MSG a 1 4000\r\n");
    assert_eq!(decoder.next_operation(&mut head), Ok(None));
    for length in head.len()..wire.len() {
        let mut seen = Bytes::from(vec![b'?'; length]);
        assert_eq!(decoder.next_operation(&mut seen), Ok(None));
    }
    assert!(matches!(decoder.next_operation(&mut wire.into()), Ok(Some(_))));
}

#[test]
fn k05_the_payload_limit_of_nats_follows_what_the_server_announces() {
    let mut decoder = NatsDecoder::client(small());
    let mut wire = Bytes::from(format!("MSG a 1 40\r\n{}\r\n", "x".repeat(40)));
    let before = decoder.next_operation(&mut wire.clone());
    assert!(matches!(before, Err(NatsError::TooLong { limit: 32, .. })));
    decoder.set_max_payload(40);
    assert!(matches!(decoder.next_operation(&mut wire), Ok(Some(_))));
}
