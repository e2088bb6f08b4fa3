//! Options of frames that end with a delimiter (K02).
//!
//! A frame ends where the first delimiter ends. If several end at one byte, such as `\r\n` and `\n`, the longest
//! counts. The decision is final when that byte has arrived, however the stream is split.

use memchr::{memchr, memchr2, memchr3};

use crate::frame::delimiter_decoder::DelimiterDecoder;
use crate::frame::delimiter_encoder::DelimiterEncoder;
use crate::frame::error::InvalidFrames;
use crate::frame::length_field::DEFAULT_MAX_FRAME;

/// The layout of frames that end with one of several delimiters. Builds a decoder and an encoder.
///
/// ```
/// use waterwheel_codec::Delimiters;
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// let frames = Delimiters::new(["\0", ";"]).max_frame(80);
/// let decoder = frames.decoder()?;
/// DecoderVerifier::new(move || decoder.clone())
///     .gives(b"one\0two;", ["one".into(), "two".into()])
///     .gives(b";", ["".into()])
///     .verify();
/// # Ok::<(), waterwheel_codec::InvalidFrames>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delimiters {
    /// The delimiters in the given order. The encoder writes the first.
    delimiters: Vec<Vec<u8>>,
    pub(crate) max_frame: usize,
    pub(crate) keep: bool,
    pub(crate) fail_fast: bool,
    pub(crate) give_unfinished: bool,
}

impl Delimiters {
    /// Creates the layout with these delimiters. The encoder writes the first.
    pub fn new<D: AsRef<[u8]>>(delimiters: impl IntoIterator<Item = D>) -> Self {
        Self {
            delimiters: delimiters
                .into_iter()
                .map(|delimiter| delimiter.as_ref().to_vec())
                .collect(),
            max_frame: DEFAULT_MAX_FRAME,
            keep: false,
            fail_fast: false,
            give_unfinished: false,
        }
    }

    /// Sets the maximum length of a frame without its delimiter. Default: [`DEFAULT_MAX_FRAME`].
    #[must_use]
    pub fn max_frame(mut self, max_frame: usize) -> Self {
        self.max_frame = max_frame;
        self
    }

    /// Keeps the delimiters in decoded frames. Default: removed.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Reports a frame that is too long as soon as it exceeds the limit, without its length. Default: at the delimiter.
    #[must_use]
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Decodes a last frame without a delimiter at the end of the stream. Default: an error.
    #[must_use]
    pub fn give_unfinished(mut self) -> Self {
        self.give_unfinished = true;
        self
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// A delimiter is missing, empty, or can never be found.
    pub fn decoder(&self) -> Result<DelimiterDecoder, InvalidFrames> {
        Ok(DelimiterDecoder::new(self, self.search()?))
    }

    /// Builds the handler that writes [`Bytes`](bytes::Bytes) as such frames.
    ///
    /// # Errors
    /// A delimiter is missing, empty, or can never be found.
    pub fn encoder(&self) -> Result<DelimiterEncoder, InvalidFrames> {
        let search = self.search()?;
        Ok(DelimiterEncoder::new(self.max_frame, self.delimiters[0].clone(), search))
    }

    fn search(&self) -> Result<DelimiterSearch, InvalidFrames> {
        let all = &self.delimiters;
        if all.is_empty() || all.iter().any(Vec::is_empty) {
            return Err(InvalidFrames::NoDelimiter);
        }
        for delimiter in all {
            let before_its_end = &delimiter[..delimiter.len() - 1];
            let inside =
                |other: &&Vec<u8>| before_its_end.windows(other.len()).any(|part| part == **other);
            if let Some(inside) = all.iter().find(inside) {
                let (delimiter, inside) = (delimiter.clone(), inside.clone());
                return Err(InvalidFrames::Unreachable { delimiter, inside });
            }
        }
        Ok(DelimiterSearch::new(all.clone()))
    }
}

/// Finds delimiters by their last bytes.
#[derive(Clone, Debug)]
pub(crate) struct DelimiterSearch {
    /// The delimiters, longest first.
    delimiters: Vec<Vec<u8>>,
    /// The last bytes of the delimiters, without duplicates.
    last_bytes: Vec<u8>,
}

/// A delimiter in a frame: the frame ends before `start`, the next one begins at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DelimiterMatch {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl DelimiterSearch {
    fn new(mut delimiters: Vec<Vec<u8>>) -> Self {
        delimiters.sort_by_key(|delimiter| std::cmp::Reverse(delimiter.len()));
        let mut last_bytes: Vec<u8> =
            delimiters.iter().filter_map(|all| all.last().copied()).collect();
        last_bytes.sort_unstable();
        last_bytes.dedup();
        Self { delimiters, last_bytes }
    }

    pub(crate) fn longest(&self) -> usize {
        self.delimiters[0].len()
    }

    /// Returns the first delimiter in `buf` that ends after the first `searched` bytes.
    #[inline]
    pub(crate) fn find(&self, buf: &[u8], searched: usize) -> Option<DelimiterMatch> {
        let mut from = searched;
        loop {
            let at = from + self.next_last_byte(&buf[from..])?;
            for delimiter in &self.delimiters {
                if buf[..=at].ends_with(delimiter) {
                    return Some(DelimiterMatch { start: at + 1 - delimiter.len(), end: at + 1 });
                }
            }
            from = at + 1;
        }
    }

    #[inline]
    fn next_last_byte(&self, buf: &[u8]) -> Option<usize> {
        match self.last_bytes[..] {
            [a] => memchr(a, buf),
            [a, b] => memchr2(a, b, buf),
            [a, b, c] => memchr3(a, b, c, buf),
            _ => buf.iter().position(|byte| self.last_bytes.contains(byte)),
        }
    }
}
