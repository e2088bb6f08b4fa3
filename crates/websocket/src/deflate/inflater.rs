//! Decompression of the messages of one direction.

use flate2::{Decompress, FlushDecompress, Status};

/// Decompresses the messages of one direction.
#[derive(Debug)]
pub(crate) struct Inflater {
    stream: Decompress,
    no_context_takeover: bool,
}

/// The error of data that is no compressed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptData;

impl Inflater {
    pub(crate) fn new(no_context_takeover: bool, window_bits: u8) -> Self {
        let stream = Decompress::new_with_window_bits(false, window_bits.max(9));
        Self { stream, no_context_takeover }
    }

    /// Inflates a piece of a message; calls `emit` with each piece of the result, of a few KiB at most. An error of `emit`
    /// ends it.
    pub(crate) fn inflate<E: From<CorruptData>>(
        &mut self,
        mut piece: &[u8],
        mut emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = [0; 4096];
        loop {
            let (read, written) = (self.stream.total_in(), self.stream.total_out());
            let status = self
                .stream
                .decompress(piece, &mut out, FlushDecompress::Sync)
                .map_err(|_| CorruptData)?;
            piece = &piece[(self.stream.total_in() - read) as usize..];
            let got = (self.stream.total_out() - written) as usize;
            emit(&out[..got])?;
            match status {
                Status::StreamEnd => return Err(CorruptData.into()),
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
        if self.no_context_takeover {
            self.stream.reset(false);
        }
        Ok(())
    }
}
