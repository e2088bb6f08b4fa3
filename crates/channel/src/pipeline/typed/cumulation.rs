//! Unread bytes, kept until the rest of a message arrives.
//!
//! 1. While there are no unread bytes, new bytes are decoded in place, without a copy.
//! 2. A few unread bytes are copied, so that they do not keep the whole block they were read into alive; many unread
//!    bytes stay where they are.
//! 3. A message that arrives in many pieces is assembled in one growing buffer: each byte is copied a few times at
//!    most, however many pieces there are.

use std::mem;

use bytes::{Bytes, BytesMut};

/// Up to this many unread bytes are copied: a sixteenth of a block of 64 KiB.
const MAX_COPIED: usize = 4 * 1024;

/// Unread bytes up to this fraction (1/16) of an assembled buffer are copied too: so bytes that are kept without a copy
/// are at least a sixteenth of the memory that they keep from being freed.
const MAX_COPIED_FRACTION: usize = 16;

/// Bytes that a handler has received and not used yet. [`Decode`](crate::Decode) has one for its decoder; a handler
/// that is no decoder uses its own, for example to look at the first bytes of a connection.
///
/// Bytes are not copied while nothing is kept, and a few times at most if they arrive in many pieces.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::Cumulation;
///
/// let mut unread = Cumulation::default();
/// let mut seen = unread.append(Bytes::from_static(b"first, sec"));
/// assert_eq!(seen.split_to(7), "first, ");
/// unread.keep(seen);
/// assert_eq!(unread.append(Bytes::from_static(b"ond")), "second");
/// ```
#[derive(Debug, Default)]
pub struct Cumulation {
    /// Unread bytes where they were read.
    slice: Bytes,
    /// Unread bytes in a buffer of their own. Either this or `slice` is empty.
    owned: BytesMut,
    /// Length of the buffer that the last `append` assembled; 0 if `append` returned the new bytes as they were.
    appended_len: usize,
}

impl Cumulation {
    /// Returns the kept bytes followed by the new ones, in one piece. Nothing is kept any more.
    #[inline]
    #[must_use]
    pub fn append(&mut self, new: Bytes) -> Bytes {
        if self.slice.is_empty() && self.owned.is_empty() {
            self.appended_len = 0;
            return new;
        }
        self.append_to_kept(new)
    }

    fn append_to_kept(&mut self, new: Bytes) -> Bytes {
        let (slice, mut owned) = (mem::take(&mut self.slice), mem::take(&mut self.owned));
        self.appended_len = slice.len() + owned.len() + new.len();
        if owned.is_empty() {
            owned = growable_buffer(self.appended_len);
            owned.extend_from_slice(&slice);
        }
        owned.extend_from_slice(&new);
        owned.freeze()
    }

    /// Keeps the bytes that were left unread of the last [`append`](Self::append), which has taken the bytes that were
    /// kept before.
    pub fn keep(&mut self, left: Bytes) {
        debug_assert!(
            self.slice.is_empty() && self.owned.is_empty(),
            "bytes are kept already: take or append them before others are kept"
        );
        let is_growing = left.len() == self.appended_len;
        let max_copied = MAX_COPIED.max(self.appended_len / MAX_COPIED_FRACTION);
        self.appended_len = 0;
        if left.is_empty() {
            return;
        }
        if left.len() <= max_copied && !is_growing {
            self.owned = growable_buffer(2 * left.len());
            self.owned.extend_from_slice(&left);
            return;
        }
        match left.try_into_mut() {
            Ok(owned) if is_growing => self.owned = owned,
            Ok(read) => self.slice = read.freeze(),
            Err(shared) => self.slice = shared,
        }
    }

    /// Takes the kept bytes.
    #[must_use]
    pub fn take(&mut self) -> Bytes {
        let slice = mem::take(&mut self.slice);
        if slice.is_empty() { mem::take(&mut self.owned).freeze() } else { slice }
    }
}

fn growable_buffer(capacity: usize) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(capacity);
    // Makes the buffer reference-counted from the start, so that freezing it and thawing it again allocates nothing.
    drop(buffer.split_to(0));
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c06_bytes_decoded_as_a_whole_are_not_copied() {
        let mut kept = Cumulation::default();
        let read = Bytes::from(vec![7; 100]);
        let appended = kept.append(read.clone());
        assert_eq!(appended.as_ptr(), read.as_ptr());
        kept.keep(appended.slice(100..));
        assert_eq!(kept.append(read.clone()).as_ptr(), read.as_ptr(), "there were no unread bytes");
    }

    #[test]
    fn c06_few_unread_bytes_do_not_keep_their_block_alive() {
        let mut kept = Cumulation::default();
        let block = Bytes::from(vec![7; 64 * 1024]);
        let mut appended = kept.append(block.clone());
        let _message = appended.split_to(appended.len() - MAX_COPIED);
        kept.keep(appended);
        drop(_message);
        assert!(block.is_unique(), "the unread bytes were copied");

        let mut appended = kept.append(block.clone());
        assert_eq!(appended.len(), MAX_COPIED + block.len());
        let mut appended = appended.split_off(MAX_COPIED);
        let _message = appended.split_to(1);
        kept.keep(appended);
        assert_eq!(kept.take().len(), block.len() - 1);
    }

    #[test]
    fn k14_unread_bytes_after_a_large_message_do_not_keep_its_memory() {
        let mut kept = Cumulation::default();
        kept.keep(Bytes::from(vec![7; 1 << 20]));
        let mut appended = kept.append(Bytes::from(vec![7; 1 << 10]));
        let message = appended.split_to(appended.len() - 2 * MAX_COPIED);
        kept.keep(appended);
        assert!(message.is_unique(), "the unread bytes were copied");
        assert_eq!(kept.take().len(), 2 * MAX_COPIED);
    }

    #[test]
    fn c06_many_unread_bytes_are_not_copied() {
        let mut kept = Cumulation::default();
        let block = Bytes::from(vec![7; 64 * 1024]);
        let appended = kept.append(block.clone());
        kept.keep(appended.slice(1..));
        drop(appended);
        assert!(!block.is_unique());
        assert_eq!(kept.slice.as_ptr(), block[1..].as_ptr());
    }

    #[test]
    fn c06_a_message_in_many_pieces_grows_in_one_buffer() {
        let mut kept = Cumulation::default();
        let mut moves = 0;
        let mut last = std::ptr::null();
        for n in 1..=100_000usize {
            let appended = kept.append(Bytes::from_static(b"x"));
            assert_eq!(appended.len(), n);
            moves += usize::from(appended.as_ptr() != last);
            last = appended.as_ptr();
            kept.keep(appended);
        }
        assert!(moves < 40, "the buffer moved {moves} times");
        assert!(kept.take().iter().all(|byte| *byte == b'x'));
        assert!(kept.take().is_empty());
    }
}
