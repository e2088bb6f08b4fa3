//! Room for what is encoded.

use std::mem;

use bytes::{Bytes, BytesMut};
use waterwheel_executor::Error;

use crate::pipeline::handler::HandlerResult;

/// How much is allocated at once for what is encoded: some dozens of small messages.
const BLOCK_SIZE: usize = 4 * 1024;

/// Room for what is encoded, used again: messages lie one behind the other in blocks. For handlers that
/// encode messages of several types; of one type, [`Encode`](crate::Encode) does.
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
///     dst.put_slice(b"half of it");
///     Err(Error::new("cannot be encoded"))
/// });
/// assert!(failed.is_err());
/// assert_eq!(buffer.fill(|_| Ok(()))?, "", "nothing is left of it");
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Default)]
pub struct EncodeBuffer {
    /// Empty between messages; the room behind it is for the next ones.
    buf: BytesMut,
}

impl EncodeBuffer {
    /// What `encode` puts at the end of the buffer it is given, which is empty.
    ///
    /// # Errors
    /// What `encode` says; what it has put there is dropped.
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
        // A big message takes its buffer along: kept, it would be as big for as long as the channel.
        let big = self.buf.len() > BLOCK_SIZE;
        let bytes = if big { mem::take(&mut self.buf) } else { self.buf.split() };
        Ok(bytes.freeze())
    }
}
