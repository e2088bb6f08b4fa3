//! Decodes RESP commands, split at every position, and encodes them.

use bytes::Bytes;
use waterwheel_codec::{RespCommand, RespCommandDecoder, RespEncoder, RespLimits};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;

mod support;

use support::{decode, growing_prefixes, parts, write, writer};

fn verify(limits: RespLimits) -> DecoderVerifier<RespCommandDecoder> {
    DecoderVerifier::new(move || RespCommandDecoder::new(limits))
}

fn small() -> RespLimits {
    RespLimits { message: 64, bulk: 16, line: 20, elements: 8, depth: 3 }
}

#[test]
fn k03_commands_are_arrays_of_bulk_strings_or_lines_of_words() {
    let many: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    let many = RespCommand::new(&many);
    verify(RespLimits::default())
        .gives("*1\r\n$4\r\nPING\r\n", [RespCommand::new(&["PING"])])
        .gives(
            "PING\r\nECHO 'a b'\n",
            [RespCommand::new(&["PING"]), RespCommand::new(&["ECHO", "a b"])],
        )
        .gives("*2\r\n$0\r\n\r\n$2\r\n\r\n\r\n", [RespCommand::new(&["", "\r\n"])])
        .gives(many.wire(), [many.clone()])
        .gives("*0\r\n*-1\r\n\r\n  \r\n\n", [])
        .gives("*1\r\n$1\r\na\r\n", [RespCommand::new(&["a"])])
        .verify();
}

#[test]
fn k03_an_invalid_command_is_an_error_that_quotes_it() {
    let cases = [
        ("*1\r\n:1\r\n", "RESP: an argument of a command begins with ':' instead of '$'"),
        ("*x\r\n", "RESP: expected number of arguments, found 'x'"),
        ("*\r\n", "RESP: expected number of arguments, found ''"),
        ("*1\r\n$-1\r\n", "RESP: expected length, found '-1'"),
        ("*1\r\n$1\r\nab\r\n", "RESP: a bulk string does not end with \\r\\n"),
        ("*1\n", "RESP: a line does not end with \\r\\n"),
        ("get \"a\r\n", "RESP: unbalanced quotes in an inline command"),
    ];
    for (wire, error) in cases {
        let ping = RespCommand::new(&["PING"]);
        verify(RespLimits::default())
            .gives("PING\r\n", [ping])
            .fails(wire, error)
            .gives("PING\r\n", [])
            .verify();
    }
}

#[test]
fn k03_every_limit_of_a_command_is_an_error_that_names_it() {
    let cases = [
        ("*9\r\n", "RESP: a message has at least 9 values; at most 8 are allowed"),
        (
            "*9223372036854775807\r\n",
            "RESP: a message has at least 9223372036854775807 values; at most 8 are allowed",
        ),
        ("*1\r\n$17\r\n", "RESP: a bulk string is longer than 16 bytes"),
        ("*0000000000000000000000000", "RESP: a line is longer than 24 bytes"),
        ("123456789012345678901", "RESP: an inline command is longer than 20 bytes"),
        (
            "*4\r\n$16\r\n1234567890123456\r\n$16\r\n1234567890123456\r\n$16\r\n",
            "RESP: a message is longer than 64 bytes",
        ),
    ];
    for (wire, error) in cases {
        verify(small()).gives("a\r\n", [RespCommand::new(&["a"])]).fails(wire, error).verify();
    }
}

#[test]
fn k03_a_command_that_the_end_of_the_stream_cuts_off_is_an_error() {
    let cut_off = "RESP: the stream ended after 8 bytes of an incomplete message";
    verify(small())
        .gives("a\r\n*1\r\n$4\r\n", [RespCommand::new(&["a"])])
        .fails_at_end(cut_off)
        .verify();
    verify(small())
        .gives("a\r\nhalf wor", [RespCommand::new(&["a"])])
        .fails_at_end(cut_off)
        .verify();
    verify(small()).gives("\r\n*0\r\n", []).verify();
}

#[test]
fn k05_a_command_is_written_as_it_was_read() {
    let mut channel = writer(RespEncoder::default());
    // Short commands are copied, so that several of them are one part.
    let wire = RespCommand::new(&["ECHO", &"x".repeat(600)]).wire().clone();
    let read = decode(RespCommandDecoder::default(), [wire.clone()]).remove(0).unwrap();
    assert_eq!(read.wire().as_ptr(), wire.as_ptr(), "a slice of the bytes that were read");
    write(&mut channel, read).unwrap();
    let parts = parts(&mut channel);
    assert_eq!((parts.len(), parts[0].as_ptr()), (1, wire.as_ptr()));
}

#[test]
fn k05_no_byte_of_a_split_command_is_scanned_twice() {
    for message in [
        RespCommand::new(&["x"; 1000]).wire().clone(),
        RespCommand::new(&["SET", "a", &"\r".repeat(4000)]).wire().clone(),
        Bytes::from(format!("{}\r\n", "x".repeat(4000))),
    ] {
        let mut decoder = RespCommandDecoder::default();
        for seen in growing_prefixes(&message) {
            assert_eq!(decoder.next_command(&mut seen.clone()), Ok(None));
        }
        assert!(matches!(decoder.next_command(&mut message.clone()), Ok(Some(_))));
    }
}
