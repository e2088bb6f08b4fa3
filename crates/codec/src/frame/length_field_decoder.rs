//! Frames with a length field out of a stream of bytes (K01).
//!
//! 1. A frame is given as a part of what was read: no copy, and no allocation.
//! 2. Of a frame beyond the limit nothing is kept: it is skipped as it comes, is one error, and the frame behind it is
//!    given as any other.
//! 3. A length that cannot be (a frame that would end inside of its own header, or beyond 64 bits) says nothing about
//!    where the next frame begins: it is an error, and decoding ends.

use bytes::{Buf, Bytes};
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;

use crate::frame::length_field::LengthField;

/// Gives the frames of a stream in which each carries its length. Made by [`LengthField::decoder`].
///
/// ```
/// use waterwheel_codec::{LengthField, LengthFieldError};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// // A byte of type, the length of the body in two bytes, a byte of flags, the body. Frames are given whole.
/// let frames = LengthField::new(2).offset(1).adjustment(1).strip(0).max_frame(16);
/// let decoder = frames.decoder()?;
/// DecoderVerifier::new(move || decoder.clone())
///     .gives(b"T\0\x02Fhi", ["T\0\x02Fhi".into()])
///     .fails(b"T\0\x0dF", LengthFieldError::TooLong { length: 17, limit: 16 })
///     .gives(b"of 13 bytes..", []) // It was told of; the rest of it is skipped.
///     .gives(b"T\0\0F", ["T\0\0F".into()])
///     .verify();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LengthFieldDecoder {
    shape: LengthField,
    header: usize,
    strip: usize,
    /// The bits that eight bytes have more than the field.
    others: u32,
    /// Added to a field's value it gives the length of the frame, modulo 2⁶⁴.
    addend: u64,
    /// The least value of a frame that may be and has the bytes to strip, and how far others are beyond it at most.
    least: u64,
    span: u64,
    /// The frame that is being skipped because it is too long.
    skipping: Option<Skipping>,
}

/// A frame that is too long: its length, and how much of it is to come.
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
        // No frame is longer than it may be when it has the bytes to strip: that was checked.
        let least = value_of(header.max(strip));
        let span = value_of(shape.max_frame) - least;
        let others = 64 - 8 * shape.width as u32;
        Self { shape, header, strip, others, addend: addend as u64, least, span, skipping: None }
    }

    /// Takes the next frame from the front of `buf`, if all of it is there.
    ///
    /// # Errors
    /// The frame is not one that may be. Where bytes were consumed, the next call goes on behind them.
    #[inline]
    pub fn next_frame(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, LengthFieldError> {
        match self.whole(buf) {
            Some(length) => Ok(Some(self.take(length, buf))),
            None => self.other(buf),
        }
    }

    /// Returns the length of the frame at the front if all of it is there, nothing is wrong with it, and
    /// there are eight bytes from its field on.
    #[inline(always)]
    fn whole(&self, buf: &[u8]) -> Option<usize> {
        // The field and what is behind it, at once; the others are shifted away.
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

    /// Does the same for everything else: frames that are short, cut off, or wrong.
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

    // A call costs as much as what it does.
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

    /// Reports a frame that the stream's end cuts off.
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
            Some(_) => Ok(None), // It was told of.
            None => Err(Error::new(LengthFieldError::CutOff { unread })),
        }
    }
}

/// Bytes are no frame with a length field, or a message cannot be made one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LengthFieldError {
    /// The frame is longer than it may be. What came of it is skipped.
    #[error("length field: a frame has {length} bytes, and may have {limit}")]
    TooLong {
        /// The bytes of the frame, its header included.
        length: u64,
        /// How many it may have.
        limit: usize,
    },
    /// With the adjustment, the frame would end before its length field does. Decoding ends here.
    #[error("length field: a length of {value} with an adjustment of {adjustment} is negative")]
    Negative {
        /// The value of the field.
        value: u64,
        /// The adjustment.
        adjustment: i64,
    },
    /// With the adjustment, the length does not fit into 64 bits. Decoding ends here.
    #[error("length field: a length of {value} with an adjustment of {adjustment} overflows")]
    Overflow {
        /// The value of the field.
        value: u64,
        /// The adjustment.
        adjustment: i64,
    },
    /// The frame has fewer bytes than are to be stripped of it. It is skipped.
    #[error("length field: a frame has {length} bytes, and {strip} are to be stripped of it")]
    ShorterThanStrip {
        /// The bytes of the frame.
        length: usize,
        /// The bytes to strip.
        strip: usize,
    },
    /// The stream ended in the middle of a frame.
    #[error("length field: the stream ended in the middle of a frame, after {unread} bytes of it")]
    CutOff {
        /// How many bytes of the frame came.
        unread: usize,
    },
    /// A message is too short, or too long, for a field of this width and adjustment.
    #[error(
        "length field: {length} bytes less an adjustment of {adjustment} are no value of {width} \
         bytes"
    )]
    NoValue {
        /// The bytes behind the field.
        length: usize,
        /// The adjustment.
        adjustment: i64,
        /// The bytes of the field.
        width: usize,
    },
}
