//! Decodes frames that end with a delimiter (K02).
//!
//! 1. No byte is scanned twice, except the last few of the previous read, which may begin a delimiter.
//! 2. A frame beyond the limit is discarded as it arrives, except those few bytes. One error is reported, and the next
//!    frame is decoded normally.

use std::mem;

use bytes::{Buf, Bytes};
use waterwheel_channel::Decoder;
use waterwheel_executor::Error;

use crate::frame::delimiter_options::{DelimiterMatch, DelimiterSearch, Delimiters};
use crate::frame::error::FrameError;

const CODEC: &str = "delimiter";

/// Decodes frames that end with a delimiter, as slices of the read buffer. Created by [`Delimiters::decoder`].
///
/// ```
/// use waterwheel_codec::{Delimiters, FrameError};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// let decoder = Delimiters::new(["--\r\n"]).max_frame(8).decoder()?;
/// DecoderVerifier::new(move || decoder.clone())
///     .gives(b"a--\n--\r\n", ["a--\n".into()])
///     .fails(b"123456789--\r\n", "delimiter: a frame has 9 bytes; at most 8 are allowed")
///     .gives(b"--\r\n", ["".into()])
///     .gives(b"half-", [])
///     .fails_at_end(FrameError::CutOff { codec: "delimiter", unread: 5 })
///     .verify();
/// # Ok::<(), waterwheel_codec::InvalidFrames>(())
/// ```
#[derive(Clone, Debug)]
pub struct DelimiterDecoder {
    search: DelimiterSearch,
    limit: usize,
    keep: bool,
    fail_fast: bool,
    give_unfinished: bool,
    /// The number of bytes at the front of the buffer in which no delimiter ends.
    searched: usize,
    /// The number of discarded bytes of a frame that is too long; `None` otherwise.
    discarded: Option<u64>,
}

impl DelimiterDecoder {
    pub(crate) fn new(shape: &Delimiters, search: DelimiterSearch) -> Self {
        Self {
            search,
            limit: shape.max_frame,
            keep: shape.keep,
            fail_fast: shape.fail_fast,
            give_unfinished: shape.give_unfinished,
            searched: 0,
            discarded: None,
        }
    }

    /// Removes the next frame from the front of `buf` if its delimiter has arrived.
    ///
    /// # Errors
    /// The frame is too long. The bytes that have arrived are consumed.
    #[inline]
    pub fn next_frame(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        let Some(DelimiterMatch { start, end }) = self.search.find(buf, self.searched) else {
            return self.go_on(buf);
        };
        self.searched = 0;
        if start > self.limit || self.discarded.is_some() {
            buf.advance(end);
            return self.end_too_long(start);
        }
        if self.keep {
            return Ok(Some(buf.split_to(end)));
        }
        let frame = buf.split_to(start);
        buf.advance(end - start);
        Ok(Some(frame))
    }

    /// Handles a frame whose delimiter has not arrived.
    fn go_on(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        // The last bytes may begin a delimiter.
        let certain = buf.len().saturating_sub(self.search.longest() - 1);
        let before = self.discarded;
        if before.is_some() || certain > self.limit {
            buf.advance(certain);
            self.discarded = Some(before.unwrap_or(0).saturating_add(certain as u64));
        }
        self.searched = buf.len();
        let found_out = before.is_none() && self.discarded.is_some();
        if found_out && self.fail_fast { Err(self.too_long(certain as u64)) } else { Ok(None) }
    }

    #[cold]
    fn end_too_long(&mut self, length: usize) -> Result<Option<Bytes>, FrameError> {
        match self.discarded.take() {
            Some(_) if self.fail_fast => Ok(None), // Already reported.
            gone => Err(self.too_long(gone.unwrap_or(0).saturating_add(length as u64))),
        }
    }

    fn too_long(&self, length: u64) -> FrameError {
        let length = (!self.fail_fast).then_some(length);
        FrameError::TooLong { codec: CODEC, length, limit: self.limit }
    }
}

impl Decoder for DelimiterDecoder {
    type Out = Bytes;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        self.next_frame(buf).map_err(Error::new)
    }

    /// Bounds the unread bytes: a frame of maximum length and the start of its delimiter.
    fn max_unread(&self) -> usize {
        self.limit.saturating_add(self.search.longest() - 1)
    }

    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        let frame = self.decode(buf)?;
        // If an error was reported before the end of its frame, complete frames may follow.
        if frame.is_some() || self.search.find(buf, self.searched).is_some() {
            return Ok(frame);
        }
        let rest = mem::take(buf);
        self.searched = 0;
        if self.discarded.is_some() || rest.len() > self.limit {
            return self.end_too_long(rest.len()).map_err(Error::new);
        }
        match rest.len() {
            0 => Ok(None),
            _ if self.give_unfinished => Ok(Some(rest)),
            unread => Err(Error::new(FrameError::CutOff { codec: CODEC, unread })),
        }
    }
}
