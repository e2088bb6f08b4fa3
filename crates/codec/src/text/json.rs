//! Decodes JSON objects and arrays as frames (K02).
//!
//! Only brackets and strings with their escapes are scanned, enough to find the end of a frame. The parser that gets the
//! frame validates the rest.

use std::mem;

use bytes::{Buf, Bytes};
use memchr::memchr2;
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;

use crate::frame::error::FrameError;
use crate::frame::length_field::DEFAULT_MAX_FRAME;

const CODEC: &str = "JSON";

/// Default maximum nesting depth.
const DEFAULT_MAX_DEPTH: usize = 128;

/// Decodes the JSON objects and arrays of a stream, each as a slice of the read buffer. Optional white space between them
/// is skipped. Other bytes between them, a mismatched bracket, or a frame beyond a limit end the decoding.
///
/// There is no encoder: JSON text is written as bytes.
///
/// ```
/// use waterwheel_codec::JsonDecoder;
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| JsonDecoder::new().max_frame(1024).max_depth(8))
///     .gives(r#"{"a": "}\""}"#, [r#"{"a": "}\""}"#.into()])
///     .gives(" [1, [2]]\n{}", ["[1, [2]]".into(), "{}".into()])
///     .fails("17", "JSON: '1' at byte 0 of a frame instead of '{' or '['")
///     .verify();
/// ```
#[derive(Clone, Debug)]
pub struct JsonDecoder {
    max_frame: usize,
    max_depth: usize,
    /// Number of bytes scanned so far.
    at: usize,
    /// The expected closing brackets, innermost last.
    closing: Vec<u8>,
    within: Within,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Value,
    String,
    /// In a string, after a backslash.
    Escape,
}

impl JsonDecoder {
    /// Creates a decoder for frames of at most [`DEFAULT_MAX_FRAME`] bytes and a depth of at most 128.
    #[must_use]
    pub fn new() -> Self {
        Self {
            max_frame: DEFAULT_MAX_FRAME,
            max_depth: DEFAULT_MAX_DEPTH,
            at: 0,
            closing: Vec::new(),
            within: Within::Value,
        }
    }

    /// Sets the maximum length of a frame. Default: [`DEFAULT_MAX_FRAME`].
    #[must_use]
    pub fn max_frame(mut self, max_frame: usize) -> Self {
        self.max_frame = max_frame;
        self
    }

    /// Sets the maximum nesting depth. Default: 128.
    #[must_use]
    pub fn max_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = max_depth;
        self
    }

    /// Removes the next complete frame from the front of `buf`.
    ///
    /// # Errors
    /// The bytes at the front are invalid. Nothing is consumed.
    pub fn next_frame(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        if self.at == 0 {
            let space = buf.iter().position(|byte| !is_space(*byte)).unwrap_or(buf.len());
            if space > 0 {
                buf.advance(space);
                return Ok(None); // Bytes were consumed, so the caller calls again.
            }
        }
        // Bytes beyond the limit are not scanned, so that the result does not depend on how the stream was split.
        let seen = &buf[..buf.len().min(self.max_frame)];
        match self.scan(seen) {
            Ok(true) => {
                let length = mem::take(&mut self.at);
                Ok(Some(buf.split_to(length)))
            }
            Ok(false) if buf.len() <= self.max_frame => Ok(None),
            failed => {
                self.reset(); // The next call returns the same error.
                let limit = self.max_frame;
                failed.and(Err(FrameError::TooLong { codec: CODEC, length: None, limit }))
            }
        }
    }

    /// Scans for the end of the frame. Returns true if it has arrived.
    fn scan(&mut self, buf: &[u8]) -> Result<bool, FrameError> {
        while let Some(&byte) = buf.get(self.at) {
            match (self.within, byte) {
                (Within::Escape, _) => self.within = Within::String,
                (Within::String, b'"') => self.within = Within::Value,
                (Within::String, b'\\') => self.within = Within::Escape,
                (Within::String, _) => {
                    let rest = &buf[self.at..];
                    self.at += memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    continue;
                }
                (Within::Value, b'{') => self.open(b'}')?,
                (Within::Value, b'[') => self.open(b']')?,
                (Within::Value, b'}' | b']') if self.closing.last() == Some(&byte) => {
                    self.closing.pop();
                    if self.closing.is_empty() {
                        self.at += 1;
                        return Ok(true);
                    }
                }
                (Within::Value, b'}' | b']') => return Err(self.unexpected(byte)),
                (Within::Value, _) if self.closing.is_empty() => return Err(self.unexpected(byte)),
                (Within::Value, b'"') => self.within = Within::String,
                (Within::Value, _) => {}
            }
            self.at += 1;
        }
        Ok(false)
    }

    fn open(&mut self, closing: u8) -> Result<(), FrameError> {
        if self.closing.len() >= self.max_depth {
            return Err(FrameError::TooDeep { limit: self.max_depth });
        }
        self.closing.push(closing);
        Ok(())
    }

    #[cold]
    fn unexpected(&self, found: u8) -> FrameError {
        let expected = match self.closing.last() {
            None => "'{' or '['",
            Some(b'}') => "'}'",
            Some(_) => "']'",
        };
        FrameError::Json { found, at: self.at, expected }
    }

    fn reset(&mut self) {
        self.at = 0;
        self.closing.clear();
        self.within = Within::Value;
    }
}

/// True for JSON white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

impl Default for JsonDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder for JsonDecoder {
    type Out = Bytes;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        self.next_frame(buf).map_err(Error::new)
    }

    fn max_unread(&self) -> usize {
        self.max_frame
    }

    /// Fails if the stream ends in the middle of a frame.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        let before = buf.len();
        let frame = self.decode(buf)?;
        if frame.is_some() || buf.len() < before || buf.is_empty() {
            return Ok(frame);
        }
        let unread = mem::take(buf).len();
        Err(Error::new(FrameError::CutOff { codec: CODEC, unread }))
    }
}
