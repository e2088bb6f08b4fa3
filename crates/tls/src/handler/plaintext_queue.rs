//! The write direction: plaintext waits in order until it is flushed, TLS can encrypt it, and the channel has room for
//! it (T05).
//!
//! ```text
//!   write ──► single ────────────────────flush──► encrypt ──► the handlers before this one
//!        └──► queue [plaintext] ──flush──► pump: a batch ──► encrypt ──┘
//! ```
//!
//! - Nothing is encrypted before it is flushed: a close drops what is not flushed, and records must not have gaps.
//! - A message that is flushed alone, the usual answer to a request, passes the queue by. Until it is flushed, and if it
//!   is not larger than a record, it does not count as pending bytes. Everything else that waits does, up to the hard
//!   cap less the overhead of a batch.
//! - A batch is several small messages, which become one record, or at most 64 KiB of a large one. A message with a
//!   completion ends its batch, so its completion belongs to the write of its last byte.
//! - The pump stops while the channel is unwritable for another reason than the plaintext that waits here. The last
//!   batch before others carries a completion of the handler, which makes the pump go on.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{ChannelError, Completion, Ctx, HeldBytes, LocalCtx, PendingWriteQueue};
use waterwheel_executor::Error;

use super::timers;
use crate::error::TlsError;
use crate::session::{RECORD_SIZE, TlsSession};

/// The largest plaintext that is encrypted at once: four records.
const MAX_BATCH: usize = 4 * RECORD_SIZE;

/// The most messages that become one record.
const MAX_PARTS: usize = 16;

#[derive(Default)]
pub(super) struct PlaintextQueue {
    /// A small message that was written after everything else was encrypted.
    single: Option<(Bytes, Completion)>,
    is_single_flushed: bool,
    queue: PendingWriteQueue,
    /// The rest of a message whose beginning was encrypted. Flushed.
    rest: Option<HeldRest>,
    /// The messages of a batch; empty between calls.
    parts: Vec<Bytes>,
    /// The plaintext since the last write that was watched.
    unwatched: usize,
    /// The number of watched writes that are not done.
    in_flight: Rc<Cell<usize>>,
}

struct HeldRest {
    bytes: Bytes,
    done: Completion,
    held: HeldBytes,
}

impl PlaintextQueue {
    #[inline]
    pub(super) fn push(&mut self, ctx: &Ctx<'_>, bytes: Bytes, done: Completion) {
        if bytes.len() <= RECORD_SIZE && self.single.is_none() && !self.is_waiting() {
            (self.single, self.is_single_flushed) = (Some((bytes, done)), false);
        } else {
            self.queue_single(ctx);
            self.queue.push(ctx, bytes, done);
        }
    }

    /// Moves the single message to the queue, where it counts as pending.
    pub(super) fn queue_single(&mut self, ctx: &Ctx<'_>) {
        if let Some((bytes, done)) = self.single.take() {
            self.queue.push(ctx, bytes, done);
            if self.is_single_flushed {
                self.queue.flush();
            }
        }
    }

    /// Marks what waits as flushed.
    #[inline]
    pub(super) fn flush(&mut self) {
        self.is_single_flushed = true;
        self.queue.flush();
    }

    /// True if something flushed waits.
    #[inline]
    pub(super) fn has_flushed(&self) -> bool {
        self.has_queued() || (self.single.is_some() && self.is_single_flushed)
    }

    #[inline]
    fn has_queued(&self) -> bool {
        self.queue.flushed() > 0 || self.rest.is_some()
    }

    /// True if something waits that is not the single message.
    #[inline]
    fn is_waiting(&self) -> bool {
        self.rest.is_some() || !self.queue.is_empty()
    }

    /// Encrypts what is flushed while there is room. Returns true if something was written.
    ///
    /// # Errors
    /// The session cannot encrypt any more.
    #[inline]
    pub(super) fn pump(
        &mut self,
        ctx: &Ctx<'_>,
        session: &mut TlsSession,
    ) -> Result<bool, rustls::Error> {
        if self.is_single_flushed && self.single.is_some() {
            // The message that fills the channel is watched, and so needs the queue.
            if let Some((bytes, mut done)) =
                self.single.take_if(|(bytes, _)| leaves_room(ctx, bytes.len()))
            {
                if done.begin() {
                    write_record(ctx, session, &bytes, done)?;
                }
                return Ok(true);
            }
            self.queue_single(ctx);
        }
        self.pump_queue(ctx, session, Self::has_room)
    }

    /// Encrypts what is flushed, however much room there is.
    ///
    /// # Errors
    /// The session cannot encrypt any more.
    pub(super) fn pump_all(
        &mut self,
        ctx: &Ctx<'_>,
        session: &mut TlsSession,
    ) -> Result<bool, rustls::Error> {
        self.queue_single(ctx);
        self.pump_queue(ctx, session, |_, _| true)
    }

    fn pump_queue(
        &mut self,
        ctx: &Ctx<'_>,
        session: &mut TlsSession,
        has_room: impl Fn(&Self, &Ctx<'_>) -> bool,
    ) -> Result<bool, rustls::Error> {
        let mut has_written = false;
        while self.has_queued() && has_room(self, ctx) {
            self.write_batch(ctx, session)?;
            has_written = true;
        }
        Ok(has_written)
    }

    fn has_room(&self, ctx: &Ctx<'_>) -> bool {
        if self.in_flight.get() == 0 {
            return true;
        }
        if ctx.bytes_before_refusal() < MAX_BATCH / 2 {
            return false;
        }
        if ctx.is_writable() {
            return true;
        }
        // The plaintext that waits here counts as pending too, and must not stop the pump it waits for.
        let missing = ctx.bytes_before_writable();
        missing > 0 && missing <= self.held_bytes()
    }

    fn held_bytes(&self) -> usize {
        self.queue.bytes() + self.rest.as_ref().map_or(0, |rest| rest.bytes.len())
    }

    fn write_batch(
        &mut self,
        ctx: &Ctx<'_>,
        session: &mut TlsSession,
    ) -> Result<(), rustls::Error> {
        let mut done = self.fill_batch(ctx);
        let len = self.parts.iter().map(Bytes::len).sum::<usize>();
        self.unwatched += len;
        // Without a watched write, the pump would not know when there is room for the messages that come next.
        let fills_channel = self.in_flight.get() == 0 && !leaves_room(ctx, len);
        if fills_channel || (self.unwatched >= RECORD_SIZE && self.has_queued()) {
            self.unwatched = 0;
            done = self.watch(ctx, done);
        }
        let written = match &self.parts[..] {
            [part] => write_record(ctx, session, part, done),
            parts => write_record(ctx, session, &parts.concat(), done),
        };
        self.parts.clear();
        written
    }

    /// Moves the messages of the next batch to `parts`. Returns the completion of the last one.
    fn fill_batch(&mut self, ctx: &Ctx<'_>) -> Completion {
        let mut total = 0;
        while let Some((mut bytes, done)) = self.take_next() {
            let room = if total == 0 { MAX_BATCH } else { RECORD_SIZE.saturating_sub(total) };
            if bytes.len() > room {
                if total == 0 {
                    self.parts.push(bytes.split_to(room));
                }
                let held = ctx.count_held_bytes(bytes.len());
                self.rest = Some(HeldRest { bytes, done, held });
                break;
            }
            total += bytes.len();
            self.parts.push(bytes);
            if !done.is_none() {
                return done;
            }
            if total >= RECORD_SIZE || self.parts.len() == MAX_PARTS || !self.has_queued() {
                break;
            }
        }
        Completion::none()
    }

    fn take_next(&mut self) -> Option<(Bytes, Completion)> {
        if let Some(HeldRest { bytes, done, held }) = self.rest.take() {
            drop(held);
            return Some((bytes, done));
        }
        let (msg, done) = self.queue.pop()?;
        Some((msg.into_bytes().unwrap_or_default(), done))
    }

    /// Makes the pump go on when the write that gets the returned completion is done.
    fn watch(&self, ctx: &Ctx<'_>, done: Completion) -> Completion {
        let (in_flight, local) = (self.in_flight.clone(), ctx.to_local());
        in_flight.set(in_flight.get() + 1);
        Completion::local(move |result| {
            in_flight.set(in_flight.get() - 1);
            go_on(&local, result.as_ref().err());
            done.complete(result);
        })
    }

    /// Fails everything that waits.
    pub(super) fn fail_all(&mut self, ctx: &Ctx<'_>, error: &Error) {
        self.queue_single(ctx);
        if let Some(rest) = self.rest.take() {
            rest.done.fail(error.clone());
        }
        self.queue.fail_all(ctx, error);
    }

    /// Fails everything that waits with the error of the closed channel.
    pub(super) fn fail_closed(&mut self, ctx: &Ctx<'_>) {
        self.queue_single(ctx);
        if let Some(HeldRest { bytes, done, .. }) = self.rest.take() {
            ctx.write_with(bytes, done);
        }
        self.queue.write_all(ctx);
    }
}

/// The most bytes by which the ciphertext of a batch exceeds its plaintext.
const OVERHEAD: usize = 256;

/// Returns the error of a message of so many bytes that must not be held; `None` if it may. The hard cap leaves room for
/// the overhead of a batch: what was accepted can be encrypted and written.
#[inline]
pub(super) fn refusal(ctx: &Ctx<'_>, plaintext: usize) -> Option<ChannelError> {
    ctx.held_write_error(plaintext.saturating_add(OVERHEAD))
}

/// True if the channel stays writable with the ciphertext of so much plaintext, up to a batch.
#[inline]
fn leaves_room(ctx: &Ctx<'_>, plaintext: usize) -> bool {
    ctx.bytes_before_unwritable() > plaintext + OVERHEAD
}

/// Encrypts plaintext and writes it. If the channel is full nevertheless, because its hard cap was lowered or others have
/// filled it, it is closed: the peer can neither decrypt what follows a gap, nor do without the plaintext.
fn write_record(
    ctx: &Ctx<'_>,
    session: &mut TlsSession,
    plaintext: &[u8],
    done: Completion,
) -> Result<(), rustls::Error> {
    match session.encrypt(plaintext) {
        Ok(ciphertext) => {
            if let Some(error) = ctx.held_write_error(ciphertext.len()) {
                refuse(ctx, error, done);
                return Ok(());
            }
            match done.is_none() {
                true => ctx.write(ciphertext),
                false => ctx.write_with(ciphertext, done),
            }
            Ok(())
        }
        Err(error) => {
            done.fail(TlsError::Protocol(error.clone()).into());
            Err(error)
        }
    }
}

#[cold]
fn refuse(ctx: &Ctx<'_>, error: ChannelError, done: Completion) {
    let is_full = matches!(error, ChannelError::BufferFull { .. });
    let error = Error::from(error);
    done.fail(error.clone());
    if is_full {
        ctx.abort(error);
    }
}

/// Calls the handler again; closes the channel if ciphertext was refused, because the peer cannot decrypt what follows
/// a gap.
fn go_on(local: &LocalCtx, failure: Option<&Error>) {
    match failure.filter(|error| !error.is_closed()).cloned() {
        // If the handler is gone, nothing waits.
        Some(refused) => drop(local.run(move |ctx| ctx.abort(refused))),
        None => timers::call_soon(local, timers::WRITTEN),
    }
}
