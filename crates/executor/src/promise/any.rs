//! A promise seen by those who do not know the type of its value: its executor, its cancellers, and
//! the loop whose timer it is.

use super::observers::PromiseSlot;
use crate::raw::block::{AnyRef, AsDyn, CountedBlock, Ref, WeakRef};
use crate::timer::entry::ErasedTimer;

/// A handle to a promise of any type.
pub(crate) type AnyPromise = AnyRef<dyn ErasedPromise>;

/// A handle to a promise of any type that does not keep its value.
pub(crate) type WeakPromise = WeakRef<dyn ErasedPromise>;

/// A handle to a promise.
pub(crate) type PromiseRef<T> = Ref<PromiseSlot<T>, dyn ErasedPromise>;

/// What can be asked of any promise. `this` is a handle to the very promise that is asked: it may have
/// to be queued on its executor.
pub(crate) trait ErasedPromise: Send + Sync {
    /// Calls those who are to be called on the executor. This is its thread.
    fn notify(&self);

    /// Cancels, unless completed or uncancellable.
    fn cancel(&self, this: &AnyPromise) -> bool;

    /// The timer whose promise it is.
    fn timer(&self) -> Option<&dyn ErasedTimer> {
        None
    }
}

/// A promise with nothing in its tail.
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
