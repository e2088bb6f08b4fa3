//! Writability: pending bytes against the water marks, and the reasons of handlers (C07, K09).
//!
//! ```text
//!   pending bytes > high ──► above the mark until < low ─┐
//!   a handler's backlog is too long ─────────────────────┼──► any of these: not writable
//!   a handler's `Unwritable` declaration ────────────────┘
//! ```
//!
//! Sums saturate: a message may claim any size.

use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::handle::shared_state::ChannelShared;
use crate::pipeline::dispatch::event::WritabilityChanged;
use crate::pipeline::slots::slot_list::HEAD;

/// The writability of a channel, and the last announcement of it.
#[derive(Debug)]
pub(crate) struct Writability {
    /// The number of reasons other than the water marks: handlers with too many waiting writes, and declarations.
    unwritable_reasons: Cell<u32>,
    /// True from the moment the pending bytes exceed the high water mark until they are below the low one.
    is_above_mark: Cell<bool>,
    /// True if neither of the above makes the channel unwritable.
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
            unwritable_reasons: Cell::new(0),
            is_above_mark: Cell::new(false),
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

    /// Makes the channel unwritable until [`remove_unwritable_reason`](Self::remove_unwritable_reason).
    pub(crate) fn add_unwritable_reason(self: &Rc<Self>) {
        let reasons = &self.writability.unwritable_reasons;
        reasons.set(reasons.get() + 1);
        self.update_writable();
    }

    pub(crate) fn remove_unwritable_reason(self: &Rc<Self>) {
        let reasons = &self.writability.unwritable_reasons;
        reasons.set(reasons.get() - 1);
        self.update_writable();
    }

    /// Returns the bytes in the buffer, those that handlers hold, and those of writes that wait at a busy handler
    /// (rule 6) or in deferred calls.
    #[inline]
    pub(in crate::channel) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    #[inline]
    pub(in crate::channel) fn set_pending(&self, bytes: usize) {
        self.shared.set_pending(bytes);
    }

    /// Returns all pending bytes, including those that other threads have submitted.
    pub(crate) fn total_pending(&self) -> usize {
        self.pending().saturating_add(self.shared.submitted())
    }

    pub(crate) fn bytes_before_refusal(&self) -> usize {
        self.options().water_marks.hard_cap().saturating_sub(self.total_pending())
    }

    #[inline]
    pub(crate) fn check_high_mark(self: &Rc<Self>) {
        if !self.writability.is_above_mark.get()
            && self.total_pending() > self.options().water_marks.high()
        {
            self.set_above_mark(true);
        }
    }

    #[inline(always)]
    pub(crate) fn check_low_mark(self: &Rc<Self>) {
        if self.writability.is_above_mark.get()
            && self.total_pending() < self.options().water_marks.low()
        {
            self.set_above_mark(false);
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
    fn set_above_mark(self: &Rc<Self>, is_above: bool) {
        self.writability.is_above_mark.set(is_above);
        self.update_writable();
    }

    /// Recomputes the writability after one of its causes has changed. A change is announced later.
    fn update_writable(self: &Rc<Self>) {
        let state = &self.writability;
        let is_writable = !state.is_above_mark.get() && state.unwritable_reasons.get() == 0;
        if state.is_writable.replace(is_writable) != is_writable {
            state.has_changed.set(true);
            self.publish_writable();
            self.mark_deferred(DeferredWork::WRITABILITY);
        }
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

/// A handler's declaration that the channel is not writable, for a reason of its own: a limit it enforces, or
/// another connection that cannot keep up. Created by [`Ctx::declare_unwritable`](crate::Ctx::declare_unwritable);
/// the declaration ends when this is dropped.
///
/// Any number of declarations may exist at once. The channel is writable again when all have ended and the
/// pending bytes allow it. Writes are not refused meanwhile: like the water marks, a declaration only asks
/// others to wait. An accepted channel pauses its reads ([`PauseReads`](crate::PauseReads)).
#[must_use = "the declaration ends when this is dropped"]
pub struct Unwritable(Weak<ChannelCore>);

impl Unwritable {
    pub(crate) fn new(core: &Rc<ChannelCore>) -> Self {
        core.add_unwritable_reason();
        Self(Rc::downgrade(core))
    }
}

impl Drop for Unwritable {
    fn drop(&mut self) {
        if let Some(core) = self.0.upgrade() {
            core.remove_unwritable_reason();
        }
    }
}

impl fmt::Debug for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unwritable").field(&self.0.upgrade()).finish()
    }
}

/// Bytes that a handler holds back and will write later, in whatever form. They count as pending bytes of the
/// channel: for its water marks, its hard cap and the drain of its loop. Created by
/// [`Ctx::count_held_bytes`](crate::Ctx::count_held_bytes); the count ends when this is dropped.
///
/// A handler that holds whole messages uses a [`PendingWriteQueue`](crate::PendingWriteQueue) instead.
#[derive(Default)]
pub struct HeldBytes {
    core: Weak<ChannelCore>,
    /// The state that handles of the channel read, which may outlive the channel.
    shared: Option<Arc<ChannelShared>>,
    bytes: usize,
}

impl HeldBytes {
    pub(crate) fn new(core: &Rc<ChannelCore>, bytes: usize) -> Self {
        let (core, shared) = (Rc::downgrade(core), Some(core.shared.clone()));
        let mut held = Self { core, shared, bytes: 0 };
        held.set(bytes);
        held
    }

    /// Returns the bytes that are counted.
    #[must_use]
    pub fn get(&self) -> usize {
        self.bytes
    }

    /// Changes the number of bytes. May change the writability, which is announced when the outermost call into
    /// the channel has returned.
    pub fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        match (self.core.upgrade(), &self.shared) {
            (Some(core), _) if bytes > before => core.add_pending(bytes - before),
            (Some(core), _) => core.remove_pending(before - bytes),
            (None, Some(shared)) => shared.set_pending(
                shared.pending.load(Ordering::Relaxed).saturating_sub(before).saturating_add(bytes),
            ),
            (None, None) => {}
        }
    }

    /// Subtracts bytes, then calls `write`, which writes them to `core`. The water marks are checked after both,
    /// so that bytes that move on from a handler to the channel's buffer are not announced as room in between.
    pub(crate) fn pass_on(&mut self, core: &Rc<ChannelCore>, bytes: usize, write: impl FnOnce()) {
        self.bytes = self.bytes.saturating_sub(bytes);
        core.set_pending(core.pending().saturating_sub(bytes));
        write();
        core.check_low_mark();
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for HeldBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeldBytes").field(&self.bytes).finish()
    }
}
