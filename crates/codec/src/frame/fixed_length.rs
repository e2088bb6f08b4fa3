//! Frames of a fixed length (K02).

use std::mem;

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, Decoder, Events, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use crate::frame::error::{FrameError, InvalidFrames};

/// Decodes frames of a fixed length. As a handler it refuses to write [`Bytes`] of another length.
///
/// ```
/// use waterwheel_codec::{FixedLength, FrameError};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// let frames = FixedLength::new(3)?;
/// DecoderVerifier::new(move || frames)
///     .gives(b"abcdef", ["abc".into(), "def".into()])
///     .gives(b"gh", [])
///     .fails_at_end(FrameError::CutOff { codec: "fixed length", unread: 2 })
///     .verify();
/// # Ok::<(), waterwheel_codec::InvalidFrames>(())
/// ```
///
/// In a pipeline: `edit.add_codec("frames", Decode::new(frames), frames)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedLength {
    length: usize,
}

impl FixedLength {
    /// Creates the codec for frames of `length` bytes.
    ///
    /// # Errors
    /// The length is zero.
    pub fn new(length: usize) -> Result<Self, InvalidFrames> {
        if length == 0 { Err(InvalidFrames::NoLength) } else { Ok(Self { length }) }
    }
}

impl Decoder for FixedLength {
    type Out = Bytes;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        Ok((buf.len() >= self.length).then(|| buf.split_to(self.length)))
    }

    fn max_unread(&self) -> usize {
        self.length
    }

    /// Fails if the stream ends in the middle of a frame.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        match self.decode(buf)? {
            None if !buf.is_empty() => {
                let unread = mem::take(buf).len();
                Err(Error::new(FrameError::CutOff { codec: "fixed length", unread }))
            }
            frame => Ok(frame),
        }
    }
}

impl Handler for FixedLength {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::transparent().outbound(TypeTag::list::<Bytes>(), TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if let Some(bytes) = msg.get::<Bytes>()
            && bytes.len() != self.length
        {
            let (length, expected) = (bytes.len(), self.length);
            return Err(Error::new(FrameError::WrongLength { length, expected }));
        }
        ctx.write_with(msg, done.take());
        Ok(())
    }
}
