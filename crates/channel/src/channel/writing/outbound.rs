//! The outbound buffer: messages that wait to be written (C07).
//!
//! ```text
//!                   ◄─ flushed ─►◄ unflushed ►
//!   transport ◄──── a, b, c, d   e, f        ◄──── write
//!                              ▲
//!                              └ flush moves this mark to the end
//! ```
//!
//! A write that was cancelled before its flush is left out; after the flush it cannot be cancelled. The buffer
//! calls no user code: completions are collected and run later, and messages that will not be written are
//! handed out, because their destructors have to run where nothing is borrowed.

use std::collections::VecDeque;
use std::fmt;
use std::mem;

use bytes::Bytes;
use waterwheel_executor::Error;

use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::writing::drop_queue::DropQueue;
use crate::channel::writing::pending_writes::{
    CompletionResults, PendingWriteEntry, PendingWrites, WriteRun,
};
use crate::channel::writing::stream_pieces::{StreamPiece, StreamPieces};
use crate::driver::OutQueue;
use crate::payload::{AncillaryMessage, FileRegion};
use crate::pipeline::{Completion, Message, Msg};

/// The outbound buffer of a channel. A transport sees only flushed data: bytes if it writes a stream, messages
/// if it writes messages.
#[derive(Default)]
pub struct Outbound {
    /// The bytes of a stream before the first file or ancillary message.
    bytes: OutQueue,
    /// Pending bytes that were removed since this was last taken; a file counts as its constant pending size.
    removed: usize,
    /// Completions, files and ancillary messages. Absent while a stream has none of them: then `bytes` is
    /// complete.
    pending: Option<Box<PendingWrites>>,
    /// Messages that were written, or refused by the transport, and not dropped yet.
    drop_queue: DropQueue,
}

/// Removes `n` written bytes, unless they are a single chunk that was written whole.
#[inline(never)]
fn remove_written_chunks(bytes: &mut OutQueue, n: usize, drop_queue: &mut DropQueue) {
    if bytes.covers_several_flushed_chunks(n) {
        bytes.move_all_chunks(drop_queue.chunks());
    } else {
        bytes.advance_with(n, |chunk| drop_queue.push(chunk.into()));
    }
}

/// Writes that were cancelled before their flush. The receiver drops them where no cell of the channel is
/// borrowed.
#[derive(Default)]
pub(crate) struct CancelledWrites {
    /// The pending bytes of these writes.
    pub(crate) bytes: usize,
    pub(crate) messages: VecDeque<Msg>,
    /// The promises, which the cancel has completed.
    pub(crate) promises: Vec<Completion>,
}

/// Writes that failed.
pub(crate) struct FailedWrites {
    /// The pending bytes of these writes.
    pub(crate) bytes: usize,
    pub(crate) completions: CompletionResults,
    /// The messages of these writes. The receiver drops them where no cell of the channel is borrowed, because
    /// a destructor is user code.
    pub(crate) messages: VecDeque<Msg>,
}

/// The transport's interface.
impl Outbound {
    /// True if nothing is flushed.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.pending {
            None => self.bytes.is_empty(),
            Some(pending) => pending.flushed == 0 && pending.flushed_run.pieces == 0,
        }
    }

    /// Returns the flushed bytes of a stream, up to the next file or ancillary message.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &OutQueue {
        &self.bytes
    }

    /// Returns the file that is next in a stream, if no bytes are before it.
    #[must_use]
    pub fn file(&self) -> Option<&FileRegion> {
        match self.pending.as_ref()?.parts.next(&self.bytes)? {
            StreamPiece::File(file) => Some(file),
            StreamPiece::AncillaryMessage(_) => None,
        }
    }

    /// Returns the ancillary message that is next in a stream, if no bytes are before it. File descriptors are sent
    /// with the first byte of the message, and then removed from it.
    #[must_use]
    pub fn ancillary(&self) -> Option<&AncillaryMessage> {
        match self.pending.as_ref()?.parts.next(&self.bytes)? {
            StreamPiece::AncillaryMessage(ancillary) => Some(ancillary),
            StreamPiece::File(_) => None,
        }
    }

    /// Removes `n` written bytes, of the next bytes, file or ancillary message of a stream.
    ///
    /// # Panics
    /// If fewer than `n` bytes are queued: the transport claims to have written more than there was.
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

    /// Removes the next message, for a transport that writes messages and has written it.
    pub fn take(&mut self) -> Option<Msg> {
        self.take_with_size().map(|(msg, _)| msg)
    }

    /// Returns the next messages, at most `max`, for a transport that writes several at once.
    pub fn messages(&self, max: usize) -> impl Iterator<Item = &Msg> {
        let flushed = self.pending.as_ref().map_or(0, |pending| pending.flushed_messages(max));
        let messages = self.pending.iter().flat_map(|pending| &pending.messages);
        messages.map(|(msg, _)| msg).take(flushed)
    }

    /// Removes `n` written messages.
    pub fn sent(&mut self, n: usize) {
        for _ in 0..n {
            if let Some(msg) = self.take() {
                self.drop_queue.push(msg);
            }
        }
    }

    /// Takes a message that the transport does not need, to be dropped when the transport has returned. A
    /// destructor is user code that may call the channel, and the channel is borrowed by the transport
    /// meanwhile.
    pub fn discard(&mut self, msg: Msg) {
        self.drop_queue.push(msg);
    }

    /// Fails the next message with `error`, and no other. In a stream, that is the next ancillary message.
    pub fn fail_next(&mut self, error: Error) {
        let Some(pending) = &mut self.pending else { return };
        if pending.parts.is_ancillary_next(&self.bytes) {
            pending.wrote(0); // Finishes empty messages before the failed one.
        }
        // A completion belongs to one message.
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

    /// Removes the next message, and returns it with its pending size.
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

/// The channel's interface.
impl Outbound {
    /// Appends a message with a pending size of `left`; `as_stream` appends it to a stream.
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
                    pending.parts.push_unflushed(piece);
                }
                Err(msg) => pending.push_message(msg, left, done),
            },
            Err(msg) => pending.push_message(msg, left, done),
        }
    }

    /// Appends bytes without a completion to a stream.
    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: Bytes) {
        if let Some(pending) = &mut self.pending {
            let pieces = usize::from(!bytes.is_empty());
            pending.unflushed_run.add(WriteRun { left: bytes.len(), pieces });
        }
        self.append(bytes);
    }

    /// Queues empty bytes to be dropped: there is nothing to write, but a destructor to run.
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

    /// Returns the pending writes, creating them if absent. From then on completions are tracked.
    fn pending_mut(&mut self) -> &mut PendingWrites {
        self.pending.get_or_insert_with(|| {
            let [flushed_run, unflushed_run] =
                self.bytes.flushed_and_unflushed().map(|(left, pieces)| WriteRun { left, pieces });
            Box::new(PendingWrites { flushed_run, unflushed_run, ..PendingWrites::default() })
        })
    }

    /// True if the buffer holds a message, flushed or not.
    pub(crate) fn has_messages(&self) -> bool {
        match &self.pending {
            None => self.bytes.flushed_and_unflushed().iter().any(|(_, chunks)| *chunks > 0),
            Some(pending) => {
                let unawaited = pending.flushed_run.pieces + pending.unflushed_run.pieces;
                unawaited > 0 || !pending.entries.is_empty()
            }
        }
    }

    /// True if the buffer is empty, and everything removed from it was counted and dropped.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.pending.is_none()
            && self.removed == 0
            && self.bytes.has_no_chunk()
            && self.drop_queue.is_empty()
    }

    /// Flushes like [`flush`](Self::flush), if the buffer holds nothing but bytes without completions. Returns
    /// true if it flushed nothing, or no flushed bytes are in the buffer.
    #[inline]
    pub(crate) fn flush_bytes_only(&mut self) -> bool {
        if self.pending.is_none() {
            self.bytes.flush();
        }
        self.pending.is_some() || self.bytes.is_empty()
    }

    /// Flushes all messages. Returns the cancelled ones.
    pub(crate) fn flush(&mut self) -> Option<CancelledWrites> {
        let cancelled = if self.pending.is_some() { self.flush_pending() } else { None };
        self.bytes.flush();
        cancelled
    }

    #[inline(never)]
    fn flush_pending(&mut self) -> Option<CancelledWrites> {
        let cancelled = self.pending_mut().begin_unflushed().then(|| self.take_cancelled());
        let pending = self.pending_mut();
        let unflushed = mem::take(&mut pending.unflushed_run);
        pending.flushed_run.add(unflushed);
        pending.flushed = pending.entries.len();
        pending.parts.flush();
        cancelled
    }

    /// Removes unflushed messages that were cancelled. The others can no longer be cancelled.
    #[cold]
    fn take_cancelled(&mut self) -> CancelledWrites {
        let mut cancelled = CancelledWrites::default();
        let Outbound { bytes, pending, .. } = self.take_unflushed();
        let PendingWrites { parts, messages, entries, .. } = *pending.unwrap_or_default();
        let (mut stream, mut messages) = (parts.into_messages(bytes), messages.into_iter());
        for mut entry in entries {
            let wanted = entry.done.begin();
            // One of the two is empty: a transport writes a stream or messages.
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

    /// Appends a part of the stream that was taken out of this buffer.
    fn append_again(&mut self, part: Msg) {
        match part.into_bytes() {
            Ok(bytes) => self.append(bytes),
            Err(part) => {
                _ = StreamPiece::of(part)
                    .map(|piece| self.pending_mut().parts.push_unflushed(piece))
            }
        }
    }

    /// Removes and returns all unflushed messages.
    pub(crate) fn take_unflushed(&mut self) -> Outbound {
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

    /// True if the buffer holds exactly one flushed chunk of bytes, without a completion, and nothing to drop.
    #[inline]
    pub(crate) fn is_single_flushed_chunk(&self) -> bool {
        self.pending.is_none() && self.bytes.is_single_flushed_chunk() && self.drop_queue.is_empty()
    }

    /// Removes the only chunk after it was written.
    #[inline]
    pub(crate) fn take_single_chunk(&mut self) -> Option<Bytes> {
        self.bytes.take_single_chunk()
    }

    /// Returns true if anything was removed since the last call. Must be called before
    /// [`take_removed`](Self::take_removed).
    #[inline]
    pub(crate) fn take_has_progress(&mut self) -> bool {
        let has_progress =
            self.pending.as_mut().is_some_and(|pending| mem::take(&mut pending.has_progress));
        has_progress || self.removed > 0
    }

    /// Returns the pending bytes that were removed and the bytes that were written since the last call.
    #[inline]
    pub(crate) fn take_removed(&mut self) -> (usize, usize) {
        let left = mem::take(&mut self.removed);
        let surplus = self.pending.as_mut().map_or(0, |pending| {
            pending.shrink_if_empty();
            mem::take(&mut pending.surplus)
        });
        (left, left.wrapping_add(surplus))
    }

    /// True if completions of removed messages wait to be called.
    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        self.pending.as_ref().is_some_and(|pending| !pending.completions.is_empty())
    }

    /// Takes the completion of the first removed message that has one which was not taken yet.
    pub(crate) fn next_completion(&mut self) -> Option<(Completion, Result<(), Error>)> {
        let completions = &mut self.pending.as_mut()?.completions;
        let next = completions.pop_front();
        if next.is_none() {
            shrink_if_empty(completions);
        }
        next
    }

    /// Takes out the last chunk, if it was written. Called before anything is appended; the caller drops the
    /// chunk where no cell of the channel is borrowed.
    #[inline]
    pub(super) fn take_written_bytes(&mut self) -> Option<Bytes> {
        self.bytes.take_written_chunk()
    }

    /// True if written or refused messages wait to be dropped.
    #[inline]
    pub(super) fn has_written(&self) -> bool {
        !self.drop_queue.is_empty()
    }

    /// Returns the queue of written and refused messages, for the caller to empty.
    #[inline]
    pub(super) fn drop_queue(&mut self) -> &mut DropQueue {
        &mut self.drop_queue
    }

    /// Removes and returns all flushed messages, which will not be written.
    pub(crate) fn take_flushed(&mut self) -> Outbound {
        let mut unflushed = self.take_unflushed();
        unflushed.drop_queue = mem::take(&mut self.drop_queue);
        mem::replace(self, unflushed)
    }

    /// Fails all messages.
    pub(crate) fn fail(mut self, error: &Error) -> FailedWrites {
        self.pending_mut().move_runs_to_entries();
        let PendingWrites { parts, messages, entries, mut completions, .. } =
            *self.pending.unwrap_or_default();
        let mut bytes = self.removed;
        for PendingWriteEntry { run, done } in entries {
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
