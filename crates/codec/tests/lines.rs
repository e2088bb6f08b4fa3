//! Decodes lines, from streams split at every position.

use bytes::Bytes;
use waterwheel_codec::{LineDecoder, LineTooLong, LineUnfinished};
use waterwheel_testkit::decoder_verifier::DecoderVerifier;

fn lines<const N: usize>(lines: [&'static str; N]) -> [Bytes; N] {
    lines.map(Bytes::from)
}

fn verify(make: fn() -> LineDecoder) -> DecoderVerifier<LineDecoder> {
    DecoderVerifier::new(make)
}

/// Returns the error for a line of this length with a limit of 4 bytes.
fn too_long(length: usize) -> LineTooLong {
    LineTooLong { limit: 4, length: Some(length) }
}

/// The error for a line beyond 4 bytes before its end is known.
const TOO_LONG_UNFINISHED: LineTooLong = LineTooLong { limit: 4, length: None };

#[test]
fn c15_a_line_ends_with_lf_or_crlf() {
    verify(|| LineDecoder::new(80))
        .gives("a\n", lines(["a"]))
        .gives("bc\r\n", lines(["bc"]))
        .gives("\n\r\n\n", lines(["", "", ""]))
        .gives("d\ne\r\nf\n", lines(["d", "e", "f"]))
        .verify();
}

#[test]
fn c15_a_carriage_return_alone_does_not_end_a_line() {
    verify(|| LineDecoder::new(80))
        .gives("a\rb\n", lines(["a\rb"]))
        .gives("\rc\n", lines(["\rc"]))
        .gives("d\r\r\n", lines(["d\r"]))
        .gives("\r\r\r\n", lines(["\r\r"]))
        .verify();
}

#[test]
fn c15_any_other_byte_is_a_part_of_the_line() {
    let all: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    let stream = [&all[..], b"\n"].concat();
    verify(|| LineDecoder::new(255)).gives(stream, [Bytes::from(all)]).verify();
}

#[test]
fn c15_line_ends_are_kept_with_keep_ends() {
    verify(|| LineDecoder::new(1).keep_ends())
        .gives("a\nb\r\n", lines(["a\n", "b\r\n"]))
        .gives("\n\r\n", lines(["\n", "\r\n"]))
        .verify();
}

#[test]
fn c15_a_line_may_be_as_long_as_the_limit_without_its_end() {
    verify(|| LineDecoder::new(4))
        .gives("1234\n", lines(["1234"]))
        .gives("1234\r\n", lines(["1234"]))
        .fails("12345\n", too_long(5))
        .fails("12345\r\n", too_long(5))
        .fails("1234\r\r\n", too_long(5))
        .gives("1234\n", lines(["1234"]))
        .verify();
}

#[test]
fn c15_a_line_that_is_too_long_is_one_error_and_the_next_one_is_read() {
    verify(|| LineDecoder::new(4))
        .gives("ab\n", lines(["ab"]))
        .gives("0123456", [])
        .gives("789\r0123", [])
        .fails("45\n", too_long(17))
        .fails("56789\n", too_long(5))
        .gives("\ncd\n", lines(["", "cd"]))
        .verify();
}

#[test]
fn c15_fail_fast_reports_a_too_long_line_before_its_end() {
    verify(|| LineDecoder::new(4).fail_fast())
        .gives("ab\n", lines(["ab"]))
        .gives("1234", [])
        .fails("5", TOO_LONG_UNFINISHED)
        .gives("6789\r0", [])
        .gives("\r\ncd\n", lines(["cd"]))
        .fails("12345\n", TOO_LONG_UNFINISHED)
        .gives("1234\r", [])
        .gives("\n", lines(["1234"]))
        .gives("1234\r", [])
        .fails("5", TOO_LONG_UNFINISHED)
        .gives("\n", [])
        .verify();
}

#[test]
fn c15_a_limit_of_zero_allows_empty_lines() {
    verify(|| LineDecoder::new(0))
        .gives("\n\r\n", lines(["", ""]))
        .fails("a\n", LineTooLong { limit: 0, length: Some(1) })
        .gives("\n", lines([""]))
        .verify();
}

#[test]
fn c15_the_limit_may_be_usize_max() {
    verify(|| LineDecoder::new(usize::MAX)).gives("abc\r\n", lines(["abc"])).verify();
}

#[test]
fn c15_an_unfinished_line_at_the_end_of_the_stream_is_dropped() {
    verify(|| LineDecoder::new(4)).gives("a\nbc", lines(["a"])).verify();
    verify(|| LineDecoder::new(4)).gives("a\nbc\r", lines(["a"])).verify();
    verify(|| LineDecoder::new(4)).gives("", []).verify();
}

#[test]
fn c15_give_unfinished_delivers_an_unfinished_line_at_the_end_of_the_stream() {
    let make = || LineDecoder::new(4).give_unfinished();
    verify(make).gives("a\nbc", lines(["a"])).gives_at_end(lines(["bc"])).verify();
    verify(make).gives("a\n", lines(["a"])).verify();
    verify(make).gives("1234\r", []).gives_at_end(lines(["1234"])).verify();
    verify(make).gives("\r", []).gives_at_end(lines([""])).verify();
    verify(make).gives("", []).verify();
    let make = || LineDecoder::new(4).give_unfinished().keep_ends();
    verify(make).gives("a\nb\r", lines(["a\n"])).gives_at_end(lines(["b\r"])).verify();
}

#[test]
fn c15_fail_unfinished_reports_an_unfinished_line_at_the_end_of_the_stream() {
    let make = || LineDecoder::new(4).fail_unfinished();
    let unfinished = |length| LineUnfinished { length };
    verify(make).gives("a\nbc", lines(["a"])).fails_at_end(unfinished(2)).verify();
    verify(make).gives("a\n", lines(["a"])).verify();
    verify(make).gives("1234\r", []).fails_at_end(unfinished(4)).verify();
    verify(make).gives("a\n12345", lines(["a"])).fails_at_end(too_long(5)).verify();
}

#[test]
fn c15_a_too_long_line_is_reported_at_the_end_of_the_stream_at_the_latest() {
    for make in [|| LineDecoder::new(4), || LineDecoder::new(4).give_unfinished()] {
        verify(make).gives("a\n12345", lines(["a"])).fails_at_end(too_long(5)).verify();
        verify(make).gives("12345678\r", []).fails_at_end(too_long(8)).verify();
    }
    for make in
        [|| LineDecoder::new(4).fail_fast(), || LineDecoder::new(4).fail_fast().give_unfinished()]
    {
        verify(make).fails("12345", TOO_LONG_UNFINISHED).gives("678", []).verify();
    }
}

#[test]
fn c15_the_error_names_limit_and_length() {
    assert_eq!(too_long(9).to_string(), "a line has 9 bytes; at most 4 are allowed");
    assert_eq!(TOO_LONG_UNFINISHED.to_string(), "a line is longer than 4 bytes");
}
