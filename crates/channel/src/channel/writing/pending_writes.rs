//! Completions of pending writes. An outbound buffer keeps them beside its bytes, once there are any.
//!
//! ```text
//!   entries      [ a: completion ] [ b, c: none ] [ d: completion ]   flushed_run   unflushed_run
//!                ◄────── flushed ────────────────►                    no completions after the entries
//! ```

use std::collections::VecDeque;
use std::mem;

use waterwheel_executor::Error;

use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::writing::drop_queue::DropQueue;
use crate::channel::writing::stream_pieces::StreamPieces;
use crate::driver::OutQueue;
use crate::payload::AncillaryMessage;
use crate::pipeline::{Completion, Message, Msg};

/// The completions of a channel's writes, in order; and the parts of a stream that are not bytes.
#[derive(Default)]
pub(super) struct PendingWrites {
    /// The files and ancillary messages of a stream, and the bytes after them.
    pub(super) parts: StreamPieces,
    /// Written bytes minus removed pending bytes, for files and file descriptors. Wraps if it is negative.
    pub(super) surplus: usize,
    /// The messages for a transport that writes messages, each with its pending size. The size is asked once, where
    /// no cell of the channel is borrowed.
    pub(super) messages: VecDeque<(Msg, usize)>,
    /// The writes, in the same order.
    pub(super) entries: VecDeque<PendingWriteEntry>,
    /// The number of flushed entries.
    pub(super) flushed: usize,
    /// Writes without a completion that follow the last entry: first the flushed, then the unflushed ones.
    pub(super) flushed_run: WriteRun,
    pub(super) unflushed_run: WriteRun,
    /// True if an unflushed write has a completion, and so may have been cancelled.
    pub(super) has_awaited: bool,
    /// True if something was removed, even with a pending size of zero.
    pub(super) has_progress: bool,
    /// The completions of writes that are done or failed, with their results. They wait to be called.
    pub(super) completions: CompletionResults,
}

/// Consecutive writes, as far as they are not written yet.
#[derive(Clone, Copy, Default)]
pub(super) struct WriteRun {
    /// The bytes to be written, or the pending size. A file in a stream keeps its pending size until it is
    /// sent.
    pub(super) left: usize,
    /// The number of byte chunks, files or messages.
    pub(super) pieces: usize,
}

impl WriteRun {
    #[inline]
    pub(super) fn add(&mut self, other: WriteRun) {
        self.left = self.left.saturating_add(other.left);
        self.pieces += other.pieces;
    }

    /// Removes one message.
    pub(super) fn take_piece(&mut self, size: usize) {
        self.left = self.left.saturating_sub(size);
        self.pieces -= 1;
    }
}

/// One write with a completion, or consecutive writes without.
pub(super) struct PendingWriteEntry {
    pub(super) run: WriteRun,
    pub(super) done: Completion,
}

/// Completions with their results, in the order of the writes.
pub(crate) type CompletionResults = VecDeque<(Completion, Result<(), Error>)>;

impl PendingWrites {
    /// Returns the number of flushed messages, at most `max`.
    pub(super) fn flushed_messages(&self, max: usize) -> usize {
        let mut flushed = 0;
        for entry in self.entries.iter().take(self.flushed) {
            flushed += entry.run.pieces;
            if flushed >= max {
                return max;
            }
        }
        max.min(flushed + self.flushed_run.pieces)
    }

    /// True if the next write has a completion.
    pub(super) fn is_front_awaited(&self) -> bool {
        self.flushed > 0 && self.entries.front().is_some_and(|entry| !entry.done.is_none())
    }

    /// Removes `n` written bytes. Returns the pending bytes that this has freed.
    pub(super) fn advance(
        &mut self,
        front: &mut OutQueue,
        n: usize,
        drop_queue: &mut DropQueue,
    ) -> usize {
        let freed = self.parts.advance(front, n, drop_queue);
        if freed != n {
            self.surplus = self.surplus.wrapping_add(n).wrapping_sub(freed);
            self.has_progress = true;
        }
        self.wrote(freed);
        freed
    }

    /// Removes the ancillary message that is next in a stream.
    pub(super) fn take_ancillary(&mut self, front: &mut OutQueue) -> Option<AncillaryMessage> {
        let ancillary = self.parts.take_ancillary(front)?;
        let freed = ancillary.size_hint();
        self.surplus = self.surplus.wrapping_sub(freed); // None of it was written.
        self.has_progress = true;
        self.wrote(freed);
        Some(ancillary)
    }

    pub(super) fn wrote(&mut self, mut n: usize) {
        while self.flushed > 0
            && let Some(entry) = self.entries.front_mut()
        {
            if n < entry.run.left {
                entry.run.left -= n;
                return;
            }
            n -= entry.run.left;
            self.finish_front();
        }
        if n > 0 {
            self.flushed_run.left -= n;
            if self.flushed_run.left == 0 {
                self.flushed_run.pieces = 0;
            }
        }
    }

    pub(super) fn push_message(&mut self, msg: Msg, size: usize, done: Completion) {
        self.messages.push_back((msg, size));
        self.push(WriteRun { left: size, pieces: 1 }, done);
    }

    pub(super) fn finish_front(&mut self) {
        if let Some(PendingWriteEntry { done, .. }) = self.entries.pop_front() {
            self.flushed -= 1;
            self.has_progress = true;
            if !done.is_none() {
                self.completions.push_back((done, Ok(())));
            }
        }
    }

    pub(super) fn push(&mut self, run: WriteRun, done: Completion) {
        if done.is_none() {
            self.unflushed_run.add(run);
        } else {
            self.move_runs_to_entries();
            self.entries.push_back(PendingWriteEntry { run, done });
            self.has_awaited = true;
        }
    }

    /// Marks the unflushed writes as begun: from now on they cannot be cancelled. Returns true if one was cancelled
    /// before.
    pub(super) fn begin_unflushed(&mut self) -> bool {
        let mut has_cancelled = false;
        if mem::take(&mut self.has_awaited) {
            for entry in self.entries.range_mut(self.flushed..) {
                has_cancelled |= !entry.done.begin();
            }
        }
        has_cancelled
    }

    /// Shrinks the queues after a burst.
    pub(super) fn shrink_if_empty(&mut self) {
        shrink_if_empty(&mut self.entries);
        shrink_if_empty(&mut self.messages);
        self.parts.shrink_if_empty();
    }

    /// Moves the runs without completions to the entries, because a write with a completion follows, or before
    /// they are split.
    pub(super) fn move_runs_to_entries(&mut self) {
        let runs = [(mem::take(&mut self.flushed_run), 1), (mem::take(&mut self.unflushed_run), 0)];
        for (run, flushed) in runs.into_iter().filter(|(run, _)| run.pieces > 0) {
            self.entries.push_back(PendingWriteEntry { run, done: Completion::none() });
            self.flushed += flushed;
        }
    }
}
