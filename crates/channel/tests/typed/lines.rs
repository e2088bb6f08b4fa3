//! A codec for lines of text, for the tests of decoders and encoders; the testkit's tests include it too.
#![allow(dead_code, reason = "the testkit's tests need the decoder alone")]

use bytes::{Buf, BufMut, Bytes, BytesMut};
use waterwheel_channel::{Decoder, Encoder, HandlerResult, Message};
use waterwheel_executor::Error;

/// A line without its line end.
#[derive(Debug, PartialEq)]
pub(crate) struct Line(pub(crate) Bytes);

impl Line {
    pub(crate) fn new(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl Message for Line {
    fn size_hint(&self) -> usize {
        self.0.len()
    }
}

/// Decodes lines of up to `max` bytes. The last one needs no line end.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) max: usize,
    skipping: bool,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, skipping: false }
    }
}

impl Decoder for Lines {
    type Out = Line;

    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Line>, Error> {
        match buf.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                let line = buf.split_to(at);
                buf.advance(1);
                match std::mem::take(&mut self.skipping) {
                    true => Ok(None),
                    false if at > self.max => Err(Error::new("the line is too long")),
                    false => Ok(Some(Line(line))),
                }
            }
            None if buf.len() > self.max || self.skipping => {
                buf.clear();
                match std::mem::replace(&mut self.skipping, true) {
                    true => Ok(None),
                    false => Err(Error::new("the line is too long")),
                }
            }
            None => Ok(None),
        }
    }

    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Line>, Error> {
        let last = (!buf.is_empty() && !self.skipping).then(|| Line(buf.split_off(0)));
        buf.clear();
        Ok(last)
    }
}

/// Encodes lines; a line that contains a line end is an error.
pub(crate) struct LineEncoder;

impl Encoder for LineEncoder {
    type In = Line;

    fn encode(&mut self, line: Line, dst: &mut BytesMut) -> HandlerResult {
        dst.put_slice(&line.0);
        if line.0.contains(&b'\n') {
            return Err(Error::new("two lines are not one"));
        }
        dst.put_u8(b'\n');
        Ok(())
    }
}
