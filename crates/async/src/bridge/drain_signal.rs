//! The future that completes when the loop of a channel begins to drain.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A future that completes when the loop begins to drain: time to finish, and to begin nothing new. Created by
/// [`AsyncChannel::draining`](crate::AsyncChannel::draining); borrows nothing, so that it can be awaited beside
/// [`next`](crate::AsyncChannel::next).
///
/// Cancel safe, and completes again if it is polled again. Never completes for a channel that is closed before.
#[must_use = "futures do nothing unless they are polled"]
pub struct DrainSignal {
    owner: Rc<dyn DrainOwner>,
    /// The place of this future's waker, while it waits.
    place: Option<u64>,
}

/// The owner of a drain state: a bridge, whatever the type of its messages.
pub(super) trait DrainOwner {
    fn drain_state(&self) -> &DrainState;
}

/// Says whether the loop drains, and who waits for that.
#[derive(Default)]
pub(super) struct DrainState {
    is_draining: Cell<bool>,
    last_place: Cell<u64>,
    waiters: RefCell<BTreeMap<u64, Waker>>,
}

impl DrainSignal {
    pub(super) fn new(owner: Rc<dyn DrainOwner>) -> Self {
        Self { owner, place: None }
    }
}

impl Future for DrainSignal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = self.owner.drain_state();
        if state.is_draining() {
            return Poll::Ready(());
        }
        let place = self.place.unwrap_or_else(|| state.new_place());
        state.wait(place, context.waker());
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for DrainSignal {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let waker = self.owner.drain_state().waiters.borrow_mut().remove(&place);
            drop(waker);
        }
    }
}

impl DrainState {
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Begins the drain, and wakes all who wait for it.
    pub(super) fn begin(&self) {
        self.is_draining.set(true);
        for waker in self.take_waiters().into_values() {
            waker.wake();
        }
    }

    /// Forgets those who wait: the channel has ended.
    pub(super) fn end(&self) {
        let waiters = self.take_waiters();
        drop(waiters);
    }

    fn take_waiters(&self) -> BTreeMap<u64, Waker> {
        std::mem::take(&mut *self.waiters.borrow_mut())
    }

    fn new_place(&self) -> u64 {
        self.last_place.set(self.last_place.get() + 1);
        self.last_place.get()
    }

    fn wait(&self, place: u64, waker: &Waker) {
        let is_same = self.waiters.borrow().get(&place).is_some_and(|kept| kept.will_wake(waker));
        if !is_same {
            let waker = waker.clone();
            let before = self.waiters.borrow_mut().insert(place, waker);
            drop(before);
        }
    }
}

impl fmt::Debug for DrainSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_draining = self.owner.drain_state().is_draining();
        f.debug_struct("DrainSignal").field("is_draining", &is_draining).finish_non_exhaustive()
    }
}
