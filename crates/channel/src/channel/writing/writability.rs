//! Water marks: pending bytes, and whether the channel is writable (C07).
//!
//! Sums saturate: a message may claim any size.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::pipeline::dispatch::event::WritabilityChanged;
use crate::pipeline::slots::slot_list::HEAD;

/// The writability of a channel, and the last announcement of it.
#[derive(Debug)]
pub(crate) struct Writability {
    /// The number of handlers with too many waiting writes.
    overflowing_handlers: Cell<u32>,
    is_writable: Cell<bool>,
    /// The writability that was last announced to the handlers.
    last_announced: Cell<bool>,
    /// True if the writability has changed since the last announcement: code that saw `false` meanwhile waits for
    /// an announcement.
    has_changed: Cell<bool>,
}

impl Default for Writability {
    fn default() -> Self {
        Self {
            overflowing_handlers: Cell::new(0),
            is_writable: Cell::new(true),
            last_announced: Cell::new(true),
            has_changed: Cell::new(false),
        }
    }
}

impl Writability {
    /// Returns true if the writability must be announced: it differs from the last announcement, or differed
    /// for a while and is true again. Without the second case, a handler that stopped writing meanwhile would
    /// never continue.
    pub(in crate::channel) fn take_announcement(&self) -> bool {
        // Without a change there is nothing to announce.
        self.has_changed.take() && {
            let writable = self.is_writable.get();
            self.last_announced.replace(writable) != writable || writable
        }
    }

    /// True if the writability has changed since the last announcement.
    #[inline]
    pub(in crate::channel) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    pub(in crate::channel) fn is_writable(&self) -> bool {
        self.is_writable.get()
    }
}

impl ChannelCore {
    #[inline]
    pub(crate) fn add_pending(self: &Rc<Self>, bytes: usize) {
        self.set_pending(self.pending().saturating_add(bytes));
        self.check_high_mark();
    }

    #[inline(always)]
    pub(crate) fn remove_pending(self: &Rc<Self>, bytes: usize) {
        self.set_pending(self.pending().saturating_sub(bytes));
        self.check_low_mark();
    }

    pub(crate) fn add_overflow(self: &Rc<Self>) {
        self.writability.overflowing_handlers.set(self.writability.overflowing_handlers.get() + 1);
        self.set_writable(false);
    }

    pub(crate) fn remove_overflow(self: &Rc<Self>) {
        self.writability.overflowing_handlers.set(self.writability.overflowing_handlers.get() - 1);
        self.check_low_mark();
    }

    /// Returns the bytes in the buffer and in writes that wait at a busy handler (rule 6) or in deferred calls.
    #[inline]
    pub(in crate::channel) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    #[inline]
    pub(in crate::channel) fn set_pending(&self, bytes: usize) {
        self.shared.set_pending(bytes);
    }

    /// Returns all pending bytes, including those that other threads have submitted.
    pub(in crate::channel) fn total_pending(&self) -> usize {
        self.pending().saturating_add(self.shared.submitted())
    }

    pub(crate) fn bytes_before_refusal(&self) -> usize {
        self.options().water_marks.hard_cap().saturating_sub(self.total_pending())
    }

    #[inline]
    pub(crate) fn check_high_mark(self: &Rc<Self>) {
        if self.writability.is_writable.get()
            && self.total_pending() > self.options().water_marks.high()
        {
            self.set_writable(false);
        }
    }

    #[inline(always)]
    pub(crate) fn check_low_mark(self: &Rc<Self>) {
        let writable =
            self.writability.is_writable.get() || self.writability.overflowing_handlers.get() > 0;
        if !writable && self.total_pending() < self.options().water_marks.low() {
            self.set_writable(true);
        }
    }

    /// Announces the writability if another thread saw the channel full because of bytes that have arrived
    /// since. The loop itself may not have seen it full.
    pub(crate) fn notify_watchers(self: &Rc<Self>) {
        if self.shared.submitted.take_watched() {
            self.writability.has_changed.set(true);
            self.mark_deferred(DeferredWork::WRITABILITY);
        }
    }

    #[cold]
    fn set_writable(self: &Rc<Self>, writable: bool) {
        self.writability.is_writable.set(writable);
        self.writability.has_changed.set(true);
        self.publish_writable();
        self.mark_deferred(DeferredWork::WRITABILITY);
    }

    /// Announces a changed writability to the handlers, then pauses or resumes reads.
    #[cold]
    pub(in crate::channel) fn announce_writability(self: &Rc<Self>) {
        if self.writability.take_announcement() && self.lifecycle.get().is_open() {
            self.enter(|core| core.send_from(HEAD, WritabilityChanged));
        }
        self.pause_or_resume_reads();
    }

    /// Publishes the writability to other threads. A channel whose output is shut down is never writable: code that
    /// loops while the channel is writable, and writes, must terminate.
    pub(in crate::channel) fn publish_writable(&self) {
        self.shared.set_writable(self.writability.is_writable.get() && !self.is_output_over());
    }

    /// Returns the writability. After a `false`, the loop announces when the channel is writable again, even if only
    /// bytes that other threads have submitted made the channel unwritable.
    pub(crate) fn is_writable(self: &Rc<Self>) -> bool {
        self.check_high_mark();
        self.lifecycle.get().is_open()
            && self.writability.is_writable.get()
            && !self.is_output_over()
    }

    pub(crate) fn bytes_before_unwritable(self: &Rc<Self>) -> usize {
        let high = self.options().water_marks.high();
        if self.is_writable() {
            high.saturating_sub(self.total_pending()).saturating_add(1)
        } else {
            0
        }
    }

    pub(crate) fn bytes_before_writable(self: &Rc<Self>) -> usize {
        let low = self.options().water_marks.low();
        if self.is_writable() {
            0
        } else {
            self.total_pending().saturating_add(1).saturating_sub(low)
        }
    }
}
