//! Writes frames that end with a delimiter (K02).

use bytes::{BufMut, Bytes};
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use crate::frame::delimiter_options::{DelimiterMatch, DelimiterSearch};
use crate::frame::error::FrameError;
use crate::frame::parts::{COPIED, begin_parts};

/// Writes [`Bytes`] followed by a delimiter. Created by [`Delimiters::encoder`](crate::Delimiters::encoder); other
/// messages are passed on.
///
/// The write of a message that contains a delimiter fails.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::Delimiters;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let encoder = Delimiters::new([";"]).encoder()?;
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("frames", encoder)?;
///     Ok(())
/// })?;
/// channel.write_outbound(Bytes::from_static(b"one")).join()?;
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "one;");
/// let refused = channel.write_outbound(Bytes::from_static(b"two;three")).join();
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "delimiter: a message of 9 bytes contains a delimiter, ending at byte 4"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DelimiterEncoder {
    limit: usize,
    delimiter: Bytes,
    search: DelimiterSearch,
    /// Scratch buffer: the end of a message and its delimiter, to search for an overlapping delimiter.
    seam: Vec<u8>,
}

impl DelimiterEncoder {
    pub(crate) fn new(limit: usize, delimiter: Vec<u8>, search: DelimiterSearch) -> Self {
        Self { limit, delimiter: delimiter.into(), search, seam: Vec::new() }
    }

    /// Checks that the message followed by the delimiter is decoded as the same message.
    fn check(&mut self, message: &[u8]) -> Result<(), FrameError> {
        let length = message.len();
        if length > self.limit {
            let (length, limit) = (Some(length as u64), self.limit);
            return Err(FrameError::TooLong { codec: "delimiter", length, limit });
        }
        if let Some(DelimiterMatch { end, .. }) = self.search.find(message, 0) {
            return Err(FrameError::EmbeddedDelimiter { at: end, length });
        }
        let tail = length.saturating_sub(self.search.longest() - 1);
        self.seam.clear();
        self.seam.extend_from_slice(&message[tail..]);
        self.seam.extend_from_slice(&self.delimiter);
        match self.search.find(&self.seam, length - tail) {
            Some(DelimiterMatch { start, .. }) if start == length - tail => Ok(()),
            Some(DelimiterMatch { end, .. }) => {
                Err(FrameError::EmbeddedDelimiter { at: tail + end, length })
            }
            None => Ok(()), // Unreachable: the search finds the delimiter.
        }
    }
}

impl Handler for DelimiterEncoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::transparent().outbound(TypeTag::list::<Bytes>(), TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let message = match msg.into_bytes() {
            Ok(message) => message,
            Err(other) => {
                ctx.write_with(other, done.take());
                return Ok(());
            }
        };
        self.check(&message).map_err(Error::new)?;
        if message.len() > COPIED {
            if begin_parts(ctx, done, message.len() + self.delimiter.len())? {
                ctx.write(message);
                ctx.write_with(self.delimiter.clone(), done.take());
            }
            return Ok(());
        }
        ctx.write_encoded_with(done, |dst| {
            dst.put_slice(&message);
            dst.put_slice(&self.delimiter);
            Ok(())
        })
    }
}
