//! Who waits for which write: what an outbound buffer keeps beside the bytes, once it has to.
//!
//! ```text
//!   entries      [ a: somebody ] [ b, c: nobody ] [ d: somebody ]   flushed_run   held_run
//!                ◄────── flushed ───────────────►                   nobody waits for what is behind
//! ```

use std::collections::VecDeque;
use std::mem;

use waterwheel_executor::Error;

use crate::channel::writing::drop_queue::DropQueue;
use crate::channel::writing::stream_pieces::StreamPieces;
use crate::driver::OutQueue;
use crate::payload::AncillaryMessage;
use crate::pipeline::{Completion, Message, Msg};
use crate::queue_capacity::shrink_if_empty;

/// Who waits for what of a channel's writes; and of a stream, what is not bytes.
#[derive(Default)]
pub(super) struct PendingWrites {
    /// Of a stream, and what follows them.
    pub(super) parts: StreamPieces,
    /// What left with files and descriptors is so much more than they weighed; it wraps, if they weighed more.
    pub(super) surplus: usize,
    /// For a transport that writes messages: each with what it weighs. Asked once, where nothing is
    /// borrowed.
    pub(super) messages: VecDeque<(Msg, usize)>,
    /// Who waits for what, in the same order.
    pub(super) entries: VecDeque<PendingWrite>,
    /// How many of the entries were flushed.
    pub(super) flushed: usize,
    /// Behind all entries: what was flushed, then what is held. Nobody waits for these.
    pub(super) flushed_run: WriteRun,
    pub(super) held_run: WriteRun,
    /// Somebody waits for one of those that were not flushed, and could have cancelled it.
    pub(super) has_awaited: bool,
    /// Something has left, if it weighs nothing too.
    pub(super) has_progress: bool,
    /// Written, or failed, and to be told.
    pub(super) completions: CompletionResults,
}

/// Messages in a row, as far as they are still to be written.
#[derive(Clone, Copy, Default)]
pub(super) struct WriteRun {
    /// How many bytes of them are to be written, or how much they weigh; files of a stream weigh the same
    /// until they are sent.
    pub(super) left: usize,
    /// How many chunks of bytes, files, or messages, they are.
    pub(super) pieces: usize,
}

impl WriteRun {
    #[inline]
    pub(super) fn add(&mut self, other: WriteRun) {
        self.left = self.left.saturating_add(other.left);
        self.pieces += other.pieces;
    }

    /// One message is gone.
    pub(super) fn take_piece(&mut self, size: usize) {
        self.left = self.left.saturating_sub(size);
        self.pieces -= 1;
    }
}

/// One message that somebody waits for, or several in a row that nobody does.
pub(super) struct PendingWrite {
    pub(super) run: WriteRun,
    pub(super) done: Completion,
}

/// In the order of the writes; those that nobody waits for are not here.
pub(crate) type CompletionResults = VecDeque<(Completion, Result<(), Error>)>;

impl PendingWrites {
    /// How many messages are to be written now, as far as it matters.
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

    /// Whether somebody waits for what is to be written next.
    pub(super) fn is_front_awaited(&self) -> bool {
        self.flushed > 0 && self.entries.front().is_some_and(|entry| !entry.done.is_none())
    }

    /// So much was written; how much lighter what is left is now.
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

    /// Takes the ancillary message out that is next in a stream.
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
        if let Some(PendingWrite { done, .. }) = self.entries.pop_front() {
            self.flushed -= 1;
            self.has_progress = true;
            if !done.is_none() {
                self.completions.push_back((done, Ok(())));
            }
        }
    }

    pub(super) fn push(&mut self, run: WriteRun, done: Completion) {
        if done.is_none() {
            self.held_run.add(run);
        } else {
            self.move_runs_to_entries();
            self.entries.push_back(PendingWrite { run, done });
            self.has_awaited = true;
        }
    }

    /// Gives back the room that a burst has taken, if it is over.
    pub(super) fn shrink_if_empty(&mut self) {
        shrink_if_empty(&mut self.entries);
        shrink_if_empty(&mut self.messages);
        self.parts.shrink_if_empty();
    }

    /// Puts what nobody waits for among the entries: something comes behind it that somebody waits for,
    /// or it is to be taken apart.
    pub(super) fn move_runs_to_entries(&mut self) {
        let runs = [(mem::take(&mut self.flushed_run), 1), (mem::take(&mut self.held_run), 0)];
        for (run, flushed) in runs.into_iter().filter(|(run, _)| run.pieces > 0) {
            self.entries.push_back(PendingWrite { run, done: Completion::none() });
            self.flushed += flushed;
        }
    }
}
