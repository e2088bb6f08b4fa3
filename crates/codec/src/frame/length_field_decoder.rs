//! Decodes frames with a length field (K01).
//!
//! 1. A frame is a slice of the read buffer: no copy and no allocation.
//! 2. A frame beyond the limit is skipped as it arrives. One error is reported, and the next frame is decoded normally.
//! 3. An impossible length (a frame that would end inside its own header, or beyond 64 bits) hides the start of the next
//!    frame: the decoder reports an error, and decoding ends.

use bytes::{Buf, Bytes};
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;

use crate::frame::length_field::LengthField;

/// Decodes frames with a length field. Created by [`LengthField::decoder`].
///
/// ```
/// use waterwheel_codec::{LengthField, LengthFieldError};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// // A byte of type, the length of the body in two bytes, a byte of flags, the body. Nothing is removed.
/// let frames = LengthField::new(2).offset(1).adjustment(1).strip(0).max_frame(16);
/// let decoder = frames.decoder()?;
/// DecoderVerifier::new(move || decoder.clone())
///     .gives(b"T\0\x02Fhi", ["T\0\x02Fhi".into()])
///     .fails(b"T\0\x0dF", LengthFieldError::TooLong { length: 17, limit: 16 })
///     .gives(b"of 13 bytes..", []) // Reported above; the rest is skipped.
///     .gives(b"T\0\0F", ["T\0\0F".into()])
///     .verify();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LengthFieldDecoder {
    shape: LengthField,
    header: usize,
    strip: usize,
    /// The number of bits of an eight-byte load that are not part of the field.
    others: u32,
    /// The length of a frame minus the value of its field, modulo 2⁶⁴.
    addend: u64,
    /// The smallest valid field value, and the width of the range of valid values above it.
    least: u64,
    span: u64,
    /// The frame that is skipped because it is too long.
    skipping: Option<Skipping>,
}

/// A frame that is too long: its length, and the bytes still to skip.
#[derive(Clone, Copy, Debug)]
struct Skipping {
    length: u64,
    left: u64,
}

impl LengthFieldDecoder {
    pub(crate) fn new(shape: LengthField) -> Self {
        let (header, strip) = (shape.header(), shape.strip_len());
        let addend = i128::from(shape.adjustment) + header as i128;
        let value_of =
            |frame: usize| (frame as i128 - addend).clamp(0, i128::from(u64::MAX)) as u64;
        // Cannot underflow: the options were checked.
        let least = value_of(header.max(strip));
        let span = value_of(shape.max_frame) - least;
        let others = 64 - 8 * shape.width as u32;
        Self { shape, header, strip, others, addend: addend as u64, least, span, skipping: None }
    }

    /// Removes the next complete frame from the front of `buf`.
    ///
    /// # Errors
    /// The frame is invalid. If bytes were consumed, the next call continues after them.
    #[inline]
    pub fn next_frame(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, LengthFieldError> {
        match self.whole(buf) {
            Some(length) => Ok(Some(self.take(length, buf))),
            None => self.other(buf),
        }
    }

    /// Fast path: returns the length of the frame at the front if complete and valid, and if eight bytes from its
    /// field on have arrived.
    #[inline(always)]
    fn whole(&self, buf: &[u8]) -> Option<usize> {
        // Loads the field and the bytes after it at once; the excess bits are shifted out.
        let eight = u64::from_le_bytes(*buf.get(self.shape.offset..)?.first_chunk()?);
        let ordered =
            if self.shape.little_endian { eight << self.others } else { eight.swap_bytes() };
        let value = ordered >> self.others;
        let length = value.wrapping_add(self.addend) as usize;
        let usual = value.wrapping_sub(self.least) <= self.span && self.skipping.is_none();
        (usual && buf.len() >= length).then_some(length)
    }

    #[inline(always)]
    fn take(&self, length: usize, buf: &mut Bytes) -> Bytes {
        let mut frame = buf.split_to(length);
        frame.advance(self.strip);
        frame
    }

    /// Slow path: frames that are short, incomplete or invalid.
    fn other(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, LengthFieldError> {
        if self.skipping.is_some() {
            return self.skip(buf);
        }
        if buf.len() < self.header {
            return Ok(None);
        }
        let value = self.shape.value(buf);
        let length = self.frame_length(value);
        if length < self.header as i128 || length > self.shape.max_frame as i128 {
            return self.refuse(value, buf);
        }
        let length = length as usize;
        if buf.len() < length {
            return Ok(None);
        }
        if length < self.strip {
            buf.advance(length);
            return Err(LengthFieldError::ShorterThanStrip { length, strip: self.strip });
        }
        Ok(Some(self.take(length, buf)))
    }

    fn frame_length(&self, value: u64) -> i128 {
        i128::from(value) + i128::from(self.shape.adjustment) + self.header as i128
    }

    #[cold]
    fn refuse(&mut self, value: u64, buf: &mut Bytes) -> Result<Option<Bytes>, LengthFieldError> {
        let adjustment = self.shape.adjustment;
        let length = self.frame_length(value);
        if length < self.header as i128 {
            return Err(LengthFieldError::Negative { value, adjustment });
        }
        let Ok(length) = u64::try_from(length) else {
            return Err(LengthFieldError::Overflow { value, adjustment });
        };
        self.skipping = Some(Skipping { length, left: length });
        let skipped = self.skip(buf);
        if self.shape.fail_late { skipped } else { Err(self.too_long(length)) }
    }

    fn skip(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, LengthFieldError> {
        let Some(skipping) = &mut self.skipping else { return Ok(None) };
        let length = skipping.length;
        let here = skipping.left.min(buf.len() as u64);
        buf.advance(here as usize);
        skipping.left -= here;
        if skipping.left > 0 {
            return Ok(None);
        }
        self.skipping = None;
        if self.shape.fail_late { Err(self.too_long(length)) } else { Ok(None) }
    }

    fn too_long(&self, length: u64) -> LengthFieldError {
        LengthFieldError::TooLong { length, limit: self.shape.max_frame }
    }
}

#[inline(never)]
fn decode_other(decoder: &mut LengthFieldDecoder, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
    decoder.other(buf).map_err(Error::new)
}

impl Decoder for LengthFieldDecoder {
    type Out = Bytes;

    // Inlined: a call would cost as much as the body.
    #[inline(always)]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        match self.whole(buf) {
            Some(length) => Ok(Some(self.take(length, buf))),
            None => decode_other(self, buf),
        }
    }

    fn max_unread(&self) -> usize {
        self.shape.max_frame
    }

    /// Fails if the stream ends in the middle of a frame.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        let frame = self.decode(buf)?;
        if frame.is_some() || (buf.is_empty() && self.skipping.is_none()) {
            return Ok(frame);
        }
        let unread = buf.len();
        buf.clear();
        match self.skipping.take() {
            Some(Skipping { length, .. }) if self.shape.fail_late => {
                Err(Error::new(self.too_long(length)))
            }
            Some(_) => Ok(None), // Already reported.
            None => Err(Error::new(LengthFieldError::CutOff { unread })),
        }
    }
}

/// Invalid input of a length-field decoder, or a message that cannot be written as a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LengthFieldError {
    /// The frame exceeds the limit and is skipped.
    #[error("length field: a frame has {length} bytes; at most {limit} are allowed")]
    TooLong {
        /// The bytes of the frame, its header included.
        length: u64,
        /// The limit.
        limit: usize,
    },
    /// With the adjustment, the frame would end before its length field. Decoding ends.
    #[error("length field: a length of {value} with an adjustment of {adjustment} is negative")]
    Negative {
        /// The value of the field.
        value: u64,
        /// The adjustment.
        adjustment: i64,
    },
    /// With the adjustment, the length does not fit into 64 bits. Decoding ends.
    #[error("length field: a length of {value} with an adjustment of {adjustment} overflows")]
    Overflow {
        /// The value of the field.
        value: u64,
        /// The adjustment.
        adjustment: i64,
    },
    /// The frame is shorter than the bytes to remove, and is skipped.
    #[error("length field: a frame has {length} bytes, fewer than the {strip} to strip")]
    ShorterThanStrip {
        /// The bytes of the frame.
        length: usize,
        /// The bytes to strip.
        strip: usize,
    },
    /// The stream ended in the middle of a frame.
    #[error("length field: the stream ended after {unread} bytes of an incomplete frame")]
    CutOff {
        /// Bytes of the frame that arrived.
        unread: usize,
    },
    /// An outbound message is too short or too long for the field's width and adjustment.
    #[error(
        "length field: {length} bytes less an adjustment of {adjustment} are no value of {width} \
         bytes"
    )]
    NoValue {
        /// The bytes after the field.
        length: usize,
        /// The adjustment.
        adjustment: i64,
        /// The bytes of the field.
        width: usize,
    },
}
