//! A queue for handlers that hold writes back (K09).
//!
//! ```text
//!   write ──► push ──► [ a  b │ c  d ] ──► write_next, write_part, write_flushed ──► the handlers before this one
//!   flush ──► flush ────────┘ moves this mark to the end
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::mem;

use bytes::Bytes;
use waterwheel_executor::Error;

use super::completion::Completion;
use super::context::Ctx;
use super::message::Msg;
use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::writing::writability::HeldBytes;
use crate::payload::FileRegion;

/// Writes that a handler holds back: until a handshake is over, a rate allows them, or a compressor has enough.
///
/// The queue keeps what the channel's own buffer would keep:
///
/// - The size of each message counts as pending bytes of the channel ([`Message::size_hint`](crate::Message::size_hint),
///   at least one byte each), so that water marks, hard cap and the drain of the loop stay true. A message beyond the
///   hard cap is refused.
/// - A message stays with its completion, which moves on with it. A completion whose message is dropped fails.
/// - The flush mark: [`flush`](Self::flush) marks the queued messages as flushed; later ones are not.
///
/// A handler that is removed, or whose channel has closed, calls [`write_all`](Self::write_all) in
/// [`Handler::on_removed`](crate::Handler::on_removed): on an open channel nothing is lost, and on a closed one every
/// write fails with the cause of the close. A queue that is dropped with messages fails their completions.
///
/// ```
/// use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg, PendingWriteQueue};
///
/// /// Holds all writes until a user event arrives.
/// #[derive(Default)]
/// struct Gate {
///     held: PendingWriteQueue,
///     is_open: bool,
/// }
///
/// impl Handler for Gate {
///     fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
///         if self.is_open {
///             ctx.write_with(msg, done.take());
///         } else {
///             self.held.push(ctx, msg, done.take());
///         }
///         Ok(())
///     }
///
///     fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         self.held.flush();
///         ctx.flush();
///         Ok(())
///     }
///
///     fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
///         self.is_open = true;
///         self.held.write_all(ctx);
///         ctx.fire_user_event(event);
///         Ok(())
///     }
///
///     fn on_removed(&mut self, ctx: &Ctx<'_>) {
///         self.held.write_all(ctx);
///     }
/// }
/// ```
#[derive(Default)]
pub struct PendingWriteQueue {
    writes: VecDeque<HeldWrite>,
    /// The number of flushed writes, at the front.
    flushed: usize,
    /// The pending bytes of all writes.
    held: HeldBytes,
}

struct HeldWrite {
    msg: Msg,
    /// The size of the message when it was queued, at least one. Asked once, because a message may change its hint.
    size: usize,
    done: Completion,
}

impl PendingWriteQueue {
    /// Appends a write. `done` fails at once if the channel is closed, its output is shut down, or the message
    /// exceeds the channel's hard cap.
    pub fn push(&mut self, ctx: &Ctx<'_>, msg: impl Into<Msg>, done: impl Into<Completion>) {
        let (msg, done) = (msg.into(), done.into());
        // At least one byte, so that a drain of the loop waits for the message.
        let size = msg.size_hint().max(1);
        if let Some(error) = ctx.core().held_write_error(size) {
            return ctx.core().refuse_write_with(error, msg, done);
        }
        if self.writes.is_empty() {
            self.held = HeldBytes::new(ctx.core(), 0);
        }
        self.held.set(self.held.get().saturating_add(size));
        self.writes.push_back(HeldWrite { msg, size, done });
    }

    /// Marks all queued writes as flushed.
    pub fn flush(&mut self) {
        self.flushed = self.writes.len();
    }

    /// True if no write is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the number of queued writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns the number of flushed writes. They are at the front.
    #[must_use]
    pub fn flushed(&self) -> usize {
        self.flushed
    }

    /// Returns the pending bytes of all queued writes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.held.get()
    }

    /// Returns the next message, and its pending bytes.
    #[must_use]
    pub fn front(&self) -> Option<(&Msg, usize)> {
        self.writes.front().map(|write| (&write.msg, write.size))
    }

    /// Removes the next write, for a handler that transforms the message. The handler is responsible for the
    /// completion from then on. Writes that were cancelled ([`Completion::begin`]) are skipped; while there are flushed
    /// writes, none after the flush mark is returned.
    ///
    /// The bytes no longer count: use [`write_next`](Self::write_next) to pass the message on as it is.
    pub fn pop(&mut self) -> Option<(Msg, Completion)> {
        let only_flushed = self.flushed > 0;
        while self.flushed > 0 || !only_flushed {
            let mut write = self.take_front()?;
            self.held.set(self.held.get().saturating_sub(write.size));
            if write.done.begin() {
                return Some((write.msg, write.done));
            }
        }
        None
    }

    /// Writes the next message to the handlers before this one, without a flush. Returns its pending bytes; `None`
    /// if the queue is empty.
    pub fn write_next(&mut self, ctx: &Ctx<'_>) -> Option<usize> {
        self.write_part(ctx, usize::MAX)
    }

    /// Writes like [`write_next`](Self::write_next), but if the next message is more than `max` bytes, only that
    /// many of them; the rest stays at the front, with the completion. If such a part is refused, the channel is
    /// closed: the peer would miss it. Bytes and file regions can be split; any other
    /// message is written whole. Each part of a file region counts as a region of its own; one that would exceed the
    /// hard cap with another part is written whole.
    pub fn write_part(&mut self, ctx: &Ctx<'_>, max: usize) -> Option<usize> {
        let room = ctx.bytes_before_refusal();
        let can_split = |msg: &Msg| msg.is::<Bytes>() || room >= FileRegion::PENDING_BYTES;
        let front = self.writes.front_mut();
        let front = front.filter(|write| is_longer(&write.msg, max) && can_split(&write.msg));
        // After its first part a write can no longer be cancelled. A cancelled write is passed on whole: the
        // channel's buffer leaves it out.
        if let Some(write) = front
            && (max == 0 || write.done.begin())
            && let Some(part) = split_front(&mut write.msg, max)
        {
            // A file region has the same pending size until its last part is sent.
            let size = if part.is::<Bytes>() { max } else { 0 };
            write.size -= size;
            if max > 0 {
                let done = Completion::of_part(ctx.core());
                self.held.pass_on(ctx.core(), size, || ctx.write_with(part, done));
            }
            return Some(size);
        }
        let HeldWrite { msg, size, done } = self.take_front()?;
        self.held.pass_on(ctx.core(), size, || ctx.write_with(msg, done));
        Some(size)
    }

    /// Writes the flushed messages, and flushes.
    pub fn write_flushed(&mut self, ctx: &Ctx<'_>) {
        if self.flushed > 0 {
            while self.flushed > 0 && self.write_next(ctx).is_some() {}
            ctx.flush();
        }
    }

    /// Writes all messages. Those that were flushed are flushed; the others are not.
    pub fn write_all(&mut self, ctx: &Ctx<'_>) {
        self.write_flushed(ctx);
        while self.write_next(ctx).is_some() {}
    }

    /// Fails all writes with `error`, and drops their messages.
    pub fn fail_all(&mut self, ctx: &Ctx<'_>, error: &Error) {
        while let Some(HeldWrite { msg, size, done }) = self.take_front() {
            self.held.set(self.held.get().saturating_sub(size));
            ctx.core().complete_later(done, Err(error.clone()));
            ctx.core().drop_catching_panic(msg.type_name(), msg);
        }
    }

    fn take_front(&mut self) -> Option<HeldWrite> {
        let write = self.writes.pop_front()?;
        self.flushed = self.flushed.saturating_sub(1);
        shrink_if_empty(&mut self.writes);
        Some(write)
    }
}

/// True if the message can be split and has more than `max` bytes.
fn is_longer(msg: &Msg, max: usize) -> bool {
    msg.get::<Bytes>().is_some_and(|bytes| bytes.len() > max)
        || msg.get::<FileRegion>().is_some_and(|region| region.len() > max as u64)
}

/// Takes the first `len` bytes off a message that is longer than that.
fn split_front(msg: &mut Msg, len: usize) -> Option<Msg> {
    let (first, rest) = match mem::replace(msg, Msg::new(())).into_bytes() {
        Ok(mut bytes) => (bytes.split_to(len).into(), bytes.into()),
        Err(other) => {
            let mut region = other.take::<FileRegion>().ok()?;
            (region.split_to(len as u64).into(), region.into())
        }
    };
    *msg = rest;
    Some(first)
}

impl fmt::Debug for PendingWriteQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWriteQueue")
            .field("writes", &self.writes.len())
            .field("flushed", &self.flushed)
            .field("bytes", &self.held.get())
            .finish()
    }
}
