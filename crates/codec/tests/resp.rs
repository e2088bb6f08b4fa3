//! Decodes RESP values, split at every position, and encodes them.

use bytes::{Bytes, BytesMut};
use waterwheel_codec::{RespDecoder, RespEncoder, RespLimits, RespValue, RespVersion};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;

mod support;

use support::{decode, growing_prefixes, parts, write, writer};

fn verify(limits: RespLimits) -> DecoderVerifier<RespDecoder> {
    DecoderVerifier::new(move || RespDecoder::new(limits))
}

fn small() -> RespLimits {
    RespLimits { message: 64, bulk: 16, line: 30, elements: 8, depth: 3 }
}

fn simple(text: &'static str) -> RespValue {
    RespValue::simple(text)
}

fn bulk(text: &'static str) -> RespValue {
    RespValue::bulk(text)
}

fn int(value: i64) -> RespValue {
    RespValue::Integer(value)
}

/// Returns values with their RESP3 bytes, for encoding and decoding.
fn values_with_bytes() -> Vec<(&'static str, RespValue)> {
    let verbatim = RespValue::Verbatim { format: *b"txt", text: "Some string".into() };
    vec![
        ("+OK\r\n", simple("OK")),
        ("+\r\n", simple("")),
        ("-ERR unknown command\r\n", RespValue::error("ERR unknown command")),
        (":0\r\n", int(0)),
        (":-1000\r\n", int(-1000)),
        (":9223372036854775807\r\n", int(i64::MAX)),
        (":-9223372036854775808\r\n", int(i64::MIN)),
        ("$5\r\nhello\r\n", bulk("hello")),
        ("$0\r\n\r\n", bulk("")),
        ("$4\r\n\r\n\r\n\r\n", bulk("\r\n\r\n")),
        ("*0\r\n", RespValue::Array(vec![])),
        (
            "*2\r\n$5\r\nhello\r\n*1\r\n:1\r\n",
            RespValue::Array(vec![bulk("hello"), RespValue::Array(vec![int(1)])]),
        ),
        ("_\r\n", RespValue::Null),
        ("#t\r\n", RespValue::Boolean(true)),
        ("#f\r\n", RespValue::Boolean(false)),
        (",1.23\r\n", RespValue::Double(1.23)),
        (",10.0\r\n", RespValue::Double(10.0)),
        (",1e300\r\n", RespValue::Double(1e300)),
        (",inf\r\n", RespValue::Double(f64::INFINITY)),
        (",-inf\r\n", RespValue::Double(f64::NEG_INFINITY)),
        (
            "(3492890328409238509324850943850943825024385\r\n",
            RespValue::BigNumber("3492890328409238509324850943850943825024385".into()),
        ),
        ("!9\r\nERR a\r\nb!\r\n", RespValue::BulkError("ERR a\r\nb!".into())),
        ("=15\r\ntxt:Some string\r\n", verbatim),
        (
            "%2\r\n+first\r\n:1\r\n+second\r\n:2\r\n",
            RespValue::Map(vec![(simple("first"), int(1)), (simple("second"), int(2))]),
        ),
        ("~2\r\n+a\r\n#t\r\n", RespValue::Set(vec![simple("a"), RespValue::Boolean(true)])),
        (">2\r\n+message\r\n$2\r\nhi\r\n", RespValue::Push(vec![simple("message"), bulk("hi")])),
        (
            "|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n",
            RespValue::Attributed {
                attributes: vec![(simple("ttl"), int(3600))],
                value: Box::new(bulk("v")),
            },
        ),
        (
            "*2\r\n|1\r\n+a\r\n:1\r\n:2\r\n:3\r\n",
            RespValue::Array(vec![
                RespValue::Attributed {
                    attributes: vec![(simple("a"), int(1))],
                    value: Box::new(int(2)),
                },
                int(3),
            ]),
        ),
    ]
}

#[test]
fn k03_every_type_of_value_is_read_and_written() {
    let mut all = verify(RespLimits::default());
    for (wire, value) in values_with_bytes() {
        all = all.gives(wire, [value.clone()]);
        let mut found = BytesMut::new();
        value.encode(RespVersion::Resp3, &mut found).unwrap();
        assert_eq!(found, wire);
    }
    all.verify();
}

#[test]
fn k03_alternative_encodings_of_a_value_are_decoded() {
    verify(RespLimits::default())
        .gives("$-1\r\n*-1\r\n", [RespValue::Null, RespValue::Null])
        .gives(
            ":+7\r\n,10\r\n,+1E2\r\n",
            [int(7), RespValue::Double(10.0), RespValue::Double(100.0)],
        )
        .gives("(+12\r\n(-1\r\n", ["+12", "-1"].map(|digits| RespValue::BigNumber(digits.into())))
        .gives(
            "|1\r\n+a\r\n:1\r\n|0\r\n|1\r\n+b\r\n:2\r\n_\r\n",
            [RespValue::Attributed {
                attributes: vec![(simple("a"), int(1)), (simple("b"), int(2))],
                value: Box::new(RespValue::Null),
            }],
        )
        .gives(
            "|0\r\n>1\r\n:1\r\n",
            [RespValue::Attributed {
                attributes: vec![],
                value: Box::new(RespValue::Push(vec![int(1)])),
            }],
        )
        .verify();
    let nan = decode(RespDecoder::default(), [Bytes::from_static(b",nan\r\n")]);
    assert!(matches!(nan[..], [Ok(RespValue::Double(value))] if value.is_nan()));
}

#[test]
fn k03_values_of_unknown_length_are_delivered_at_their_end() {
    verify(RespLimits::default())
        .gives("$?\r\n;4\r\nHell\r\n;6\r\no worl\r\n;1\r\nd\r\n;0\r\n", [bulk("Hello world")])
        .gives("$?\r\n;0\r\n", [bulk("")])
        .gives(
            "*?\r\n:1\r\n*?\r\n.\r\n.\r\n",
            [RespValue::Array(vec![int(1), RespValue::Array(vec![])])],
        )
        .gives("~?\r\n$?\r\n;1\r\na\r\n;0\r\n.\r\n", [RespValue::Set(vec![bulk("a")])])
        .gives("%?\r\n+a\r\n:1\r\n.\r\n", [RespValue::Map(vec![(simple("a"), int(1))])])
        .verify();
}

#[test]
fn k03_an_invalid_value_is_an_error_that_quotes_it() {
    let cases = [
        ("hello\r\n", "RESP: 'h' is not the type of a value"),
        ("\r\n", "RESP: '\\r' is not the type of a value"),
        (":\r\n", "RESP: expected integer, found ''"),
        (":1x\r\n", "RESP: expected integer, found '1x'"),
        (":9223372036854775808\r\n", "RESP: expected integer, found '9223372036854775808'"),
        (":-\r\n", "RESP: expected integer, found '-'"),
        (",1,5\r\n", "RESP: expected double, found '1,5'"),
        (",infinity\r\n", "RESP: expected double, found 'infinity'"),
        (",\r\n", "RESP: expected double, found ''"),
        ("(1.5\r\n", "RESP: expected big number, found '1.5'"),
        ("(\r\n", "RESP: expected big number, found ''"),
        ("#x\r\n", "RESP: expected boolean, found 'x'"),
        ("_x\r\n", "RESP: expected null, found 'x'"),
        ("$-2\r\n", "RESP: expected length, found '-2'"),
        ("$+2\r\n", "RESP: expected length, found '+2'"),
        ("$\r\n", "RESP: expected length, found ''"),
        ("*-2\r\n", "RESP: expected number of values, found '-2'"),
        ("%-1\r\n", "RESP: expected number of values, found '-1'"),
        (">?\r\n", "RESP: expected number of values, found '?'"),
        ("!-1\r\n", "RESP: expected length, found '-1'"),
        ("=3\r\nabc\r\n", "RESP: expected verbatim string, found 'abc'"),
        ("=5\r\ntxt-a\r\n", "RESP: expected verbatim string, found 'txt-a'"),
        ("+a\rb\r\n", "RESP: a line does not end with \\r\\n"),
        ("+a\n", "RESP: a line does not end with \\r\\n"),
        ("$1\r\nab\r\n", "RESP: a bulk string does not end with \\r\\n"),
        (".\r\n", "RESP: an end outside of a value that needs one"),
        ("*1\r\n.\r\n", "RESP: an end outside of a value that needs one"),
        (";1\r\na\r\n", "RESP: a chunk outside of a string in chunks"),
        ("$?\r\n:1\r\n", "RESP: a value among the chunks of a string"),
        ("*1\r\n>0\r\n", "RESP: a push inside of another value"),
        ("%?\r\n:1\r\n.\r\n", "RESP: a key of a map without a value"),
        ("*?\r\n|0\r\n.\r\n", "RESP: attributes without a value behind them"),
    ];
    for (wire, error) in cases {
        // The beginning of the next value is unknown: nothing is decoded after the error.
        verify(RespLimits::default())
            .gives("+a\r\n", [simple("a")])
            .fails(wire, error)
            .gives("+b\r\n", [])
            .verify();
    }
}

#[test]
fn k03_every_limit_is_an_error_that_names_it() {
    let cases = [
        ("$17\r\n", "RESP: a bulk string is longer than 16 bytes"),
        ("+1234567890123456789012345678901", "RESP: a line is longer than 30 bytes"),
        ("$1234567890123456789012345", "RESP: a line is longer than 24 bytes"),
        ("$9999999999999999999\r\n", "RESP: expected length, found '9999999999999999999'"),
        ("*8\r\n", "RESP: a message has at least 9 values; at most 8 are allowed"),
        (
            "*9223372036854775807\r\n",
            "RESP: a message has at least 9223372036854775808 values; at most 8 are allowed",
        ),
        (
            "%9223372036854775807\r\n",
            "RESP: a message has at least 18446744073709551615 values; at most 8 are allowed",
        ),
        ("*1\r\n*1\r\n*1\r\n*1\r\n", "RESP: values are nested more than 3 deep"),
        (
            "*?\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n",
            "RESP: a message has at least 9 values; at most 8 are allowed",
        ),
        (
            "|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n|0\r\n",
            "RESP: a message has at least 9 values; at most 8 are allowed",
        ),
        (
            "$?\r\n;1\r\na\r\n;1\r\na\r\n;1\r\na\r\n;1\r\na\r\n;1\r\na\r\n;1\r\na\r\n;1\r\na\r\n;1\r\na\r\n",
            "RESP: a message has at least 9 values; at most 8 are allowed",
        ),
        (
            "*3\r\n$16\r\n1234567890123456\r\n$16\r\n1234567890123456\r\n$16\r\n",
            "RESP: a message is longer than 64 bytes",
        ),
        (
            "*4\r\n+12345678901234567\r\n+12345678901234567\r\n+123456789012345678\r\n",
            "RESP: a message is longer than 64 bytes",
        ),
    ];
    for (wire, error) in cases {
        verify(small()).gives("+a\r\n", [simple("a")]).fails(wire, error).verify();
    }
    let fits = "*3\r\n$16\r\n1234567890123456\r\n$16\r\n1234567890123456\r\n+12345678901\r\n";
    assert_eq!(fits.len(), 64);
    verify(small())
        .gives(
            fits,
            [RespValue::Array(vec![
                bulk("1234567890123456"),
                bulk("1234567890123456"),
                simple("12345678901"),
            ])],
        )
        .gives("+123456789012345678901234567890\r\n", [simple("123456789012345678901234567890")])
        .verify();
}

#[test]
fn k03_nesting_depth_is_limited_to_protect_the_stack() {
    let limits = RespLimits { depth: usize::MAX, ..RespLimits::default() };
    let nested = Bytes::from("*1\r\n".repeat(100_000));
    let outcomes = decode(RespDecoder::new(limits), [nested]);
    assert_eq!(outcomes, [Err("RESP: values are nested more than 128 deep".to_owned())]);
    let deep = "*1\r\n".repeat(RespLimits::MAX_DEPTH) + ":1\r\n";
    assert!(matches!(decode(RespDecoder::new(limits), [Bytes::from(deep)])[..], [Ok(_)]));
}

#[test]
fn k03_a_message_that_the_end_of_the_stream_cuts_off_is_an_error() {
    let cut_off = "RESP: the stream ended after 8 bytes of an incomplete message";
    verify(small()).gives("+a\r\n*2\r\n:1\r\n", [simple("a")]).fails_at_end(cut_off).verify();
    verify(small()).gives("+a\r\n", [simple("a")]).verify();
}

#[test]
fn k03_resp3_values_are_written_as_the_nearest_resp2_type() {
    let pair = || vec![(simple("a"), RespValue::Boolean(true))];
    let cases = [
        ("$-1\r\n", RespValue::Null),
        (":1\r\n", RespValue::Boolean(true)),
        ("$4\r\n1.25\r\n", RespValue::Double(1.25)),
        ("$3\r\n-12\r\n", RespValue::BigNumber("-12".into())),
        ("-ERR a  b\r\n", RespValue::BulkError("ERR a\r\nb".into())),
        ("$2\r\nhi\r\n", RespValue::Verbatim { format: *b"txt", text: "hi".into() }),
        ("*2\r\n+a\r\n:1\r\n", RespValue::Map(pair())),
        ("*1\r\n:1\r\n", RespValue::Set(vec![int(1)])),
        ("*1\r\n:1\r\n", RespValue::Push(vec![int(1)])),
        (":7\r\n", RespValue::Attributed { attributes: pair(), value: Box::new(int(7)) }),
    ];
    for (wire, value) in cases {
        let mut found = BytesMut::new();
        value.encode(RespVersion::Resp2, &mut found).unwrap();
        assert_eq!(found, wire);
    }
}

#[test]
fn k03_a_value_that_would_not_decode_to_itself_is_refused() {
    let mut channel = writer(RespEncoder::new(RespVersion::Resp3));
    let misplaced = "RESP: a simple string or error contains a line end";
    for value in [simple("a\nb"), RespValue::error("ERR \r"), RespValue::Array(vec![simple("\n")])]
    {
        assert_eq!(write(&mut channel, value).unwrap_err(), misplaced);
    }
    let push = RespValue::Array(vec![RespValue::Push(vec![])]);
    assert_eq!(write(&mut channel, push).unwrap_err(), "RESP: a push inside of another value");
    let number = RespValue::BigNumber("12x".into());
    assert_eq!(write(&mut channel, number).unwrap_err(), "RESP: expected big number, found '12x'");
    assert!(parts(&mut channel).is_empty(), "nothing of a refused value is written");
}

#[test]
fn k05_long_strings_in_a_value_are_written_without_a_copy() {
    let mut channel = writer(RespEncoder::default());
    let long = Bytes::from(vec![b'x'; 5000]);
    let value = RespValue::Array(vec![int(1), RespValue::Bulk(long.clone()), bulk("short")]);
    write(&mut channel, value).unwrap();
    let parts = parts(&mut channel);
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0], "*3\r\n:1\r\n$5000\r\n");
    assert_eq!(parts[1].as_ptr(), long.as_ptr());
    assert_eq!(parts[2], "\r\n$5\r\nshort\r\n");
}

/// Overwrites bytes that the decoder has seen: a decoder that scans them again fails.
#[test]
fn k05_no_byte_of_a_split_message_is_scanned_twice() {
    for message in [
        format!("+{}\r\n", "x".repeat(4000)),
        format!("*1000\r\n{}", ":1\r\n".repeat(1000)),
        format!("$4000\r\n{}\r\n", "\r".repeat(4000)),
        "|0\r\n".repeat(1000) + ":1\r\n",
    ] {
        let mut decoder = RespDecoder::default();
        for seen in growing_prefixes(message.as_bytes()) {
            assert_eq!(decoder.next_value(&mut seen.clone()), Ok(None));
        }
        assert!(matches!(decoder.next_value(&mut message.into()), Ok(Some(_))));
    }
}
