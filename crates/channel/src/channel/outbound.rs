//! What waits to be written (C07).
//!
//! ```text
//!                   ◄─ flushed ─►◄─ held ──►
//!   transport ◄──── a, b, c, d   e, f        ◄──── write
//!                              ▲
//!                              └ flush moves this mark to the end
//! ```
//!
//! A write that was cancelled before it is flushed is left out; after that it cannot be cancelled.
//! Nothing in here calls anybody: what is done is collected, and told later. What will not be written is
//! handed out, too: a message's destructor is the user's, and runs where nothing is borrowed.

use std::collections::VecDeque;
use std::fmt;
use std::mem;

use waterwheel_executor::Error;

use crate::driver::OutQueue;
use crate::pipeline::{Completion, Msg};

/// What a channel has to write. A transport sees what was flushed: bytes if it writes a stream,
/// messages if it writes messages.
#[derive(Default)]
pub struct Outbound {
    /// For a transport that writes a stream.
    bytes: OutQueue,
    /// For one that writes messages: each with what it weighs. Asked once, where nothing is borrowed.
    messages: VecDeque<(Msg, usize)>,
    /// Who waits for what, in the same order.
    entries: VecDeque<Entry>,
    /// How many of the entries were flushed.
    flushed: usize,
    /// Somebody waits for one of those that were not, and could have cancelled it.
    awaited: bool,
    /// Written, or failed, and to be told.
    finished: Finished,
}

/// One message, or several in a row that nobody waits for, as far as they are still to be written.
struct Entry {
    /// How many bytes of it are to be written, or how much it weighs.
    left: usize,
    /// How many chunks of bytes, or messages, it has.
    pieces: usize,
    done: Completion,
}

/// Writes that were cancelled before they were flushed, to be dropped where nothing is borrowed.
#[derive(Default)]
pub(crate) struct Cancelled {
    /// How many bytes of them no longer wait.
    pub(crate) bytes: usize,
    pub(crate) messages: VecDeque<Msg>,
}

/// What has left the buffer.
#[derive(Default)]
pub(crate) struct Finished {
    /// There is something: a part of a write, or a message that weighs nothing.
    any: bool,
    /// How many bytes no longer wait.
    pub(crate) bytes: usize,
    /// In the order of the writes; those that nobody waits for are not here.
    pub(crate) completions: VecDeque<(Completion, Result<(), Error>)>,
}

impl Finished {
    #[inline]
    fn add(&mut self, bytes: usize, done: Completion, result: Result<(), Error>) {
        self.any = true;
        self.bytes = self.bytes.saturating_add(bytes);
        if !done.is_none() {
            self.completions.push_back((done, result));
        }
    }
}

/// The transport's side.
impl Outbound {
    /// Whether nothing is to be written now.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.flushed == 0
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
    #[inline]
    pub fn wrote(&mut self, n: usize) {
        self.bytes.advance(n);
        let mut n = n;
        while self.flushed > 0
            && let Some(entry) = self.entries.front_mut()
        {
            if n < entry.left {
                entry.left -= n;
                self.finished.bytes += n;
                self.finished.any |= n > 0;
                return;
            }
            n -= entry.left;
            self.finish_front();
        }
    }

    /// Takes the next message, for a transport that writes messages: it was written.
    pub fn take(&mut self) -> Option<Msg> {
        self.take_weighed().map(|(msg, _)| msg)
    }

    /// The same, with what it weighs.
    pub(crate) fn take_weighed(&mut self) -> Option<(Msg, usize)> {
        let entry = self.entries.front_mut().filter(|_| self.flushed > 0)?;
        let (msg, weight) = self.messages.pop_front()?;
        entry.pieces -= 1;
        entry.left = entry.left.saturating_sub(weight);
        self.finished.bytes = self.finished.bytes.saturating_add(weight);
        self.finished.any = true;
        if entry.pieces == 0 {
            self.finish_front();
        }
        Some((msg, weight))
    }

    #[inline]
    fn finish_front(&mut self) {
        if let Some(Entry { left, done, .. }) = self.entries.pop_front() {
            self.flushed -= 1;
            self.finished.add(left, done, Ok(()));
        }
    }
}

/// The channel's side.
impl Outbound {
    /// Appends a message that weighs so much; as a part of a stream, if it is to be one.
    #[inline]
    pub(crate) fn push(&mut self, msg: Msg, left: usize, done: Completion, as_stream: bool) {
        let pieces = match msg.into_bytes() {
            Ok(bytes) if as_stream => usize::from(self.bytes.hold(bytes)),
            Ok(bytes) => self.push_message(bytes.into(), left),
            Err(msg) => self.push_message(msg, left),
        };
        self.awaited |= !done.is_none();
        let held = self.entries.len() > self.flushed;
        match self.entries.back_mut() {
            // Nobody waits for either: one entry does for both.
            Some(last) if held && last.done.is_none() && done.is_none() => {
                last.left = last.left.saturating_add(left);
                last.pieces += pieces;
            }
            _ => self.entries.push_back(Entry { left, pieces, done }),
        }
    }

    fn push_message(&mut self, msg: Msg, weight: usize) -> usize {
        self.messages.push_back((msg, weight));
        1
    }

    /// Whether there is anything in it, flushed or not.
    pub(crate) fn holds_anything(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Everything so far is to be written. What was cancelled falls out.
    #[inline]
    pub(crate) fn flush(&mut self) -> Option<Cancelled> {
        let cancelled = self.awaited.then(|| self.take_cancelled());
        self.flushed = self.entries.len();
        self.bytes.release();
        cancelled
    }

    /// Takes out what was held and has been cancelled; the rest can no longer be.
    #[cold]
    fn take_cancelled(&mut self) -> Cancelled {
        let mut cancelled = Cancelled::default();
        let Outbound { bytes, messages, entries, .. } = self.split_held();
        let (mut bytes, mut messages) = (bytes.into_chunks(), messages.into_iter());
        for mut entry in entries {
            let wanted = entry.done.begin();
            // One of the two has them: a transport writes one kind.
            let chunks = bytes.by_ref().take(entry.pieces);
            let msgs = messages.by_ref().take(entry.pieces);
            if wanted {
                chunks.for_each(|chunk| _ = self.bytes.hold(chunk));
                self.messages.extend(msgs);
                self.entries.push_back(entry);
            } else {
                let msgs = msgs.map(|(msg, _)| msg);
                cancelled.messages.extend(chunks.map(Msg::from).chain(msgs));
                cancelled.bytes = cancelled.bytes.saturating_add(entry.left);
            }
        }
        cancelled
    }

    /// Takes out all that was not flushed: it will not be written.
    pub(crate) fn take_held(&mut self) -> Outbound {
        self.split_held()
    }

    /// Takes out all that was not flushed.
    fn split_held(&mut self) -> Outbound {
        let entries = self.entries.split_off(self.flushed);
        let pieces: usize = self.entries.iter().map(|entry| entry.pieces).sum();
        let messages = self.messages.split_off(pieces.min(self.messages.len()));
        let awaited = mem::take(&mut self.awaited);
        Outbound { bytes: self.bytes.split_held(), messages, entries, awaited, ..Self::default() }
    }

    /// What was written, or has failed, since this was last asked.
    #[inline]
    pub(crate) fn take_finished(&mut self) -> Option<Finished> {
        self.finished.any.then(|| mem::take(&mut self.finished))
    }

    /// Takes out what was flushed: it will not be written.
    pub(crate) fn take_flushed(&mut self) -> Outbound {
        let held = self.split_held();
        mem::replace(self, held)
    }

    /// All of it has failed; the messages, to be dropped where nothing is borrowed.
    pub(crate) fn fail(self, error: &Error) -> (Finished, VecDeque<Msg>) {
        let mut finished = self.finished;
        for Entry { left, done, .. } in self.entries {
            finished.add(left, done, Err(error.clone()));
        }
        let mut messages: VecDeque<Msg> = self.messages.into_iter().map(|(msg, _)| msg).collect();
        messages.extend(self.bytes.into_chunks().map(Msg::from));
        (finished, messages)
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("bytes", &self.bytes.len())
            .field("messages", &self.messages.len())
            .finish_non_exhaustive()
    }
}
