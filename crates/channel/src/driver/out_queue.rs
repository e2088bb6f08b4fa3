//! Bytes on their way out.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::queue_capacity::has_excess_capacity;

/// The bytes that a stream is to write, in order. The loop owns it; a driver looks at it to write,
/// and a completion driver keeps clones of its chunks until the kernel is through with them.
#[derive(Debug, Default)]
pub struct OutQueue {
    /// Mostly the only one: it costs no list then, and an idle stream keeps none.
    first: Option<Bytes>,
    /// The others, once there were any.
    rest: Option<Box<Rest>>,
    /// How many of all may be written; the others are held back until they are flushed.
    released: usize,
    /// How many bytes may be written.
    len: usize,
    /// How many are held back.
    held: usize,
}

/// None of them is empty, and there are none if there is no first.
#[derive(Debug, Default)]
struct Rest {
    chunks: VecDeque<Bytes>,
}

impl OutQueue {
    /// An empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: None, rest: None, released: 0, len: 0, held: 0 }
    }

    /// How many bytes wait.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none does.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a chunk, to be written.
    pub fn push(&mut self, chunk: Bytes) {
        self.hold(chunk);
        self.release();
    }

    /// Appends a chunk that is not to be written yet, unless it is empty.
    #[inline(always)]
    pub(crate) fn hold(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.held += chunk.len();
            match self.first {
                None => self.first = Some(chunk),
                Some(_) => self.push_rest(chunk),
            }
        }
    }

    #[inline(never)]
    fn push_rest(&mut self, chunk: Bytes) {
        self.rest.get_or_insert_default().chunks.push_back(chunk);
    }

    /// What was held back is to be written.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.len += std::mem::take(&mut self.held);
        self.released = self.count();
    }

    #[inline]
    fn count(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.chunks.len());
        usize::from(self.first.is_some()) + rest
    }

    /// How many bytes, in how many chunks, are to be written, and how many are held back.
    pub(crate) fn counts(&self) -> [(usize, usize); 2] {
        [(self.len, self.released), (self.held, self.count() - self.released)]
    }

    fn next_first(&mut self) -> Option<Bytes> {
        self.rest.as_mut()?.chunks.pop_front()
    }

    /// Takes out what is held back; there too it is held.
    pub(crate) fn split_held(&mut self) -> OutQueue {
        let from = self.released.saturating_sub(1);
        let rest = self.rest.as_mut().map(|rest| rest.chunks.split_off(from));
        let rest = rest.map(|chunks| Box::new(Rest { chunks }));
        let held = std::mem::take(&mut self.held);
        let mut split = OutQueue { rest, held, ..OutQueue::new() };
        split.first = if self.released == 0 { self.first.take() } else { split.next_first() };
        split
    }

    /// All chunks, held back or not.
    pub(crate) fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        self.first.into_iter().chain(self.rest.unwrap_or_default().chunks)
    }

    /// The chunks, in order; none is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        let rest = self.rest.iter().flat_map(|rest| &rest.chunks);
        self.first.iter().chain(rest).take(self.released)
    }

    /// The bytes, if they are in one chunk.
    #[must_use]
    #[inline]
    pub fn only_chunk(&self) -> Option<&Bytes> {
        self.first.as_ref().filter(|_| self.released == 1)
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
    pub fn advance(&mut self, n: usize) {
        self.advance_with(n, drop);
        drop(self.take_spent());
    }

    /// Takes the first `n` bytes out, and hands each chunk that was written as a whole to `spent`: its
    /// destructor may be the user's, and must not run under a borrow of the queue. One that was alone stays, to
    /// be [taken](Self::take_spent) out before anything is appended.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    #[inline]
    pub(crate) fn advance_with(&mut self, n: usize, mut spent: impl FnMut(Bytes)) {
        if !self.finish_only(n) {
            self.advance_by_chunks(n, &mut spent);
        }
    }

    /// Notes that the only chunk was written as a whole, if that is so. It stays, to be [taken](Self::take_spent)
    /// out before anything is appended.
    #[inline]
    pub(crate) fn finish_only(&mut self, n: usize) -> bool {
        let is_whole = n == self.len && self.released == 1 && self.rest.is_none();
        if is_whole {
            (self.released, self.len) = (0, 0);
        }
        is_whole
    }

    /// True if there is no chunk: none to be written, none held back, none that was written.
    #[inline]
    pub(crate) fn has_no_chunk(&self) -> bool {
        self.first.is_none()
    }

    /// True if there is one chunk, and it is to be written.
    #[inline]
    pub(crate) fn is_one_chunk(&self) -> bool {
        self.released == 1 && self.held == 0 && self.rest.is_none()
    }

    /// Takes out the chunk that is the only one: it was written.
    #[inline]
    pub(crate) fn take_one_chunk(&mut self) -> Option<Bytes> {
        (self.released, self.len) = (0, 0);
        self.first.take()
    }

    /// True if there are several chunks, of `n` bytes in all, and none is held back.
    #[inline]
    pub(crate) fn is_all_of_several(&self, n: usize) -> bool {
        n == self.len && self.held == 0 && self.released > 1
    }

    /// Moves all chunks to the end of a list: they were written.
    pub(crate) fn move_all(&mut self, to: &mut VecDeque<Bytes>) {
        (self.released, self.len) = (0, 0);
        to.extend(self.first.take());
        if let Some(rest) = &mut self.rest {
            to.append(&mut rest.chunks);
            if has_excess_capacity(&rest.chunks) {
                self.rest = None;
            }
        }
    }

    /// Takes the chunk out that was alone and was written. Any other is not empty, and counted.
    #[inline]
    pub(crate) fn take_spent(&mut self) -> Option<Bytes> {
        if self.len + self.held == 0 { self.first.take() } else { None }
    }

    #[inline(never)]
    fn advance_by_chunks(&mut self, mut n: usize, spent: &mut dyn FnMut(Bytes)) {
        assert!(n <= self.len, "{n} bytes written of {}", self.len);
        self.len -= n;
        while self.released > 0
            && let Some(first) = &mut self.first
        {
            if n < first.len() {
                first.advance(n);
                return;
            }
            n -= first.len();
            let next = self.next_first();
            if let Some(whole) = std::mem::replace(&mut self.first, next) {
                spent(whole);
            }
            self.released -= 1;
        }
        if self.first.is_none()
            && self.rest.as_ref().is_some_and(|it| has_excess_capacity(&it.chunks))
        {
            self.rest = None;
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
        queue.hold(Bytes::from_static(b"later"));
        queue.hold(Bytes::new());
        assert_eq!((queue.len(), queue.chunks().count()), (6, 3));
        queue.advance(6);
        assert!(queue.is_empty());
        queue.release();
        assert_eq!((queue.len(), queue.chunks().count()), (5, 1));
    }

    #[test]
    fn what_is_held_back_is_taken_out_wherever_the_mark_is() {
        for released in 0..=4 {
            let mut queue = OutQueue::new();
            let chunks = [&b"a"[..], b"b", b"c", b"d"];
            let (flushed, held) = chunks.split_at(released);
            flushed.iter().for_each(|chunk| queue.push(Bytes::from_static(chunk)));
            held.iter().for_each(|chunk| queue.hold(Bytes::from_static(chunk)));
            let rest = queue.split_held();
            assert_eq!((queue.len(), rest.held, rest.len()), (released, 4 - released, 0));
            let all: Vec<u8> = queue.into_chunks().chain(rest.into_chunks()).flatten().collect();
            assert_eq!(all, b"abcd", "after {released}");
        }
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
