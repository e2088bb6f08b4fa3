//! Bytes on their way out.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// The bytes that a stream is to write, in order. The loop owns it; a driver looks at it to write,
/// and a completion driver keeps clones of its chunks until the kernel is through with them.
#[derive(Debug, Default)]
pub struct OutQueue {
    /// None of them empty.
    chunks: VecDeque<Bytes>,
    /// How many of them may be written; the others are held back until they are flushed.
    released: usize,
    /// How many bytes may be written.
    len: usize,
    /// How many are held back.
    held: usize,
}

impl OutQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { chunks: VecDeque::new(), released: 0, len: 0, held: 0 }
    }

    /// How many bytes wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a chunk, to be written.
    pub fn push(&mut self, chunk: Bytes) {
        self.hold(chunk);
        self.release();
    }

    /// Appends a chunk that is not to be written yet. `false` if it is empty, and was left out.
    #[inline]
    pub(crate) fn hold(&mut self, chunk: Bytes) -> bool {
        let something = !chunk.is_empty();
        if something {
            self.held += chunk.len();
            self.chunks.push_back(chunk);
        }
        something
    }

    /// What was held back is to be written.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.len += std::mem::take(&mut self.held);
        self.released = self.chunks.len();
    }

    /// Takes out what is held back; there too it is held.
    pub(crate) fn split_held(&mut self) -> OutQueue {
        let chunks = self.chunks.split_off(self.released);
        OutQueue { chunks, held: std::mem::take(&mut self.held), ..OutQueue::new() }
    }

    /// All chunks, held back or not.
    pub(crate) fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        self.chunks.into_iter()
    }

    /// The chunks, in order; none is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        self.chunks.range(..self.released)
    }

    /// Fills `slices` from the front; returns how many are filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(self.chunks());
        filled.map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count()
    }

    /// Takes the first `n` bytes out: they were written.
    ///
    /// # Panics
    /// If there are fewer: a driver that claims to have written them is wrong.
    pub fn advance(&mut self, mut n: usize) {
        assert!(n <= self.len, "{n} bytes written of {}", self.len);
        self.len -= n;
        while self.released > 0
            && let Some(first) = self.chunks.front_mut()
        {
            if n < first.len() {
                first.advance(n);
                return;
            }
            n -= first.len();
            self.chunks.pop_front();
            self.released -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> OutQueue {
        let mut queue = OutQueue::new();
        for chunk in [&b"abc"[..], b"", b"de", b"f"] {
            queue.push(Bytes::from_static(chunk));
        }
        queue
    }

    #[test]
    fn what_was_written_leaves_in_order_across_chunks() {
        for n in 0..=6 {
            let mut queue = queue();
            queue.advance(n);
            let left: Vec<u8> = queue.chunks().flatten().copied().collect();
            assert_eq!((left.as_slice(), queue.len()), (&b"abcdef"[n..], 6 - n));
        }
    }

    #[test]
    fn what_is_held_back_is_not_to_be_written_yet() {
        let mut queue = queue();
        assert!(queue.hold(Bytes::from_static(b"later")) && !queue.hold(Bytes::new()));
        assert_eq!((queue.len(), queue.chunks().count()), (6, 3));
        queue.advance(6);
        assert!(queue.is_empty());
        queue.release();
        assert_eq!((queue.len(), queue.chunks().count()), (5, 1));
    }

    #[test]
    fn slices_begin_at_the_front_and_skip_what_is_empty() {
        let queue = queue();
        let mut slices = [IoSlice::new(b""); 2];
        assert_eq!(queue.fill(&mut slices), 2);
        assert_eq!((&*slices[0], &*slices[1]), (&b"abc"[..], &b"de"[..]));
        let mut slices = [IoSlice::new(b""); 8];
        assert_eq!(queue.fill(&mut slices), 3);
    }

    #[test]
    #[should_panic(expected = "7 bytes written of 6")]
    fn more_than_there_is_cannot_have_been_written() {
        queue().advance(7);
    }
}
