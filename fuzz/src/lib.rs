//! Checks for fuzzing decoders: a decoder does not panic, keeps no more bytes than it declares, and its output does not
//! depend on how its input is split.

#![forbid(unsafe_code)]

pub mod http;

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use waterwheel_channel::Decoder;
pub use waterwheel_executor::Error;

/// A decoded message, or the text of an error.
pub type Outcome<T> = Result<T, String>;

/// The fuzzer's input; options and piece lengths are taken from its front.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Returns the next byte, or 0.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}

/// Decodes the rest of the input as a whole, byte by byte, and in pieces of a length of the fuzzer's choice. Returns the
/// messages and errors.
///
/// # Panics
/// If the three results differ, or the decoder keeps more bytes than it declares.
pub fn check<D: Decoder<Out: PartialEq + Debug>>(
    mut input: Input<'_>,
    make: impl Fn() -> D,
) -> Vec<Outcome<D::Out>> {
    let step = 1 + input.below(64);
    let Input(stream) = input;
    let whole = decode(make(), [stream]);
    assert_eq!(whole, decode(make(), stream.chunks(step)), "in pieces of {step}");
    assert_eq!(whole, decode(make(), stream.chunks(1)), "byte by byte");
    whole
}

/// Decodes pieces by the rules of [`Decoder`], without a pipeline.
pub fn decode<'a, D: Decoder>(
    mut decoder: D,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Outcome<D::Out>> {
    let mut outcomes = Vec::new();
    let mut kept = Bytes::new();
    for piece in pieces {
        let mut buf = BytesMut::from(&kept[..]);
        buf.extend_from_slice(piece);
        kept = buf.freeze();
        while !kept.is_empty() {
            let before = kept.len();
            let decoded = decoder.decode(&mut kept);
            assert!(kept.len() <= before, "the decoder added bytes to its input");
            let consumed = kept.len() < before;
            match decoded {
                Ok(Some(message)) => {
                    assert!(consumed, "the decoder returned a message without consuming bytes");
                    outcomes.push(Ok(message));
                }
                Ok(None) if consumed => {}
                Ok(None) => break,
                Err(error) => {
                    outcomes.push(Err(error.to_string()));
                    if !consumed {
                        return outcomes;
                    }
                }
            }
        }
        let max = decoder.max_unread();
        assert!(kept.len() <= max, "{} bytes are kept; at most {max} are allowed", kept.len());
    }
    loop {
        let before = kept.len();
        match decoder.decode_last(&mut kept) {
            Ok(Some(message)) => outcomes.push(Ok(message)),
            Ok(None) => {}
            Err(error) => outcomes.push(Err(error.to_string())),
        }
        if kept.len() >= before {
            return outcomes;
        }
    }
}
