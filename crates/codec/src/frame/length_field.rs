//! Options of frames with a length field (K01).
//!
//! ```text
//!    ◄─ offset ─►◄─ width ─►
//!   ┌───────────┬──────────┬──────────────────┐
//!   │ other     │  length  │ the rest         │      frame = length + adjustment + offset + width
//!   └───────────┴──────────┴──────────────────┘
//!    ◄──────── strip ──────►                         the decoder removes these bytes
//! ```

use bytes::{BufMut, BytesMut};

use crate::frame::length_field_decoder::LengthFieldDecoder;
use crate::frame::length_field_prepender::LengthFieldPrepender;

/// Default maximum length of a frame: 1 MiB, header included.
pub const DEFAULT_MAX_FRAME: usize = 1024 * 1024;

/// The layout of frames with a length field. Builds a decoder and a prepender that are inverse to each other.
///
/// By default the field is big-endian, at the front of the frame, counts the bytes after itself, and is removed by the
/// decoder. A frame has at most [`DEFAULT_MAX_FRAME`] bytes.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::LengthField;
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// // Two bytes, least significant first, that count themselves too.
/// let frames = LengthField::new(2).little_endian().adjustment(-2).max_frame(1024);
/// let decoder = frames.decoder()?;
/// DecoderVerifier::new(move || decoder.clone())
///     .gives(b"\x07\0hello", ["hello".into()])
///     .gives(b"\x02\0\x03\0!", ["".into(), "!".into()])
///     .verify();
///
/// let error = LengthField::new(5).decoder().unwrap_err();
/// assert_eq!(error.to_string(), "length field: a width of 5 bytes; 1, 2, 3, 4 or 8 are supported");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthField {
    pub(crate) width: usize,
    pub(crate) offset: usize,
    pub(crate) little_endian: bool,
    pub(crate) adjustment: i64,
    /// Bytes to remove; `None`: offset plus width.
    strip: Option<usize>,
    pub(crate) max_frame: usize,
    pub(crate) fail_late: bool,
}

impl LengthField {
    /// Creates the layout with a length field of `width` bytes: 1, 2, 3, 4 or 8.
    #[must_use]
    pub const fn new(width: usize) -> Self {
        Self {
            width,
            offset: 0,
            little_endian: false,
            adjustment: 0,
            strip: None,
            max_frame: DEFAULT_MAX_FRAME,
            fail_late: false,
        }
    }

    /// Sets the number of bytes before the field. The prepender fills them with zeros or with
    /// [given bytes](LengthFieldPrepender::header). Default: 0.
    #[must_use]
    pub const fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Makes the field little-endian. Default: big-endian.
    #[must_use]
    pub const fn little_endian(mut self) -> Self {
        self.little_endian = true;
        self
    }

    /// Sets the adjustment: the number of bytes after the field minus the field's value. Negative if the value includes
    /// header bytes, positive if it omits bytes after the field. Default: 0.
    #[must_use]
    pub const fn adjustment(mut self, adjustment: i64) -> Self {
        self.adjustment = adjustment;
        self
    }

    /// Sets the number of bytes that the decoder removes from the front of a frame. Default: up to the end of the field.
    #[must_use]
    pub const fn strip(mut self, strip: usize) -> Self {
        self.strip = Some(strip);
        self
    }

    /// Sets the maximum length of a frame, header included. Default: [`DEFAULT_MAX_FRAME`].
    #[must_use]
    pub const fn max_frame(mut self, max_frame: usize) -> Self {
        self.max_frame = max_frame;
        self
    }

    /// Reports an oversized frame when its last byte has arrived. Default: as soon as its length is known.
    #[must_use]
    pub const fn fail_late(mut self) -> Self {
        self.fail_late = true;
        self
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn decoder(self) -> Result<LengthFieldDecoder, InvalidLengthField> {
        self.check()?;
        Ok(LengthFieldDecoder::new(self))
    }

    /// Builds the handler that writes [`Bytes`](bytes::Bytes) as such frames.
    ///
    /// # Errors
    /// The options contradict each other, or the decoder does not remove the header, so the prepender cannot write it.
    pub fn prepender(self) -> Result<LengthFieldPrepender, InvalidLengthField> {
        self.check()?;
        if self.strip_len() != self.header() {
            let (strip, header) = (self.strip_len(), self.header());
            return Err(InvalidLengthField::PrependerStrip { strip, header });
        }
        Ok(LengthFieldPrepender::new(self))
    }

    /// Returns the number of bytes up to the end of the field.
    pub(crate) const fn header(&self) -> usize {
        self.offset + self.width
    }

    pub(crate) const fn strip_len(&self) -> usize {
        match self.strip {
            Some(strip) => strip,
            None => self.header(),
        }
    }

    /// Returns the largest value that the field can have.
    pub(crate) const fn max_value(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.width)
    }

    /// Reads the field of a frame whose header has arrived.
    #[inline]
    pub(crate) fn value(&self, frame: &[u8]) -> u64 {
        let field = &frame[self.offset..self.offset + self.width];
        match (field, self.little_endian) {
            (&[a], _) => u64::from(a),
            (&[a, b], false) => u64::from(u16::from_be_bytes([a, b])),
            (&[a, b], true) => u64::from(u16::from_le_bytes([a, b])),
            (&[a, b, c], false) => u64::from(u32::from_be_bytes([0, a, b, c])),
            (&[a, b, c], true) => u64::from(u32::from_le_bytes([a, b, c, 0])),
            (&[a, b, c, d], false) => u64::from(u32::from_be_bytes([a, b, c, d])),
            (&[a, b, c, d], true) => u64::from(u32::from_le_bytes([a, b, c, d])),
            (&[a, b, c, d, e, f, g, h], false) => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            (&[a, b, c, d, e, f, g, h], true) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => unreachable!("the width was checked"),
        }
    }

    /// Appends the field to `dst`; the value must fit.
    pub(crate) fn put(&self, value: u64, dst: &mut BytesMut) {
        if self.little_endian {
            dst.put_uint_le(value, self.width);
        } else {
            dst.put_uint(value, self.width);
        }
    }

    fn check(&self) -> Result<(), InvalidLengthField> {
        let Self { width, offset, adjustment, max_frame, .. } = *self;
        if !matches!(width, 1 | 2 | 3 | 4 | 8) {
            return Err(InvalidLengthField::Width { width });
        }
        if offset > max_frame || self.header() > max_frame {
            return Err(InvalidLengthField::Header { offset, width, max_frame });
        }
        if self.strip_len() > max_frame {
            return Err(InvalidLengthField::Strip { strip: self.strip_len(), max_frame });
        }
        let least = i128::from(adjustment);
        let most = least + i128::from(self.max_value());
        if most < 0 || least + self.header() as i128 > max_frame as i128 {
            return Err(InvalidLengthField::Adjustment { adjustment, width, max_frame });
        }
        Ok(())
    }
}

/// Invalid options of a [`LengthField`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidLengthField {
    /// The width of the field is not supported.
    #[error("length field: a width of {width} bytes; 1, 2, 3, 4 or 8 are supported")]
    Width {
        /// The unsupported width.
        width: usize,
    },
    /// The header alone exceeds the maximum length of a frame.
    #[error(
        "length field: {width} bytes at offset {offset} do not fit into a frame of at most \
         {max_frame} bytes"
    )]
    Header {
        /// The bytes before the field.
        offset: usize,
        /// The bytes of the field.
        width: usize,
        /// Maximum length of a frame.
        max_frame: usize,
    },
    /// More bytes are removed than a frame may have.
    #[error(
        "length field: {strip} bytes cannot be stripped of a frame of at most {max_frame} bytes"
    )]
    Strip {
        /// The bytes to strip.
        strip: usize,
        /// Maximum length of a frame.
        max_frame: usize,
    },
    /// No value of the field describes an allowed frame.
    #[error(
        "length field: with an adjustment of {adjustment} no value of {width} bytes stands for a \
         frame of at most {max_frame} bytes"
    )]
    Adjustment {
        /// The adjustment.
        adjustment: i64,
        /// The bytes of the field.
        width: usize,
        /// Maximum length of a frame.
        max_frame: usize,
    },
    /// The decoder does not remove the whole header, so a prepender cannot write it.
    #[error(
        "length field: a prepender writes the header of {header} bytes, and {strip} bytes are \
         stripped: leave `strip` as it is"
    )]
    PrependerStrip {
        /// The bytes that are stripped.
        strip: usize,
        /// The bytes of the header.
        header: usize,
    },
    /// The number of given header bytes differs from the offset.
    #[error("length field: {given} bytes are given for the {offset} before the field")]
    PrependerHeader {
        /// The bytes that were given.
        given: usize,
        /// The bytes before the field.
        offset: usize,
    },
}

impl From<InvalidLengthField> for waterwheel_executor::Error {
    fn from(error: InvalidLengthField) -> Self {
        waterwheel_executor::Error::new(error)
    }
}
