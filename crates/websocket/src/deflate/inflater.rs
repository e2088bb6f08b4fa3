//! Decompression of the messages of one direction.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use super::spare_streams::{give_decompressor, take_decompressor};

/// Decompresses the messages of one direction. It holds a decompressor while a compressed message is being read; between
/// messages only if the peer takes its context over.
pub(crate) struct Inflater {
    no_context_takeover: bool,
    stream: Option<Decompress>,
}

/// The error of data that is no compressed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptData;

impl Inflater {
    pub(crate) fn new(no_context_takeover: bool) -> Self {
        Self { no_context_takeover, stream: None }
    }

    /// Inflates a piece of a message; calls `emit` with each piece of the result, of a few KiB at most. An error of `emit`
    /// ends it.
    pub(crate) fn inflate<E: From<CorruptData>>(
        &mut self,
        mut piece: &[u8],
        mut emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let stream = self.stream.get_or_insert_with(take_decompressor);
        let mut out = [0; 4096];
        loop {
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = stream.decompress(piece, &mut out, FlushDecompress::Sync);
            piece = &piece[(stream.total_in() - read) as usize..];
            let got = (stream.total_out() - written) as usize;
            // Before an error too: what is wrong with the data before it is found first, however the bytes are cut.
            emit(&out[..got])?;
            match status.map_err(|_| CorruptData)? {
                // A block may have the bit of the last one (RFC 7692, section 7.2.3.4): others follow nevertheless. A
                // sender that writes it ends its stream there, and refers to nothing before.
                Status::StreamEnd => stream.reset(false),
                _ if got < out.len() => return Ok(()),
                _ => {}
            }
        }
    }

    /// Ends a message: inflates what the sender has left out at its end.
    pub(crate) fn end_message<E: From<CorruptData>>(
        &mut self,
        emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.inflate(&[0, 0, 0xff, 0xff], emit)?;
        if self.no_context_takeover
            && let Some(stream) = self.stream.take()
        {
            give_decompressor(stream);
        }
        Ok(())
    }
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater")
            .field("no_context_takeover", &self.no_context_takeover)
            .finish_non_exhaustive()
    }
}
