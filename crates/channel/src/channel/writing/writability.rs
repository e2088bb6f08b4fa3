//! The water marks: how full a channel is, and whether it is writable (C07).
//!
//! Sums end at the end of the scale: a message may say that it weighs all there is.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::pipeline::dispatch::event::WritabilityChanged;
use crate::pipeline::slots::slot_list::HEAD;

/// How full a channel is.
#[derive(Debug)]
pub(crate) struct Writability {
    /// Handlers with too many writes waiting.
    overflow: Cell<u32>,
    writable: Cell<bool>,
    /// What the handlers were told last.
    announced: Cell<bool>,
    /// It was not writable since: whoever looked then waits to be told that it is again.
    missed: Cell<bool>,
}

impl Default for Writability {
    fn default() -> Self {
        Self {
            overflow: Cell::new(0),
            writable: Cell::new(true),
            announced: Cell::new(true),
            missed: Cell::new(false),
        }
    }
}

impl Writability {
    /// Whether the handlers are to be told: what they were told last is no longer so, or was not so for
    /// a while. A handler that stopped writing because of that would never go on.
    pub(in crate::channel) fn takes_announcement(&self) -> bool {
        // Nothing has changed if it has not changed since.
        self.missed.take() && {
            let writable = self.writable.get();
            self.announced.replace(writable) != writable || writable
        }
    }

    /// True if the writability has changed since it was last announced, or was looked at to be announced.
    #[inline]
    pub(in crate::channel) fn has_changed(&self) -> bool {
        self.missed.get()
    }

    pub(in crate::channel) fn is_writable(&self) -> bool {
        self.writable.get()
    }
}

impl ChannelCore {
    #[inline]
    pub(crate) fn add_pending(self: &Rc<Self>, bytes: usize) {
        self.set_pending(self.pending().saturating_add(bytes));
        self.rise();
    }

    #[inline(always)]
    pub(crate) fn remove_pending(self: &Rc<Self>, bytes: usize) {
        self.set_pending(self.pending().saturating_sub(bytes));
        self.fall();
    }

    pub(crate) fn add_overflow(self: &Rc<Self>) {
        self.level.overflow.set(self.level.overflow.get() + 1);
        self.set_writable(false);
    }

    pub(crate) fn remove_overflow(self: &Rc<Self>) {
        self.level.overflow.set(self.level.overflow.get() - 1);
        self.fall();
    }

    /// Bytes in the buffer, and in writes that wait at a busy handler (rule 6) or to be let in.
    #[inline]
    pub(in crate::channel) fn pending(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed)
    }

    #[inline]
    pub(in crate::channel) fn set_pending(&self, bytes: usize) {
        self.shared.set_pending(bytes);
    }

    /// Everything that waits, including what other threads have submitted.
    pub(in crate::channel) fn waiting(&self) -> usize {
        self.pending().saturating_add(self.shared.submitted())
    }

    pub(crate) fn bytes_before_refusal(&self) -> usize {
        self.options().water_marks.most().saturating_sub(self.waiting())
    }

    #[inline]
    pub(crate) fn rise(self: &Rc<Self>) {
        if self.level.writable.get() && self.waiting() > self.options().water_marks.high() {
            self.set_writable(false);
        }
    }

    #[inline(always)]
    pub(crate) fn fall(self: &Rc<Self>) {
        let writable = self.level.writable.get() || self.level.overflow.get() > 0;
        if !writable && self.waiting() < self.options().water_marks.low() {
            self.set_writable(true);
        }
    }

    /// Announces the writability if another thread saw the channel full because of bytes that were on their way
    /// and have arrived since: the loop may not have seen it full at all.
    pub(crate) fn tell_watchers(self: &Rc<Self>) {
        if self.shared.submitted.take_watched() {
            self.level.missed.set(true);
            self.mark(DeferredWork::WRITABILITY);
        }
    }

    #[cold]
    fn set_writable(self: &Rc<Self>, writable: bool) {
        self.level.writable.set(writable);
        self.level.missed.set(true);
        self.show_writable();
        self.mark(DeferredWork::WRITABILITY);
    }

    /// Tells the handlers whether the channel is writable, if that has changed; then reading follows.
    #[cold]
    pub(in crate::channel) fn announce_writability(self: &Rc<Self>) {
        if self.level.takes_announcement() && self.life.get().is_open() {
            self.enter(|core| core.go(HEAD, WritabilityChanged));
        }
        self.follow_writability();
    }

    /// Shows other threads whether it is. One whose output is over never is: whoever writes as long as it
    /// is would never end.
    pub(in crate::channel) fn show_writable(&self) {
        self.shared.set_writable(self.level.writable.get() && !self.is_output_over());
    }

    /// Whoever is told that it is not will be told when it is again: also if what is on its way from
    /// other threads is all that is in the way.
    pub(crate) fn is_writable(self: &Rc<Self>) -> bool {
        self.rise();
        self.life.get().is_open() && self.level.writable.get() && !self.is_output_over()
    }

    pub(crate) fn bytes_before_unwritable(self: &Rc<Self>) -> usize {
        let high = self.options().water_marks.high();
        if self.is_writable() { high.saturating_sub(self.waiting()).saturating_add(1) } else { 0 }
    }

    pub(crate) fn bytes_before_writable(self: &Rc<Self>) -> usize {
        let low = self.options().water_marks.low();
        if self.is_writable() { 0 } else { self.waiting().saturating_add(1).saturating_sub(low) }
    }
}
