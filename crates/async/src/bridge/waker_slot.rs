//! The waker of a future that waits.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use waterwheel_channel::{LocalJoin, LocalLoop};

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

    /// Polls the future at once if it waits and is this task; otherwise wakes it, if it waits.
    pub(super) fn poll_or_wake(&self, here: &LocalLoop, task: Option<&LocalJoin<()>>) {
        if !self.is_waiting.get() {
            return;
        }
        let is_task = |task: &&LocalJoin<()>| {
            self.waker.borrow().as_ref().is_some_and(|waker| task.is_woken_by(waker))
        };
        if let Some(task) = task.filter(is_task) {
            self.is_waiting.set(false);
            if task.poll_now(here) {
                return;
            }
            self.is_waiting.set(true); // The task is being polled: it has caused this itself.
        }
        self.wake();
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
