//! The decoder verifier detects wrong decoders, and its error says what is wrong.

#[path = "../../channel/tests/typed/lines.rs"]
mod lines;

use bytes::{Buf, Bytes};
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;
use waterwheel_testkit::decoder_verifier::{DecoderVerifier, WrongMessages};

use crate::lines::{Line, Lines};

/// A decoder of two-byte numbers, correct or with one defect.
#[derive(Clone, Copy, PartialEq)]
enum Pairs {
    Right,
    /// Returns half a number as a whole one.
    Hasty,
    /// Consumes an incomplete pair and forgets it.
    Forgetful,
    /// Returns a number only when more bytes follow.
    Late,
    /// Returns the last number twice.
    Again,
}

impl Decoder for Pairs {
    type Out = u16;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u16>, Error> {
        match (buf.len(), *self) {
            (1, Pairs::Hasty) => Ok(Some(buf.get_u8().into())),
            (1, Pairs::Forgetful) => {
                buf.advance(1);
                Ok(None)
            }
            (2, Pairs::Late) | (1, _) => Ok(None),
            _ => Ok(Some(buf.get_u16())),
        }
    }

    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<u16>, Error> {
        match *self {
            Pairs::Again => Ok(Some(0x0304)),
            _ if buf.len() == 2 => Ok(Some(buf.get_u16())),
            _ => Ok(None),
        }
    }
}

fn check(pairs: Pairs) -> Result<(), WrongMessages> {
    DecoderVerifier::new(move || pairs).gives([1, 2], [0x0102]).gives([3, 4], [0x0304]).check()
}

fn error_of(pairs: Pairs) -> String {
    check(pairs).unwrap_err().to_string()
}

#[test]
fn o04_a_correct_decoder_passes_however_it_is_fed() {
    check(Pairs::Right).unwrap();
}

#[test]
fn o04_a_decoder_that_depends_on_how_it_is_fed_fails() {
    assert_eq!(
        error_of(Pairs::Hasty),
        "fed byte by byte: after 0 matching outcomes, expected 258, found 1"
    );
    assert_eq!(
        error_of(Pairs::Forgetful),
        "fed byte by byte: after 0 matching outcomes, expected 258, found nothing"
    );
}

#[test]
fn o04_a_late_message_fails() {
    assert_eq!(
        error_of(Pairs::Late),
        "fed message by message, up to step 1, b\"\\x01\\x02\": after 0 matching outcomes, expected 258, found \
         nothing"
    );
}

#[test]
fn o04_an_extra_message_fails() {
    assert_eq!(
        error_of(Pairs::Again),
        "fed message by message, to the end: after 0 matching outcomes, expected nothing, found 772"
    );
}

/// A decoder that fails once when a piece ends in the middle of a pair.
struct FailsOnOddPiece {
    odd: bool,
}

impl Decoder for FailsOnOddPiece {
    type Out = u16;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u16>, Error> {
        if buf.len() == 3 && !self.odd {
            self.odd = true;
            return Err(Error::new("odd"));
        }
        Pairs::Right.decode(buf)
    }
}

#[test]
fn o04_the_error_names_the_failing_split() {
    let wrong = DecoderVerifier::new(|| FailsOnOddPiece { odd: false })
        .gives([1, 2], [0x0102])
        .gives([3, 4], [0x0304])
        .check();
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "fed in two pieces, cut after byte 3: b\"\\x01\\x02\\x03\", b\"\\x04\": after 0 matching outcomes, \
         expected 258, found the error \"odd\""
    );
}

#[test]
fn o04_errors_are_compared() {
    let verifier = || DecoderVerifier::new(|| Lines::new(2));
    verifier().fails("long\n", "the line is too long").verify();
    let wrong = verifier().fails("ab\n", "the line is too long").check().unwrap_err();
    assert_eq!(wrong.expected, "the error \"the line is too long\"");
    assert_eq!(wrong.found, format!("{:?}", Line::new("ab")));
}

#[test]
#[should_panic(expected = "fed byte by byte")]
fn o04_verify_panics_with_the_report() {
    DecoderVerifier::new(|| Pairs::Hasty).gives([1, 2], [0x0102]).verify();
}

#[test]
fn o04_long_streams_are_split_at_some_positions_only() {
    let numbers = 0..1_500u16;
    let stream: Vec<u8> = numbers.clone().flat_map(u16::to_be_bytes).collect();
    DecoderVerifier::new(|| Pairs::Right).gives(stream, numbers).check().unwrap();
}
