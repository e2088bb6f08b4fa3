//! What waits to be written (C07).
//!
//! ```text
//!   write ──► unflushed ──flush──► flushed ──transport──► gone
//!             message, completion   bytes or messages       completions, in order
//! ```
//!
//! A write that was cancelled before it is flushed is left out; after that it cannot be cancelled.
//! Nothing in here calls anybody: what is done is collected, and told later.

use std::collections::VecDeque;

use waterwheel_executor::Error;

use crate::driver::OutQueue;
use crate::pipeline::{Completion, Msg};

/// The messages of a channel that wait to be written.
#[derive(Default)]
pub(crate) struct Outbound {
    unflushed: VecDeque<Unflushed>,
    pub(crate) flushed: Flushed,
}

struct Unflushed {
    msg: Msg,
    done: Completion,
}

/// What a transport is to write: bytes for one that writes a stream, messages for one that writes
/// messages.
#[derive(Default)]
pub struct Flushed {
    bytes: OutQueue,
    messages: VecDeque<Msg>,
    entries: VecDeque<Entry>,
    /// Written, to be told.
    finished: Finished,
}

/// One or more messages, as far as they are still to be written.
struct Entry {
    /// How many bytes of it are to be written, or how much it weighs.
    left: usize,
    /// How many messages it stands for.
    messages: usize,
    done: Completion,
}

/// What has left the buffer.
#[derive(Default)]
pub(crate) struct Finished {
    /// How many bytes no longer wait.
    pub(crate) bytes: usize,
    /// In the order of the writes; those that nobody waits for are not here.
    pub(crate) completions: VecDeque<(Completion, Result<(), Error>)>,
}

impl Finished {
    fn add(&mut self, bytes: usize, done: Completion, result: Result<(), Error>) {
        self.bytes += bytes;
        if !done.is_none() {
            self.completions.push_back((done, result));
        }
    }
}

impl Outbound {
    /// Appends a message.
    pub(crate) fn push(&mut self, msg: Msg, done: Completion) {
        self.unflushed.push_back(Unflushed { msg, done });
    }

    /// Whether something waits to be handed to the transport.
    pub(crate) fn has_flushed(&self) -> bool {
        !self.flushed.is_empty()
    }

    /// Everything so far is to be written. What was cancelled falls out: how many bytes of it.
    pub(crate) fn flush(&mut self, as_bytes: bool) -> usize {
        let mut cancelled = 0;
        while let Some(Unflushed { msg, mut done }) = self.unflushed.pop_front() {
            if done.begin() {
                self.flushed.push(msg, done, as_bytes);
            } else {
                cancelled += msg.size_hint();
            }
        }
        cancelled
    }

    /// What was written, or has failed, since this was last asked.
    pub(crate) fn take_finished(&mut self) -> Option<Finished> {
        let finished = &mut self.flushed.finished;
        if finished.bytes == 0 && finished.completions.is_empty() {
            return None;
        }
        let completions = std::mem::take(&mut finished.completions);
        Some(Finished { bytes: std::mem::take(&mut finished.bytes), completions })
    }

    /// Nothing of what was flushed will be written.
    pub(crate) fn drop_flushed(&mut self, error: &Error) -> Finished {
        let flushed = std::mem::take(&mut self.flushed);
        let mut dropped = flushed.finished;
        for Entry { left, done, .. } in flushed.entries {
            dropped.add(left, done, Err(error.clone()));
        }
        dropped
    }

    /// Nothing will be written any more.
    pub(crate) fn drop_all(&mut self, error: &Error) -> Finished {
        let mut dropped = self.drop_flushed(error);
        for Unflushed { msg, done } in std::mem::take(&mut self.unflushed) {
            dropped.add(msg.size_hint(), done, Err(error.clone()));
        }
        dropped
    }
}

impl Flushed {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes, for a transport that writes a stream.
    #[must_use]
    pub fn bytes(&self) -> &OutQueue {
        &self.bytes
    }

    /// So many of the bytes were written.
    ///
    /// # Panics
    /// If there are fewer: a transport that claims to have written them is wrong.
    pub fn wrote(&mut self, n: usize) {
        self.bytes.advance(n);
        let mut n = n;
        while let Some(entry) = self.entries.front_mut() {
            if n < entry.left {
                entry.left -= n;
                self.finished.bytes += n;
                return;
            }
            n -= entry.left;
            self.finish_front(Ok(()));
        }
    }

    /// The next message, for a transport that writes messages.
    #[must_use]
    pub fn front(&self) -> Option<&Msg> {
        self.messages.front()
    }

    /// Takes the next message: it was written.
    pub fn take(&mut self) -> Option<Msg> {
        self.take_as(Ok(()))
    }

    /// Takes the next message: it could not be written, others may.
    pub fn reject(&mut self, error: Error) {
        drop(self.take_as(Err(error)));
    }

    fn take_as(&mut self, result: Result<(), Error>) -> Option<Msg> {
        let msg = self.messages.pop_front()?;
        if let Some(entry) = self.entries.front_mut() {
            entry.messages -= 1;
            let size = msg.size_hint().min(entry.left);
            entry.left -= size;
            self.finished.bytes += size;
            if entry.messages == 0 {
                self.finish_front(result);
            }
        }
        Some(msg)
    }

    fn finish_front(&mut self, result: Result<(), Error>) {
        if let Some(Entry { left, done, .. }) = self.entries.pop_front() {
            self.finished.add(left, done, result);
        }
    }

    fn push(&mut self, msg: Msg, done: Completion, as_bytes: bool) {
        let left = msg.size_hint();
        match msg.into_bytes() {
            Ok(bytes) if as_bytes => self.bytes.push(bytes),
            Ok(bytes) => self.messages.push_back(bytes.into()),
            Err(msg) => self.messages.push_back(msg),
        }
        match self.entries.back_mut() {
            // Nobody waits for either: one entry does for both.
            Some(last) if last.done.is_none() && done.is_none() => {
                last.left += left;
                last.messages += 1;
            }
            _ => self.entries.push_back(Entry { left, messages: 1, done }),
        }
    }
}

impl std::fmt::Debug for Flushed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flushed")
            .field("bytes", &self.bytes.len())
            .field("messages", &self.messages.len())
            .finish_non_exhaustive()
    }
}
