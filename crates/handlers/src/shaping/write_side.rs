//! The write direction: messages are held until the limiters let them pass.

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Completion, Ctx, FileRegion, Msg, PendingWriteQueue};
use waterwheel_executor::Nanos;

use super::delay_marks::DelayMarks;
use super::end_request::EndRequest;
use super::gates::Gates;
use super::traffic_size;
use super::wake_timer::WakeTimer;

pub(super) struct WriteSide {
    gates: Gates,
    queue: PendingWriteQueue,
    delays: DelayMarks,
    /// Bytes that all limiters have let pass, and that are not sent yet. Zero while nothing is held.
    allowance: u64,
    /// This channel's part of the limiters' held bytes.
    published_held: u64,
    /// Requests that wait until everything flushed was sent, in order.
    ends: Vec<EndRequest>,
    timer: WakeTimer,
}

impl WriteSide {
    pub(super) fn new(gates: Gates, longest_delay: Option<Duration>, timer: WakeTimer) -> Self {
        Self {
            gates,
            queue: PendingWriteQueue::default(),
            delays: DelayMarks::new(longest_delay),
            allowance: 0,
            published_held: 0,
            ends: Vec::new(),
            timer,
        }
    }

    pub(super) fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) {
        if let Some(end) = self.ends.first() {
            return done.take().fail(end.write_error());
        }
        let (size, now) = (traffic_size(&msg), ctx.now());
        if self.queue.is_empty() && self.gates.try_take(size, now) {
            self.gates.count(size, now);
            return ctx.write_with(msg, done.take());
        }
        self.queue.push(ctx, msg, done.take());
        self.publish_held();
    }

    pub(super) fn flush(&mut self, ctx: &Ctx<'_>) {
        // A flush after a close is for messages that have failed.
        if self.ends.is_empty() && !self.queue.is_empty() {
            let before = self.queue.flushed();
            self.queue.flush();
            self.delays.push(self.queue.flushed() - before, ctx.now());
            self.send_due(ctx);
        }
        ctx.flush();
    }

    /// Passes a request on when everything flushed was sent.
    pub(super) fn end(&mut self, ctx: &Ctx<'_>, mut end: EndRequest) {
        if !end.begin() {
            return; // Cancelled.
        }
        self.ends.push(end);
        if self.queue.flushed() == 0 {
            self.pass_on_ends(ctx);
        }
    }

    /// True while a request to close the channel waits.
    pub(super) fn is_closing(&self) -> bool {
        self.ends.iter().any(EndRequest::is_close)
    }

    pub(super) fn on_timer(&mut self, ctx: &Ctx<'_>) {
        self.timer.on_fired();
        self.send_and_flush(ctx);
    }

    pub(super) fn on_rate_changed(&mut self) {
        self.gates.on_rate_changed();
    }

    pub(super) fn apply_rates(&mut self, ctx: &Ctx<'_>) {
        self.gates.apply_rates(ctx.now());
        self.send_and_flush(ctx);
    }

    fn send_and_flush(&mut self, ctx: &Ctx<'_>) {
        if self.send_due(ctx) {
            ctx.flush();
        }
        if self.queue.flushed() == 0 {
            self.pass_on_ends(ctx);
        }
    }

    /// Writes the flushed messages that may be sent now, and sets the timer for the rest. Returns true if something was
    /// written, which the caller flushes.
    fn send_due(&mut self, ctx: &Ctx<'_>) -> bool {
        let (now, mut has_written) = (ctx.now(), false);
        let wake_at = loop {
            let Some((front, _)) = self.queue.front().filter(|_| self.queue.flushed() > 0) else {
                self.give_back_unused();
                break Nanos::MAX;
            };
            let (size, is_region) = (traffic_size(front), front.is::<FileRegion>());
            let is_splittable = is_region || front.is::<Bytes>();
            let is_overdue = self.delays.deadline() <= now;
            if size > 0 && self.allowance == 0 && !is_overdue {
                let wanted = if is_region { size } else { self.held_bytes().max(size) };
                match self.gates.pass(self.gates.quantum().min(wanted), ctx) {
                    Ok(bytes) => self.allowance = bytes,
                    Err(due) => break due.min(self.delays.deadline()),
                }
            }
            has_written = true;
            if is_overdue {
                self.gates.pass_overdue(size, now);
                self.send_front(ctx, size, now);
            } else if is_splittable && size > self.allowance {
                self.send_part(ctx, size, now);
            } else {
                // A message of another type cannot be split: the excess is a debt.
                self.gates.charge(size.saturating_sub(self.allowance), now);
                self.allowance = self.allowance.saturating_sub(size);
                self.send_front(ctx, size, now);
            }
        };
        self.publish_held();
        self.timer.set(wake_at, ctx);
        has_written
    }

    fn send_front(&mut self, ctx: &Ctx<'_>, size: u64, now: Nanos) {
        self.gates.count(size, now);
        self.delays.pop();
        self.queue.write_next(ctx);
    }

    /// Sends as much of the first message, which has `size` bytes, as the limiters have let pass.
    fn send_part(&mut self, ctx: &Ctx<'_>, size: u64, now: Nanos) {
        let (part, messages) = (mem::take(&mut self.allowance), self.queue.len());
        let is_region = self.queue.front().is_some_and(|(front, _)| front.is::<FileRegion>());
        self.queue.write_part(ctx, usize::try_from(part).unwrap_or(usize::MAX));
        let is_whole = self.queue.len() < messages;
        if is_whole {
            self.delays.pop();
        }
        if is_whole && is_region {
            // Close to the hard cap a region is not split.
            self.gates.charge(size - part, now);
            self.gates.count(size, now);
        } else if is_whole {
            self.gates.give_back(part); // The write was cancelled.
        } else {
            self.gates.count(part, now);
        }
    }

    fn give_back_unused(&mut self) {
        self.gates.return_tickets();
        self.gates.give_back(mem::take(&mut self.allowance));
    }

    fn pass_on_ends(&mut self, ctx: &Ctx<'_>) {
        if self.ends.is_empty() {
            return;
        }
        // Messages that were not flushed fail with the close or the shutdown.
        self.queue.write_all(ctx);
        self.delays.clear();
        self.publish_held();
        for end in mem::take(&mut self.ends) {
            end.pass_on(ctx);
        }
    }

    /// Passes everything on at once: the handler is removed; or the channel closed, and every message fails with the
    /// cause.
    pub(super) fn release(&mut self, ctx: &Ctx<'_>) {
        self.timer.cancel(ctx);
        self.give_back_unused();
        self.gates.leave();
        if ctx.is_active() {
            let now = ctx.now();
            while self.queue.flushed() > 0
                && let Some((front, _)) = self.queue.front()
            {
                self.send_front(ctx, traffic_size(front), now);
                if self.queue.flushed() == 0 {
                    ctx.flush();
                }
            }
        }
        self.queue.write_all(ctx);
        self.delays.clear();
        self.publish_held();
        self.pass_on_ends(ctx);
    }

    fn held_bytes(&self) -> u64 {
        u64::try_from(self.queue.bytes()).unwrap_or(u64::MAX)
    }

    fn publish_held(&mut self) {
        let held = self.held_bytes();
        let before = mem::replace(&mut self.published_held, held);
        if before != held {
            self.gates.replace_held(before, held);
        }
    }
}

impl Drop for WriteSide {
    /// A handler that a panic unwound through is dropped with what it holds; the channel is closed with the panic.
    fn drop(&mut self) {
        mem::take(&mut self.ends).into_iter().for_each(EndRequest::complete_after_panic);
        self.gates.give_back(self.allowance);
        self.gates.replace_held(self.published_held, 0);
    }
}
