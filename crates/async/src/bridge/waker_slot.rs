//! The waker of a future that waits.

use std::cell::{Cell, RefCell};
use std::task::Waker;

/// The waker of the one future that waits for something. The waker is kept when the future was woken: usually the
/// same future waits again.
#[derive(Default)]
pub(super) struct WakerSlot {
    waker: RefCell<Option<Waker>>,
    is_waiting: Cell<bool>,
}

impl WakerSlot {
    /// Notes that the future of this waker waits.
    pub(super) fn wait(&self, waker: &Waker) {
        self.is_waiting.set(true);
        let is_same = self.waker.borrow().as_ref().is_some_and(|kept| kept.will_wake(waker));
        if !is_same {
            let waker = waker.clone();
            let before = self.waker.replace(Some(waker));
            drop(before);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }

    /// Wakes the future if it waits.
    pub(super) fn wake(&self) {
        if !self.is_waiting.replace(false) {
            return;
        }
        let Some(waker) = self.waker.take() else { return };
        waker.wake_by_ref();
        let mut kept = self.waker.borrow_mut();
        if kept.is_none() {
            *kept = Some(waker);
        } else {
            drop(kept);
            drop(waker);
        }
    }

    /// Drops the waker: nobody waits any more.
    pub(super) fn clear(&self) {
        self.is_waiting.set(false);
        let waker = self.waker.take();
        drop(waker);
    }
}
