//! The buffer that encoders write to.

use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_executor::Error;

use crate::pipeline::handler::HandlerResult;

/// The number of bytes allocated at once: enough for some dozens of small messages.
const BLOCK_SIZE: usize = 4 * 1024;

/// A reusable buffer for encoded messages, which are placed one after the other in blocks of memory. For
/// handlers that encode several message types; for one type, [`Encode`](crate::Encode) has its own.
///
/// ```
/// use bytes::BufMut;
/// use waterwheel_channel::EncodeBuffer;
/// use waterwheel_executor::Error;
///
/// let mut buffer = EncodeBuffer::default();
/// let bytes = buffer.fill(|dst| {
///     dst.put_slice(b"hello");
///     Ok(())
/// })?;
/// assert_eq!(bytes, "hello");
/// let failed = buffer.fill(|dst| {
///     dst.put_slice(b"half a message");
///     Err(Error::new("cannot be encoded"))
/// });
/// assert!(failed.is_err());
/// assert_eq!(buffer.fill(|_| Ok(()))?, "", "the bytes of the failed message were dropped");
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Default)]
pub struct EncodeBuffer {
    /// Empty between messages; its spare capacity is for the next ones.
    buf: BytesMut,
}

impl EncodeBuffer {
    /// Calls `encode` with an empty buffer, and returns the bytes it appended.
    ///
    /// # Errors
    /// The error of `encode`; the bytes it appended are dropped.
    #[inline]
    pub fn fill(
        &mut self,
        encode: impl FnOnce(&mut BytesMut) -> HandlerResult,
    ) -> Result<Bytes, Error> {
        if self.buf.capacity() == 0 {
            self.buf.reserve(BLOCK_SIZE);
        }
        if let Err(error) = encode(&mut self.buf) {
            self.buf.clear();
            return Err(error);
        }
        // A large message takes the buffer with it: otherwise the large buffer would live as long as the channel.
        let is_large = self.buf.len() > BLOCK_SIZE;
        let bytes = if is_large { mem::take(&mut self.buf) } else { self.buf.split() };
        Ok(bytes.freeze())
    }
}
