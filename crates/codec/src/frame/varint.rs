//! Frames with a 32-bit varint length, as Protocol Buffers delimit messages (K02).
//!
//! A varint has seven bits of the number in each byte, lowest first; the highest bit is set if another byte follows.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use waterwheel_channel::{
    Completion, Ctx, Decoder, Events, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use crate::frame::error::FrameError;
use crate::frame::parts::write_frame;

/// Maximum number of bytes of a 32-bit varint.
const LONGEST: usize = 5;

const CODEC: &str = "varint";

/// Decodes frames with a varint length, as slices of the read buffer.
///
/// A frame beyond the limit is skipped as it arrives; one error is reported, and the next frame is decoded. A length
/// of more than 32 bits ends the decoding.
///
/// ```
/// use waterwheel_codec::{FrameError, VarintDecoder};
/// use waterwheel_testkit::decoder_verifier::DecoderVerifier;
///
/// DecoderVerifier::new(|| VarintDecoder::new(200))
///     .gives(b"\x05hello\0", ["hello".into(), "".into()])
///     .fails(b"\xac\x02", FrameError::TooLong { codec: "varint", length: Some(300), limit: 200 })
///     .gives([b'x'; 300], [])
///     .gives(b"\x01!", ["!".into()])
///     .verify();
/// ```
#[derive(Clone, Debug)]
pub struct VarintDecoder {
    limit: usize,
    /// The number of bytes left to skip of a frame that is too long.
    skip: usize,
}

impl VarintDecoder {
    /// Creates a decoder for frames of at most `max_frame` bytes, without the length.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, skip: 0 }
    }

    /// Removes the next complete frame from the front of `buf`.
    ///
    /// # Errors
    /// The frame is too long: the bytes that have arrived are consumed. Or the length is invalid: nothing is consumed.
    #[inline]
    pub fn next_frame(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        if self.skip > 0 {
            self.skip_some(buf);
            return Ok(None);
        }
        let Some((length, head)) = read(buf)? else { return Ok(None) };
        let length = length as usize;
        if length > self.limit {
            buf.advance(head);
            self.skip = length;
            self.skip_some(buf);
            let length = Some(length as u64);
            return Err(FrameError::TooLong { codec: CODEC, length, limit: self.limit });
        }
        if buf.len() - head < length {
            return Ok(None);
        }
        buf.advance(head);
        Ok(Some(buf.split_to(length)))
    }

    fn skip_some(&mut self, buf: &mut Bytes) {
        let here = self.skip.min(buf.len());
        buf.advance(here);
        self.skip -= here;
    }
}

/// Parses the varint at the front. Returns it with its size, or `None` if it is incomplete.
#[inline]
fn read(buf: &[u8]) -> Result<Option<(u32, usize)>, FrameError> {
    let mut value = 0;
    for (at, &byte) in buf.iter().take(LONGEST).enumerate() {
        if at == LONGEST - 1 && byte > 0x0f {
            return Err(FrameError::LongVarint);
        }
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(Some((value, at + 1)));
        }
    }
    Ok(None)
}

impl Decoder for VarintDecoder {
    type Out = Bytes;

    #[inline]
    fn decode(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        self.next_frame(buf).map_err(Error::new)
    }

    fn max_unread(&self) -> usize {
        self.limit.saturating_add(LONGEST)
    }

    /// Fails if the stream ends in the middle of a frame.
    fn decode_last(&mut self, buf: &mut Bytes) -> Result<Option<Bytes>, Error> {
        let before = buf.len();
        let frame = self.decode(buf)?;
        if frame.is_some() || buf.len() < before || buf.is_empty() {
            return Ok(frame);
        }
        let unread = buf.len();
        buf.clear();
        Err(Error::new(FrameError::CutOff { codec: CODEC, unread }))
    }
}

/// Writes [`Bytes`] after their length as a varint; other messages are passed on. Long messages are not copied.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::VarintPrepender;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("frames", VarintPrepender)?;
///     Ok(())
/// })?;
/// channel.write_outbound(Bytes::from_static(b"hello")).join()?;
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "\x05hello");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct VarintPrepender;

fn put_varint(length: usize, dst: &mut BytesMut) -> HandlerResult {
    let Ok(mut rest) = u32::try_from(length) else {
        return Err(Error::new(FrameError::LongVarint));
    };
    while rest >= 0x80 {
        dst.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    dst.put_u8(rest as u8);
    Ok(())
}

impl Handler for VarintPrepender {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::transparent().outbound(TypeTag::list::<Bytes>(), TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.into_bytes() {
            Ok(message) => write_frame(ctx, message, done, put_varint),
            Err(other) => {
                ctx.write_with(other, done.take());
                Ok(())
            }
        }
    }
}
