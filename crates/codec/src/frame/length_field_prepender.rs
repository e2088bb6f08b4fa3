//! Writes frames with a length field (K01).

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Msg, Signature, TypeTag,
};
use waterwheel_executor::Error;

use crate::frame::length_field::{InvalidLengthField, LengthField};
use crate::frame::length_field_decoder::LengthFieldError;
use crate::frame::parts::write_frame;

/// Writes [`Bytes`] after their length. Created by [`LengthField::prepender`]; other messages are passed on.
///
/// Short messages are copied into one buffer with their header; long ones are not copied.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_codec::LengthField;
/// use waterwheel_testkit::embedded::Embedded;
///
/// let frames = LengthField::new(1).offset(1).max_frame(8);
/// let prepender = frames.prepender()?.header(b"#")?;
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("frames", prepender)?;
///     Ok(())
/// })?;
/// channel.write_outbound(Bytes::from_static(b"hello")).join()?;
/// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "#\x05hello");
/// let refused = channel.write_outbound(Bytes::from_static(b"goodbye")).join();
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "length field: a frame has 9 bytes; at most 8 are allowed"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LengthFieldPrepender {
    shape: LengthField,
    header: Bytes,
}

impl LengthFieldPrepender {
    pub(crate) fn new(shape: LengthField) -> Self {
        let header = Bytes::from(vec![0; shape.offset]);
        Self { shape, header }
    }

    /// Sets the bytes before the field, as many as the offset. Default: zeros.
    ///
    /// # Errors
    /// The number of bytes differs from the offset.
    pub fn header(mut self, header: impl AsRef<[u8]>) -> Result<Self, InvalidLengthField> {
        let header = header.as_ref();
        if header.len() != self.shape.offset {
            let (given, offset) = (header.len(), self.shape.offset);
            return Err(InvalidLengthField::PrependerHeader { given, offset });
        }
        self.header = Bytes::copy_from_slice(header);
        Ok(self)
    }

    /// Appends the header of a message of `length` bytes to `dst`.
    ///
    /// # Errors
    /// The frame would be too long, or the field cannot hold its length; nothing is written.
    pub fn put_header(&self, length: usize, dst: &mut BytesMut) -> Result<(), LengthFieldError> {
        put_header(&self.shape, &self.header, length, dst)
    }
}

fn put_header(
    shape: &LengthField,
    header: &[u8],
    length: usize,
    dst: &mut BytesMut,
) -> Result<(), LengthFieldError> {
    let LengthField { width, adjustment, max_frame: limit, .. } = *shape;
    let frame = length as u64 + shape.header() as u64;
    if frame > limit as u64 {
        return Err(LengthFieldError::TooLong { length: frame, limit });
    }
    let value = u64::try_from(length as i128 - i128::from(adjustment));
    let Some(value) = value.ok().filter(|value| *value <= shape.max_value()) else {
        return Err(LengthFieldError::NoValue { length, adjustment, width });
    };
    dst.reserve(shape.header());
    dst.put_slice(header);
    shape.put(value, dst);
    Ok(())
}

impl Handler for LengthFieldPrepender {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::transparent().outbound(TypeTag::list::<Bytes>(), TypeTag::list::<Bytes>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let payload = match msg.into_bytes() {
            Ok(payload) => payload,
            Err(other) => {
                ctx.write_with(other, done.take());
                return Ok(());
            }
        };
        let Self { shape, header } = self;
        write_frame(ctx, payload, done, |length, dst| {
            put_header(shape, header, length, dst).map_err(Error::new)
        })
    }
}
