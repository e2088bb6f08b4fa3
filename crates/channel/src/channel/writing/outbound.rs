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
    left: usize,
    /// What a stream does without, as long as nobody waits for its writes and there are no files or ancillary messages:
    /// the bytes say it all.
    more: Option<Box<PendingWrites>>,
    /// Written, or refused by the transport, and not dropped yet.
    spent: DropQueue,
}

/// Takes written bytes out of a queue that is not a single chunk which was written as a whole.
#[inline(never)]
fn wrote_several(bytes: &mut OutQueue, n: usize, spent: &mut DropQueue) {
    if bytes.is_all_of_several(n) {
        bytes.move_all(spent.chunks());
    } else {
        bytes.advance_with(n, |chunk| spent.push(chunk.into()));
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
        match &self.more {
            None => self.bytes.is_empty(),
            Some(more) => more.flushed == 0 && more.flushed_run.pieces == 0,
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
        match self.more.as_ref()?.parts.next(&self.bytes)? {
            StreamPiece::File(file) => Some(file),
            StreamPiece::AncillaryMessage(_) => None,
        }
    }

    /// For a transport that writes a stream: the ancillary message that is next. There are no bytes before it. What is
    /// passed goes with the first of its bytes, and is not there any more when some of them were written.
    #[must_use]
    pub fn ancillary(&self) -> Option<&AncillaryMessage> {
        match self.more.as_ref()?.parts.next(&self.bytes)? {
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
        let spent = &mut self.spent;
        match &mut self.more {
            None => {
                if !self.bytes.finish_only(n) {
                    wrote_several(&mut self.bytes, n, spent);
                }
                self.left += n;
            }
            Some(more) => self.left += more.advance(&mut self.bytes, n, spent),
        }
    }

    /// Takes the next message, for a transport that writes messages: it was written.
    pub fn take(&mut self) -> Option<Msg> {
        self.take_weighed().map(|(msg, _)| msg)
    }

    /// The next messages, at most so many, for a transport that writes messages and looks at several of
    /// them at once.
    pub fn messages(&self, most: usize) -> impl Iterator<Item = &Msg> {
        let flushed = self.more.as_ref().map_or(0, |more| more.flushed_messages(most));
        let messages = self.more.iter().flat_map(|more| &more.messages);
        messages.map(|(msg, _)| msg).take(flushed)
    }

    /// So many messages were written.
    pub fn sent(&mut self, n: usize) {
        for _ in 0..n {
            if let Some(msg) = self.take() {
                self.spent.push(msg);
            }
        }
    }

    /// Hands over a message that the transport has no use for, to be dropped when the transport has returned:
    /// a message's destructor is the user's, and may call the channel, which lends itself to the transport
    /// meanwhile.
    pub fn discard(&mut self, msg: Msg) {
        self.spent.push(msg);
    }

    /// The next message cannot be written, for this reason; the others may be. Of a stream it is the ancillary message
    /// that is next.
    pub fn fail_next(&mut self, error: Error) {
        let Some(more) = &mut self.more else { return };
        if more.parts.is_ancillary_next(&self.bytes) {
            more.wrote(0); // What is empty and before it has been written.
        }
        // Whoever waits for one message waits for no other.
        let (told, awaited) = (more.completions.len(), more.is_front_awaited());
        let refused = match more.take_ancillary(&mut self.bytes) {
            Some(ancillary) => {
                self.left += ancillary.size_hint();
                Some(ancillary.into())
            }
            None => self.take(),
        };
        if let Some(refused) = refused {
            self.spent.push(refused);
        }
        let Some(more) = &mut self.more else { return };
        match more.completions.get_mut(told) {
            Some((_, result)) if awaited => *result = Err(error),
            _ => more.completions.insert(told, (Completion::none(), Err(error))),
        }
    }

    /// The same, with what it weighs.
    pub(crate) fn take_weighed(&mut self) -> Option<(Msg, usize)> {
        let more = self.more.as_mut().filter(|more| more.flushed + more.flushed_run.pieces > 0)?;
        let (msg, weight) = more.messages.pop_front()?;
        self.left = self.left.saturating_add(weight);
        let not_bytes = msg.get::<AncillaryMessage>().map_or(0, AncillaryMessage::weight_of_passed);
        more.surplus = more.surplus.wrapping_sub(not_bytes);
        more.moved = true;
        match more.entries.front_mut() {
            Some(entry) => {
                entry.run.take_piece(weight);
                if entry.run.pieces == 0 {
                    more.finish_front();
                }
            }
            None => more.flushed_run.take_piece(weight),
        }
        Some((msg, weight))
    }
}

/// The channel's side.
impl Outbound {
    /// Appends a message that weighs so much; as a part of a stream, if it is to be one.
    pub(crate) fn push(&mut self, msg: Msg, left: usize, done: Completion, as_stream: bool) {
        let more = self.more();
        match msg.into_bytes() {
            Ok(bytes) if as_stream => {
                more.push(WriteRun { left, pieces: usize::from(!bytes.is_empty()) }, done);
                self.hold(bytes);
            }
            Ok(bytes) => more.push_message(bytes.into(), left, done),
            Err(msg) if as_stream => match StreamPiece::of(msg) {
                Ok(piece) => {
                    more.push(WriteRun { left, pieces: usize::from(!piece.is_empty()) }, done);
                    more.parts.hold(piece);
                }
                Err(msg) => more.push_message(msg, left, done),
            },
            Err(msg) => more.push_message(msg, left, done),
        }
    }

    /// Appends bytes to a stream, for whose writing nobody waits.
    #[inline]
    pub(crate) fn push_bytes(&mut self, bytes: Bytes) {
        if let Some(more) = &mut self.more {
            let pieces = usize::from(!bytes.is_empty());
            more.held_run.add(WriteRun { left: bytes.len(), pieces });
        }
        self.hold(bytes);
    }

    /// There is nothing to write, and a destructor to run.
    #[cold]
    fn hold_nothing(&mut self, bytes: Bytes) {
        self.spent.push(bytes.into());
    }

    #[inline(always)]
    fn hold(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return self.hold_nothing(bytes);
        }
        match &mut self.more {
            None => self.bytes.hold(bytes),
            Some(more) => more.parts.last(&mut self.bytes).hold(bytes),
        }
    }

    /// From now on it is counted who waits for what.
    fn more(&mut self) -> &mut PendingWrites {
        self.more.get_or_insert_with(|| {
            let [flushed_run, held_run] =
                self.bytes.counts().map(|(left, pieces)| WriteRun { left, pieces });
            Box::new(PendingWrites { flushed_run, held_run, ..PendingWrites::default() })
        })
    }

    /// Whether there is anything in it, flushed or not.
    pub(crate) fn holds_anything(&self) -> bool {
        match &self.more {
            None => self.bytes.counts().iter().any(|(_, chunks)| *chunks > 0),
            Some(more) => {
                let unawaited = more.flushed_run.pieces + more.held_run.pieces;
                unawaited > 0 || !more.entries.is_empty()
            }
        }
    }

    /// True if there is nothing in it, and nothing has left it that was not counted and dropped.
    pub(crate) fn is_unused(&self) -> bool {
        self.more.is_none() && self.left == 0 && self.bytes.has_no_chunk() && self.spent.is_empty()
    }

    /// The same as [`flush`](Self::flush), if it is bytes that nobody waits for and nothing else.
    /// Whether that has led to nothing.
    #[inline]
    pub(crate) fn flush_plain(&mut self) -> bool {
        if self.more.is_none() {
            self.bytes.release();
        }
        self.more.is_some() || self.bytes.is_empty()
    }

    /// Everything so far is to be written. What was cancelled falls out.
    pub(crate) fn flush(&mut self) -> Option<CancelledWrites> {
        let cancelled = if self.more.is_some() { self.flush_more() } else { None };
        self.bytes.release();
        cancelled
    }

    #[inline(never)]
    fn flush_more(&mut self) -> Option<CancelledWrites> {
        let cancelled = self.more().awaited.then(|| self.take_cancelled());
        let more = self.more();
        let held = mem::take(&mut more.held_run);
        more.flushed_run.add(held);
        more.flushed = more.entries.len();
        more.parts.release();
        cancelled
    }

    /// Takes out what was held and has been cancelled; the rest can no longer be.
    #[cold]
    fn take_cancelled(&mut self) -> CancelledWrites {
        let mut cancelled = CancelledWrites::default();
        let Outbound { bytes, more, .. } = self.take_held();
        let PendingWrites { parts, messages, entries, .. } = *more.unwrap_or_default();
        let (mut stream, mut messages) = (parts.into_messages(bytes), messages.into_iter());
        for mut entry in entries {
            let wanted = entry.done.begin();
            // One of the two has them: a transport writes one kind.
            let parts = stream.by_ref().take(entry.run.pieces);
            let msgs = messages.by_ref().take(entry.run.pieces);
            if wanted {
                parts.for_each(|part| self.hold_again(part));
                let more = self.more();
                more.messages.extend(msgs);
                more.entries.push_back(entry);
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
    fn hold_again(&mut self, part: Msg) {
        match part.into_bytes() {
            Ok(bytes) => self.hold(bytes),
            Err(part) => _ = StreamPiece::of(part).map(|piece| self.more().parts.hold(piece)),
        }
    }

    /// Takes out all that was not flushed.
    pub(crate) fn take_held(&mut self) -> Outbound {
        let more = self.more();
        more.list_runs();
        let entries = more.entries.split_off(more.flushed);
        let pieces: usize = more.entries.iter().map(|entry| entry.run.pieces).sum();
        let messages = more.messages.split_off(pieces.min(more.messages.len()));
        let awaited = mem::take(&mut more.awaited);
        let (bytes, parts) = match &mut self.more {
            None => (self.bytes.split_held(), StreamPieces::default()),
            Some(more) => more.parts.split_held(&mut self.bytes),
        };
        let more = Box::new(PendingWrites {
            parts,
            messages,
            entries,
            awaited,
            ..PendingWrites::default()
        });
        Outbound { bytes, more: Some(more), ..Self::default() }
    }

    /// True if one chunk of bytes was flushed that nobody waits for, and there is nothing else.
    #[inline]
    pub(crate) fn is_one_chunk(&self) -> bool {
        self.more.is_none() && self.bytes.is_one_chunk() && self.spent.is_empty()
    }

    /// Takes that chunk out: it was written.
    #[inline]
    pub(crate) fn take_one_chunk(&mut self) -> Option<Bytes> {
        self.bytes.take_one_chunk()
    }

    /// Whether anything has left since this was last asked. To be asked before how much it was.
    #[inline]
    pub(crate) fn take_moved(&mut self) -> bool {
        let moved = self.more.as_mut().is_some_and(|more| mem::take(&mut more.moved));
        moved || self.left > 0
    }

    /// How many bytes no longer wait, and how many were written, since this was last asked.
    #[inline]
    pub(crate) fn take_left(&mut self) -> (usize, usize) {
        let left = mem::take(&mut self.left);
        let surplus = self.more.as_mut().map_or(0, |more| {
            more.release_room();
            mem::take(&mut more.surplus)
        });
        (left, left.wrapping_add(surplus))
    }

    /// Whether somebody is to be told of what has left.
    #[inline]
    pub(crate) fn has_completions(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !more.completions.is_empty())
    }

    /// Whom to tell of what has left since this was last asked.
    pub(crate) fn take_completions(&mut self) -> CompletionResults {
        self.more.as_mut().map(|more| mem::take(&mut more.completions)).unwrap_or_default()
    }

    /// Takes out the bytes that were all there was, if they were written. To be asked for before anything is
    /// appended; the caller drops them where nothing is borrowed.
    #[inline]
    pub(super) fn take_spent_bytes(&mut self) -> Option<Bytes> {
        self.bytes.take_spent()
    }

    /// True if something else has been written or refused, and is to be dropped.
    #[inline]
    pub(super) fn has_spent(&self) -> bool {
        !self.spent.is_empty()
    }

    /// What else has been written or refused, for the caller to take out and to drop in the same way.
    #[inline]
    pub(super) fn spent(&mut self) -> &mut DropQueue {
        &mut self.spent
    }

    /// Takes out what was flushed: it will not be written.
    pub(crate) fn take_flushed(&mut self) -> Outbound {
        let mut held = self.take_held();
        held.spent = mem::take(&mut self.spent);
        mem::replace(self, held)
    }

    /// All of it has failed.
    pub(crate) fn fail(mut self, error: &Error) -> FailedWrites {
        self.more().list_runs();
        let PendingWrites { parts, messages, entries, mut completions, .. } =
            *self.more.unwrap_or_default();
        let mut bytes = self.left;
        for PendingWrite { run, done } in entries {
            bytes = bytes.saturating_add(run.left);
            if !done.is_none() {
                completions.push_back((done, Err(error.clone())));
            }
        }
        let mut messages: VecDeque<Msg> = messages.into_iter().map(|(msg, _)| msg).collect();
        messages.extend(parts.into_messages(self.bytes));
        let spent = self.spent.take();
        messages.extend(spent.chunks.into_iter().map(Msg::from).chain(spent.messages));
        FailedWrites { bytes, completions, messages }
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("bytes", &self.bytes.len())
            .field("file", &self.file())
            .field("ancillary", &self.ancillary())
            .field("messages", &self.more.as_ref().map_or(0, |more| more.messages.len()))
            .finish_non_exhaustive()
    }
}
