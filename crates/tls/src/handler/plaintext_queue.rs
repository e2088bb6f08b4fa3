//! The write direction: plaintext waits in order until it can be encrypted and the channel has room for it (T05).
//!
//! ```text
//!   write ──► queue [plaintext] ──flush──► pump: a batch ──► encrypt ──► write_encoded ──► the handlers before this one
//! ```
//!
//! - A batch is several small messages, which become one record, or at most 64 KiB of a large one. A message with a
//!   completion ends its batch, so its completion belongs to the write of its last byte.
//! - The pump stops while the channel is unwritable for another reason than the plaintext that waits here. The last
//!   batch before others carries a completion of the handler, which makes the pump go on.
//! - Everything that waits counts as pending bytes of the channel.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Completion, Ctx, HeldBytes, LocalCtx, PendingWriteQueue};
use waterwheel_executor::Error;

use super::timers;
use crate::session::{MAX_PARTS, RECORD_SIZE, TlsSession};

/// The largest plaintext that is encrypted at once: four records.
const MAX_BATCH: usize = 4 * RECORD_SIZE;

#[derive(Default)]
pub(super) struct PlaintextQueue {
    queue: PendingWriteQueue,
    /// The rest of a message whose beginning was encrypted. Flushed.
    rest: Option<HeldRest>,
    /// The messages of a batch; empty between calls.
    parts: Vec<Bytes>,
    /// The ciphertext since the last one that was watched.
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
    pub(super) fn push(&mut self, ctx: &Ctx<'_>, bytes: Bytes, done: Completion) {
        self.queue.push(ctx, bytes, done);
    }

    /// Marks what waits as flushed.
    pub(super) fn flush(&mut self) {
        self.queue.flush();
    }

    /// True if something flushed waits.
    pub(super) fn has_flushed(&self) -> bool {
        self.rest.is_some() || self.queue.flushed() > 0
    }

    /// Encrypts what is flushed while there is room.
    pub(super) fn pump(&mut self, ctx: &Ctx<'_>, session: &mut TlsSession) {
        let mut has_written = false;
        while self.has_flushed() && self.has_room(ctx) {
            self.write_batch(ctx, session);
            has_written = true;
        }
        if has_written {
            ctx.flush();
        }
    }

    /// Encrypts what is flushed, however much room there is.
    pub(super) fn pump_all(&mut self, ctx: &Ctx<'_>, session: &mut TlsSession) {
        while self.has_flushed() {
            self.write_batch(ctx, session);
        }
        ctx.flush();
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

    fn write_batch(&mut self, ctx: &Ctx<'_>, session: &mut TlsSession) {
        let mut done = self.fill_batch(ctx);
        let parts = mem::take(&mut self.parts);
        let len = parts.iter().map(Bytes::len).sum::<usize>();
        self.unwatched += len;
        // Without a watched write, the pump would not know when there is room for the messages that come next.
        let fills_channel = self.in_flight.get() == 0 && ctx.bytes_before_unwritable() <= len;
        if fills_channel || (self.unwatched >= RECORD_SIZE && self.has_flushed()) {
            self.unwatched = 0;
            done = self.watch(ctx, done);
        }
        let encoded = ctx.write_encoded_with(&mut done, |ciphertext| {
            session.encrypt(&parts, ciphertext);
            Ok(())
        });
        debug_assert!(encoded.is_ok(), "encryption does not fail");
        self.parts = parts;
        self.parts.clear();
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
            if total >= RECORD_SIZE || self.parts.len() == MAX_PARTS || !self.has_flushed() {
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
        if let Some(rest) = self.rest.take() {
            rest.done.fail(error.clone());
        }
        self.queue.fail_all(ctx, error);
    }

    /// Fails everything that waits with the error of the closed channel.
    pub(super) fn fail_closed(&mut self, ctx: &Ctx<'_>) {
        if let Some(HeldRest { bytes, done, .. }) = self.rest.take() {
            ctx.write_with(bytes, done);
        }
        self.queue.write_all(ctx);
    }
}

/// Calls the handler again; closes the channel if ciphertext was refused, because the peer cannot decrypt what follows
/// a gap.
fn go_on(local: &LocalCtx, failure: Option<&Error>) {
    let refused = failure.filter(|error| !error.is_closed()).cloned();
    // If the handler is gone, nothing waits.
    let _gone = local.run(move |ctx| match refused {
        Some(error) => ctx.abort(error),
        None => drop(ctx.schedule(Duration::ZERO, timers::WRITTEN)),
    });
}
