//! The queue of bytes that a stream writes: flushed and unflushed chunks.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

use crate::base::queue_capacity::has_excess_capacity;

/// The chunks of bytes that a stream writes, in order. The loop owns the queue; a driver sees the flushed chunks only,
/// and a completion driver keeps clones of the chunks until the kernel has finished with them.
#[derive(Debug, Default)]
pub struct OutQueue {
    /// The first chunk, usually the only one.
    first: Option<Bytes>,
    /// The chunks after the first; `None` until a second chunk is queued.
    rest: Option<Box<Rest>>,
    /// The number of flushed chunks, `first` included. Unflushed chunks are not written yet.
    flushed_chunks: usize,
    /// The number of flushed bytes.
    flushed_bytes: usize,
    /// The number of unflushed bytes.
    unflushed_bytes: usize,
}

/// The chunks after the first. None is empty, and the list is empty if there is no first chunk.
#[derive(Debug, Default)]
struct Rest {
    chunks: VecDeque<Bytes>,
}

impl OutQueue {
    /// Creates an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { first: None, rest: None, flushed_chunks: 0, flushed_bytes: 0, unflushed_bytes: 0 }
    }

    /// Returns the number of flushed bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.flushed_bytes
    }

    /// True if there are no flushed bytes. Unflushed chunks may be queued.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flushed_bytes == 0
    }

    /// Appends a chunk and flushes the queue, so that the chunk may be written.
    pub fn push(&mut self, chunk: Bytes) {
        self.push_unflushed(chunk);
        self.flush();
    }

    /// Appends a chunk that must not be written before the next flush. An empty chunk is dropped.
    #[inline(always)]
    pub(crate) fn push_unflushed(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.unflushed_bytes += chunk.len();
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

    /// Marks all chunks as flushed: they may be written.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.flushed_bytes += std::mem::take(&mut self.unflushed_bytes);
        self.flushed_chunks = self.chunk_count();
    }

    #[inline]
    fn chunk_count(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.chunks.len());
        usize::from(self.first.is_some()) + rest
    }

    /// Returns (bytes, chunks) of the flushed part, then of the unflushed part.
    pub(crate) fn flushed_and_unflushed(&self) -> [(usize, usize); 2] {
        [
            (self.flushed_bytes, self.flushed_chunks),
            (self.unflushed_bytes, self.chunk_count() - self.flushed_chunks),
        ]
    }

    fn pop_rest(&mut self) -> Option<Bytes> {
        self.rest.as_mut()?.chunks.pop_front()
    }

    /// Splits off the unflushed chunks. They are unflushed in the returned queue too.
    pub(crate) fn split_unflushed(&mut self) -> OutQueue {
        let from = self.flushed_chunks.saturating_sub(1);
        let rest = self.rest.as_mut().map(|rest| rest.chunks.split_off(from));
        let rest = rest.map(|chunks| Box::new(Rest { chunks }));
        let unflushed_bytes = std::mem::take(&mut self.unflushed_bytes);
        let mut split = OutQueue { rest, unflushed_bytes, ..OutQueue::new() };
        split.first = if self.flushed_chunks == 0 { self.first.take() } else { split.pop_rest() };
        split
    }

    /// Returns all chunks, flushed or not.
    pub(crate) fn into_chunks(self) -> impl Iterator<Item = Bytes> {
        self.first.into_iter().chain(self.rest.unwrap_or_default().chunks)
    }

    /// Iterates over the flushed chunks, in order; none is empty.
    pub fn chunks(&self) -> impl Iterator<Item = &Bytes> {
        let rest = self.rest.iter().flat_map(|rest| &rest.chunks);
        self.first.iter().chain(rest).take(self.flushed_chunks)
    }

    /// Returns the flushed chunk if there is exactly one.
    #[must_use]
    #[inline]
    pub fn only_chunk(&self) -> Option<&Bytes> {
        self.first.as_ref().filter(|_| self.flushed_chunks == 1)
    }

    /// Fills `slices` with the flushed chunks, from the front. Returns the number filled.
    pub fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(self.chunks());
        filled.map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count()
    }

    /// Removes the first `n` flushed bytes, because they were written.
    ///
    /// # Panics
    /// If fewer bytes are flushed: then the driver has reported a wrong number.
    pub fn advance(&mut self, n: usize) {
        self.advance_with(n, drop);
        drop(self.take_written_chunk());
    }

    /// Removes the first `n` flushed bytes, and hands each chunk that was written completely to `on_written`: its
    /// destructor may be the user's, and must not run while the queue is borrowed. If the queue has only one chunk, the
    /// written chunk stays until [`take_written_chunk`](Self::take_written_chunk); nothing may be appended before that.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    #[inline]
    pub(crate) fn advance_with(&mut self, n: usize, mut on_written: impl FnMut(Bytes)) {
        if !self.finish_only_chunk(n) {
            self.advance_by_chunks(n, &mut on_written);
        }
    }

    /// Marks the chunk as written if the queue has only one and `n` covers all of it. The written chunk stays until
    /// [`take_written_chunk`](Self::take_written_chunk); nothing may be appended before that.
    #[inline]
    pub(crate) fn finish_only_chunk(&mut self, n: usize) -> bool {
        let is_whole = n == self.flushed_bytes && self.flushed_chunks == 1 && self.rest.is_none();
        if is_whole {
            (self.flushed_chunks, self.flushed_bytes) = (0, 0);
        }
        is_whole
    }

    /// True if there is no chunk, neither flushed nor unflushed nor written.
    #[inline]
    pub(crate) fn has_no_chunk(&self) -> bool {
        self.first.is_none()
    }

    /// True if there is exactly one chunk, and it is flushed.
    #[inline]
    pub(crate) fn is_single_flushed_chunk(&self) -> bool {
        // No chunk is empty: without unflushed bytes there is no other one.
        self.flushed_chunks == 1 && self.unflushed_bytes == 0
    }

    /// Removes and returns the only chunk, because it was written.
    #[inline]
    pub(crate) fn take_single_chunk(&mut self) -> Option<Bytes> {
        (self.flushed_chunks, self.flushed_bytes) = (0, 0);
        self.first.take()
    }

    /// True if several chunks are flushed, `n` covers all of their bytes, and no chunk is unflushed.
    #[inline]
    pub(crate) fn covers_several_flushed_chunks(&self, n: usize) -> bool {
        n == self.flushed_bytes && self.unflushed_bytes == 0 && self.flushed_chunks > 1
    }

    /// Moves all chunks to the end of a list, because they were written.
    pub(crate) fn move_all_chunks(&mut self, to: &mut VecDeque<Bytes>) {
        (self.flushed_chunks, self.flushed_bytes) = (0, 0);
        to.extend(self.first.take());
        if let Some(rest) = &mut self.rest {
            to.append(&mut rest.chunks);
            if has_excess_capacity(&rest.chunks) {
                self.rest = None;
            }
        }
    }

    /// Removes and returns the only chunk after it was written. Every unwritten chunk counts in `flushed_bytes` or
    /// `unflushed_bytes`, so both are zero only if the chunk was written.
    #[inline]
    pub(crate) fn take_written_chunk(&mut self) -> Option<Bytes> {
        if self.flushed_bytes + self.unflushed_bytes == 0 { self.first.take() } else { None }
    }

    #[inline(never)]
    fn advance_by_chunks(&mut self, mut n: usize, on_written: &mut dyn FnMut(Bytes)) {
        assert!(
            n <= self.flushed_bytes,
            "the driver reported {n} bytes written, but only {} were queued",
            self.flushed_bytes
        );
        self.flushed_bytes -= n;
        while self.flushed_chunks > 0
            && let Some(first) = &mut self.first
        {
            if n < first.len() {
                first.advance(n);
                return;
            }
            n -= first.len();
            let next = self.pop_rest();
            if let Some(whole) = std::mem::replace(&mut self.first, next) {
                on_written(whole);
            }
            self.flushed_chunks -= 1;
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
    fn advance_removes_written_bytes_across_chunks() {
        for n in 0..=6 {
            let mut queue = queue();
            queue.advance(n);
            let left: Vec<u8> = queue.chunks().flatten().copied().collect();
            assert_eq!((left.as_slice(), queue.len()), (&b"abcdef"[n..], 6 - n));
        }
    }

    #[test]
    fn unflushed_chunks_are_not_written() {
        let mut queue = queue();
        queue.push_unflushed(Bytes::from_static(b"later"));
        queue.push_unflushed(Bytes::new());
        assert_eq!((queue.len(), queue.chunks().count()), (6, 3));
        queue.advance(6);
        assert!(queue.is_empty());
        queue.flush();
        assert_eq!((queue.len(), queue.chunks().count()), (5, 1));
    }

    #[test]
    fn split_unflushed_works_at_every_position() {
        for flushed in 0..=4 {
            let mut queue = OutQueue::new();
            let chunks = [&b"a"[..], b"b", b"c", b"d"];
            let (before, after) = chunks.split_at(flushed);
            before.iter().for_each(|chunk| queue.push(Bytes::from_static(chunk)));
            after.iter().for_each(|chunk| queue.push_unflushed(Bytes::from_static(chunk)));
            let rest = queue.split_unflushed();
            assert_eq!((queue.len(), rest.unflushed_bytes, rest.len()), (flushed, 4 - flushed, 0));
            let all: Vec<u8> = queue.into_chunks().chain(rest.into_chunks()).flatten().collect();
            assert_eq!(all, b"abcd", "after {flushed}");
        }
    }

    #[test]
    fn fill_starts_at_the_front_and_skips_empty_chunks() {
        let queue = queue();
        let mut slices = [IoSlice::new(b""); 2];
        assert_eq!(queue.fill(&mut slices), 2);
        assert_eq!((&*slices[0], &*slices[1]), (&b"abc"[..], &b"de"[..]));
        let mut slices = [IoSlice::new(b""); 8];
        assert_eq!(queue.fill(&mut slices), 3);
    }

    #[test]
    #[should_panic(expected = "reported 7 bytes written, but only 6 were queued")]
    fn advancing_beyond_the_end_panics() {
        queue().advance(7);
    }
}
