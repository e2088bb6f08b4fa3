//! Promises of any value type: as executors, cancellers and timers see them.

use super::observers::PromiseSlot;
use crate::raw::block::{AnyRef, AsDyn, CountedBlock, Ref, WeakRef};
use crate::timer::entry::ErasedTimer;

/// A handle to a promise of any type.
pub(crate) type AnyPromise = AnyRef<dyn ErasedPromise>;

/// A handle to a promise of any type that does not keep its value alive.
pub(crate) type WeakPromise = WeakRef<dyn ErasedPromise>;

/// A handle to a promise.
pub(crate) type PromiseRef<T> = Ref<PromiseSlot<T>, dyn ErasedPromise>;

/// The operations on a promise of any type. `this` is a handle to the promise itself, which may have to be
/// queued on its executor.
pub(crate) trait ErasedPromise: Send + Sync {
    /// Calls the listeners. Called on the executor's thread.
    fn notify(&self);

    /// Cancels the promise, unless it is completed or uncancellable. Returns true if this call cancelled it.
    fn cancel(&self, this: &AnyPromise) -> bool;

    /// Returns the timer that this promise belongs to; `None` for a promise without a timer.
    fn timer(&self) -> Option<&dyn ErasedTimer> {
        None
    }
}

/// A promise whose block has an empty tail: no timer closure.
type PlainPromise<T> = CountedBlock<PromiseSlot<T>, (), dyn ErasedPromise>;

impl<T: Send + 'static> ErasedPromise for PlainPromise<T> {
    fn notify(&self) {
        self.head().run_listeners();
    }

    fn cancel(&self, this: &AnyPromise) -> bool {
        let Some(has_observers) = self.head().cancel() else { return false };
        if has_observers {
            self.head().notify_cancelled(this);
        }
        true
    }
}

impl<T: Send + 'static> AsDyn<dyn ErasedPromise> for PlainPromise<T> {
    fn as_dyn(&self) -> &(dyn ErasedPromise + 'static) {
        self
    }
}
