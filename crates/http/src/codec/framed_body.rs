//! A body on its way out.

use bytes::Bytes;
use http::HeaderMap;
use waterwheel_channel::FileRegion;

use super::error::HttpCodecError;
use crate::outbound::output::Output;
use crate::protocol::encoder::{CHUNK_END, encode_body_end, encode_chunk_start};
use crate::protocol::framing::BodyFraming;

/// The body of the message whose head is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct FramedBody {
    framing: BodyFraming,
    /// False for an answer that has no body: the parts are dropped.
    is_sent: bool,
    /// The bytes so far.
    written: u64,
}

impl FramedBody {
    pub(super) fn new(framing: BodyFraming, is_sent: bool) -> Self {
        Self { framing, is_sent, written: 0 }
    }

    /// Writes bytes of the body.
    ///
    /// # Errors
    /// The body is longer than its head says; nothing is written.
    pub(super) fn write_bytes(
        &mut self,
        bytes: Bytes,
        out: &mut Output<'_>,
    ) -> Result<(), HttpCodecError> {
        let len = bytes.len() as u64;
        self.write_framed(len, out, |out| out.write_bytes(bytes))
    }

    /// Writes a part of a file as a part of the body.
    ///
    /// # Errors
    /// The body is longer than its head says; nothing is written.
    pub(super) fn write_file(
        &mut self,
        region: FileRegion,
        out: &mut Output<'_>,
    ) -> Result<(), HttpCodecError> {
        let len = region.len();
        self.write_framed(len, out, |out| out.write_part(len, region))
    }

    fn write_framed(
        &mut self,
        len: u64,
        out: &mut Output<'_>,
        write: impl FnOnce(&mut Output<'_>),
    ) -> Result<(), HttpCodecError> {
        if !self.is_sent || len == 0 {
            return Ok(());
        }
        let written = self.written.saturating_add(len);
        match self.framing {
            BodyFraming::None => return Err(HttpCodecError::BodyTooLong { length: 0 }),
            BodyFraming::Length(length) if written > length => {
                return Err(HttpCodecError::BodyTooLong { length });
            }
            BodyFraming::Chunked => {
                encode_chunk_start(len, out.small_parts());
                write(out);
                out.small_parts().extend_from_slice(&CHUNK_END);
            }
            BodyFraming::Length(_) | BodyFraming::UntilClose => write(out),
        }
        self.written = written;
        Ok(())
    }

    /// Ends the body. Trailers are written behind chunks only.
    ///
    /// # Errors
    /// The body is shorter than its head says.
    pub(super) fn finish(
        &self,
        trailers: Option<&HeaderMap>,
        out: &mut Output<'_>,
    ) -> Result<(), HttpCodecError> {
        match self.framing {
            _ if !self.is_sent => Ok(()),
            BodyFraming::Length(length) if self.written < length => {
                Err(HttpCodecError::BodyTooShort { missing: length - self.written })
            }
            BodyFraming::Chunked => {
                encode_body_end(trailers, out.small_parts());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
