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

use bytes::Bytes;
use waterwheel_executor::Error;

use crate::channel::writing::drop_queue::DropQueue;
use crate::channel::writing::pending_writes::{
    CompletionResults, PendingWrite, PendingWrites, WriteRun,
};
use crate::channel::writing::stream_pieces::{StreamPiece, StreamPieces};
use crate::driver::OutQueue;
use crate::payload::{AncillaryMessage, FileRegion};
use crate::pipeline::{Completion, Message, Msg};

/// What a channel has to write. A transport sees what was flushed: bytes if it writes a stream,
/// messages if it writes messages.
#[derive(Default)]
pub struct Outbound {
    /// For a transport that writes a stream: what is before the first file or ancillary message.
    bytes: OutQueue,
    /// How many bytes have left since this was last asked; files as what they weigh.
    removed: usize,
    /// What a stream does without, as long as nobody waits for its writes and there are no files or ancillary messages:
    /// the bytes say it all.
    pending: Option<Box<PendingWrites>>,
    /// Written, or refused by the transport, and not dropped yet.
    drop_queue: DropQueue,
}

/// Takes written bytes out of a queue that is not a single chunk which was written as a whole.
#[inline(never)]
fn remove_written_chunks(bytes: &mut OutQueue, n: usize, drop_queue: &mut DropQueue) {
    if bytes.is_all_of_several_chunks(n) {
        bytes.move_all(drop_queue.chunks());
    } else {
        bytes.advance_with(n, |chunk| drop_queue.push(chunk.into()));
    }
}

/// Writes that were cancelled before they were flushed, to be dropped where nothing is borrowed.
#[derive(Default)]
pub(crate) struct CancelledWrites {
    /// How many bytes of them no longer wait.
    pub(crate) bytes: usize,
    pub(crate) messages: VecDeque<Msg>,
    /// Their promises, which were completed by whoever cancelled.
    pub(crate) promises: Vec<Completion>,
}

/// What will not be written.
pub(crate) struct FailedWrites {
    /// How many bytes no longer wait.
    pub(crate) bytes: usize,
    pub(crate) completions: CompletionResults,
    /// To be dropped where nothing is borrowed.
    pub(crate) messages: VecDeque<Msg>,
}

/// The transport's side.
impl Outbound {
    /// Whether nothing is to be written now.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.pending {
            None => self.bytes.is_empty(),
            Some(pending) => pending.flushed == 0 && pending.flushed_run.pieces == 0,
        }
    }

    /// The bytes, for a transport that writes a stream: those before the next file or ancillary message.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &OutQueue {
        &self.bytes
    }

    /// For a transport that writes a stream: the file that is next. There are no bytes before it.
    #[must_use]
    pub fn file(&self) -> Option<&FileRegion> {
        match self.pending.as_ref()?.parts.next(&self.bytes)? {
            StreamPiece::File(file) => Some(file),
            StreamPiece::AncillaryMessage(_) => None,
        }
    }

    /// For a transport that writes a stream: the ancillary message that is next. There are no bytes before it. What is
    /// passed goes with the first of its bytes, and is not there any more when some of them were written.
    #[must_use]
    pub fn ancillary(&self) -> Option<&AncillaryMessage> {
        match self.pending.as_ref()?.parts.next(&self.bytes)? {
            StreamPiece::AncillaryMessage(ancillary) => Some(ancillary),
            StreamPiece::File(_) => None,
        }
    }

    /// So many of the bytes, or of the file or ancillary message that is next, were written.
    ///
    /// # Panics
    /// If there are fewer: a transport that claims to have written them is wrong.
    #[inline]
    pub fn wrote(&mut self, n: usize) {
        let drop_queue = &mut self.drop_queue;
        match &mut self.pending {
            None => {
                if !self.bytes.finish_only_chunk(n) {
                    remove_written_chunks(&mut self.bytes, n, drop_queue);
                }
                self.removed += n;
            }
            Some(pending) => self.removed += pending.advance(&mut self.bytes, n, drop_queue),
        }
    }

    /// Takes the next message, for a transport that writes messages: it was written.
    pub fn take(&mut self) -> Option<Msg> {
        self.take_with_size().map(|(msg, _)| msg)
    }

    /// The next messages, at most so many, for a transport that writes messages and looks at several of
    /// them at once.
    pub fn messages(&self, max: usize) -> impl Iterator<Item = &Msg> {
        let flushed = self.pending.as_ref().map_or(0, |pending| pending.flushed_messages(max));
        let messages = self.pending.iter().flat_map(|pending| &pending.messages);
        messages.map(|(msg, _)| msg).take(flushed)
    }

    /// So many messages were written.
    pub fn sent(&mut self, n: usize) {
        for _ in 0..n {
            if let Some(msg) = self.take() {
                self.drop_queue.push(msg);
            }
        }
    }

    /// Hands over a message that the transport has no use for, to be dropped when the transport has returned:
    /// a message's destructor is the user's, and may call the channel, which lends itself to the transport
    /// meanwhile.
    pub fn discard(&mut self, msg: Msg) {
        self.drop_queue.push(msg);
    }

    /// The next message cannot be written, for this reason; the others may be. Of a stream it is the ancillary message
    /// that is next.
    pub fn fail_next(&mut self, error: Error) {
        let Some(pending) = &mut self.pending else { return };
        if pending.parts.is_ancillary_next(&self.bytes) {
            pending.wrote(0); // What is empty and before it has been written.
        }
        // Whoever waits for one message waits for no other.
        let (told, has_awaited) = (pending.completions.len(), pending.is_front_awaited());
        let refused = match pending.take_ancillary(&mut self.bytes) {
            Some(ancillary) => {
                self.removed += ancillary.size_hint();
                Some(ancillary.into())
            }
            None => self.take(),
        };
        if let Some(refused) = refused {
            self.drop_queue.push(refused);
        }
        let Some(pending) = &mut self.pending else { return };
        match pending.completions.get_mut(told) {
            Some((_, result)) if has_awaited => *result = Err(error),
            _ => pending.completions.insert(told, (Completion::none(), Err(error))),
        }
    }

    /// The same, with what it weighs.
    pub(crate) fn take_with_size(&mut self) -> Option<(Msg, usize)> {
        let pending = self
            .pending
            .as_mut()
            .filter(|pending| pending.flushed + pending.flushed_run.pieces > 0)?;
        let (msg, weight) = pending.messages.pop_front()?;
        self.removed = self.removed.saturating_add(weight);
        let not_bytes =
            msg.get::<AncillaryMessage>().map_or(0, AncillaryMessage::passed_pending_bytes);
        pending.surplus = pending.surplus.wrapping_sub(not_bytes);
        pending.has_progress = true;
        match pending.entries.front_mut() {
            Some(entry) => {
                entry.run.take_piece(weight);
                if entry.run.pieces == 0 {
                    pending.finish_front();
                }
            }
            None => pending.flushed_run.take_piece(weight),
        }
        Some((msg, weight))
    }
}

/// The channel's side.
impl Outbound {
    /// Appends a message that weighs so much; as a part of a stream, if it is to be one.
    pub(crate) fn push(&mut self, msg: Msg, left: usize, done: Completion, as_stream: bool) {
        let pending = self.pending_mut();
        match msg.into_bytes() {
            Ok(bytes) if as_stream => {
                pending.push(WriteRun { left, pieces: usize::from(!bytes.is_empty()) }, done);
                self.append(bytes);
            }
            Ok(bytes) => pending.push_message(bytes.into(), left, done),
            Err(msg) if as_stream => match StreamPiece::of(msg) {
                Ok(piece) => {
                    pending.push(WriteRun { left, pieces: usize::from(!piece.is_empty()) }, done);
                    pending.parts.hold(piece);
                }
                Err(msg) => pending.push_message(msg, left, done),
            },
            Err(msg) => pending.push_message(msg, left, done),
        }
    }

    /// Appends bytes to a stream, for whose writing nobody waits.
    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: Bytes) {
        if let Some(pending) = &mut self.pending {
            let pieces = usize::from(!bytes.is_empty());
            pending.held_run.add(WriteRun { left: bytes.len(), pieces });
        }
        self.append(bytes);
    }

    /// There is nothing to write, and a destructor to run.
    #[cold]
    fn append_empty(&mut self, bytes: Bytes) {
        self.drop_queue.push(bytes.into());
    }

    #[inline(always)]
    fn append(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return self.append_empty(bytes);
        }
        match &mut self.pending {
            None => self.bytes.push_unflushed(bytes),
            Some(pending) => pending.parts.last(&mut self.bytes).push_unflushed(bytes),
        }
    }

    /// From now on it is counted who waits for what.
    fn pending_mut(&mut self) -> &mut PendingWrites {
        self.pending.get_or_insert_with(|| {
            let [flushed_run, held_run] =
                self.bytes.flushed_and_unflushed().map(|(left, pieces)| WriteRun { left, pieces });
            Box::new(PendingWrites { flushed_run, held_run, ..PendingWrites::default() })
        })
    }

    /// Whether there is anything in it, flushed or not.
    pub(crate) fn holds_anything(&self) -> bool {
        match &self.pending {
            None => self.bytes.flushed_and_unflushed().iter().any(|(_, chunks)| *chunks > 0),
            Some(pending) => {
                let unawaited = pending.flushed_run.pieces + pending.held_run.pieces;
                unawaited > 0 || !pending.entries.is_empty()
            }
        }
    }

    /// True if there is nothing in it, and nothing has left it that was not counted and dropped.
    pub(crate) fn is_unused(&self) -> bool {
        self.pending.is_none()
            && self.removed == 0
            && self.bytes.has_no_chunk()
            && self.drop_queue.is_empty()
    }

    /// The same as [`flush`](Self::flush), if it is bytes that nobody waits for and nothing else.
    /// Whether that has led to nothing.
    #[inline]
    pub(crate) fn flush_bytes_only(&mut self) -> bool {
        if self.pending.is_none() {
            self.bytes.flush();
        }
        self.pending.is_some() || self.bytes.is_empty()
    }

    /// Everything so far is to be written. What was cancelled falls out.
    pub(crate) fn flush(&mut self) -> Option<CancelledWrites> {
        let cancelled = if self.pending.is_some() { self.flush_more() } else { None };
        self.bytes.flush();
        cancelled
    }

    #[inline(never)]
    fn flush_more(&mut self) -> Option<CancelledWrites> {
        let cancelled = self.pending_mut().has_awaited.then(|| self.take_cancelled());
        let pending = self.pending_mut();
        let held = mem::take(&mut pending.held_run);
        pending.flushed_run.add(held);
        pending.flushed = pending.entries.len();
        pending.parts.release();
        cancelled
    }

    /// Takes out what was held and has been cancelled; the rest can no longer be.
    #[cold]
    fn take_cancelled(&mut self) -> CancelledWrites {
        let mut cancelled = CancelledWrites::default();
        let Outbound { bytes, pending, .. } = self.take_held();
        let PendingWrites { parts, messages, entries, .. } = *pending.unwrap_or_default();
        let (mut stream, mut messages) = (parts.into_messages(bytes), messages.into_iter());
        for mut entry in entries {
            let wanted = entry.done.begin();
            // One of the two has them: a transport writes one kind.
            let parts = stream.by_ref().take(entry.run.pieces);
            let msgs = messages.by_ref().take(entry.run.pieces);
            if wanted {
                parts.for_each(|part| self.append_again(part));
                let pending = self.pending_mut();
                pending.messages.extend(msgs);
                pending.entries.push_back(entry);
            } else {
                let msgs = msgs.map(|(msg, _)| msg);
                cancelled.messages.extend(parts.chain(msgs));
                cancelled.bytes = cancelled.bytes.saturating_add(entry.run.left);
                cancelled.promises.push(entry.done);
            }
        }
        cancelled
    }

    /// Puts back what was a part of the stream.
    fn append_again(&mut self, part: Msg) {
        match part.into_bytes() {
            Ok(bytes) => self.append(bytes),
            Err(part) => {
                _ = StreamPiece::of(part).map(|piece| self.pending_mut().parts.hold(piece))
            }
        }
    }

    /// Takes out all that was not flushed.
    pub(crate) fn take_held(&mut self) -> Outbound {
        let pending = self.pending_mut();
        pending.move_runs_to_entries();
        let entries = pending.entries.split_off(pending.flushed);
        let pieces: usize = pending.entries.iter().map(|entry| entry.run.pieces).sum();
        let messages = pending.messages.split_off(pieces.min(pending.messages.len()));
        let has_awaited = mem::take(&mut pending.has_awaited);
        let (bytes, parts) = match &mut self.pending {
            None => (self.bytes.split_unflushed(), StreamPieces::default()),
            Some(pending) => pending.parts.split_unflushed(&mut self.bytes),
        };
        let pending = Box::new(PendingWrites {
            parts,
            messages,
            entries,
            has_awaited,
            ..PendingWrites::default()
        });
        Outbound { bytes, pending: Some(pending), ..Self::default() }
    }

    /// True if one chunk of bytes was flushed that nobody waits for, and there is nothing else.
    #[inline]
    pub(crate) fn is_one_chunk(&self) -> bool {
        self.pending.is_none() && self.bytes.is_one_chunk() && self.drop_queue.is_empty()
    }

    /// Takes that chunk out: it was written.
    #[inline]
    pub(crate) fn take_one_chunk(&mut self) -> Option<Bytes> {
        self.bytes.take_one_chunk()
    }

    /// Whether anything has left since this was last asked. To be asked before how much it was.
    #[inline]
    pub(crate) fn take_has_progress(&mut self) -> bool {
        let has_progress =
            self.pending.as_mut().is_some_and(|pending| mem::take(&mut pending.has_progress));
        has_progress || self.removed > 0
    }

    /// How many bytes no longer wait, and how many were written, since this was last asked.
    #[inline]
    pub(crate) fn take_removed(&mut self) -> (usize, usize) {
        let left = mem::take(&mut self.removed);
        let surplus = self.pending.as_mut().map_or(0, |pending| {
            pending.shrink_if_empty();
            mem::take(&mut pending.surplus)
        });
        (left, left.wrapping_add(surplus))
    }

    /// Whether somebody is to be told of what has left.
    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.completions.is_empty())
    }

    /// Whom to tell of what has left since this was last asked.
    pub(crate) fn take_completions(&mut self) -> CompletionResults {
        self.pending.as_mut().map(|pending| mem::take(&mut pending.completions)).unwrap_or_default()
    }

    /// Takes out the bytes that were all there was, if they were written. To be asked for before anything is
    /// appended; the caller drops them where nothing is borrowed.
    #[inline]
    pub(super) fn take_written_bytes(&mut self) -> Option<Bytes> {
        self.bytes.take_spent()
    }

    /// True if something else has been written or refused, and is to be dropped.
    #[inline]
    pub(super) fn has_written(&self) -> bool {
        !self.drop_queue.is_empty()
    }

    /// What else has been written or refused, for the caller to take out and to drop in the same way.
    #[inline]
    pub(super) fn drop_queue(&mut self) -> &mut DropQueue {
        &mut self.drop_queue
    }

    /// Takes out what was flushed: it will not be written.
    pub(crate) fn take_flushed(&mut self) -> Outbound {
        let mut held = self.take_held();
        held.drop_queue = mem::take(&mut self.drop_queue);
        mem::replace(self, held)
    }

    /// All of it has failed.
    pub(crate) fn fail(mut self, error: &Error) -> FailedWrites {
        self.pending_mut().move_runs_to_entries();
        let PendingWrites { parts, messages, entries, mut completions, .. } =
            *self.pending.unwrap_or_default();
        let mut bytes = self.removed;
        for PendingWrite { run, done } in entries {
            bytes = bytes.saturating_add(run.left);
            if !done.is_none() {
                completions.push_back((done, Err(error.clone())));
            }
        }
        let mut messages: VecDeque<Msg> = messages.into_iter().map(|(msg, _)| msg).collect();
        messages.extend(parts.into_messages(self.bytes));
        let drop_queue = self.drop_queue.take();
        messages.extend(drop_queue.chunks.into_iter().map(Msg::from).chain(drop_queue.messages));
        FailedWrites { bytes, completions, messages }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("bytes", &self.bytes.len())
            .field("file", &self.file())
            .field("ancillary", &self.ancillary())
            .field("messages", &self.pending.as_ref().map_or(0, |pending| pending.messages.len()))
            .finish_non_exhaustive()
    }
}
