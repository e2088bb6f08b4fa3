//! A promise seen by those who do not know the type of its value: its executor, its cancellers, and
//! the loop whose timer it is.

use super::observers::PromiseSlot;
use crate::raw::block::{AnyRef, Block, Face, Ref, WeakRef};
use crate::timer::entry::Timer;

/// A handle to a promise of any type.
pub(crate) type AnyPromise = AnyRef<dyn Promised>;

/// A handle to a promise of any type that does not keep its value.
pub(crate) type WeakPromise = WeakRef<dyn Promised>;

/// A handle to a promise.
pub(crate) type PromiseRef<T> = Ref<PromiseSlot<T>, dyn Promised>;

/// What can be asked of any promise. `me` is a handle to the very promise that is asked: it may have
/// to be queued on its executor.
pub(crate) trait Promised: Send + Sync {
    /// Calls those who are to be called on the executor. This is its thread.
    fn notify(&self);

    /// Cancels, unless completed or uncancellable.
    fn cancel(&self, me: &AnyPromise) -> bool;

    /// The timer whose promise it is.
    fn timer(&self) -> Option<&dyn Timer> {
        None
    }
}

/// A promise with nothing in its tail.
type PlainPromise<T> = Block<PromiseSlot<T>, (), dyn Promised>;

impl<T: Send + 'static> Promised for PlainPromise<T> {
    fn notify(&self) {
        self.head().drain();
    }

    fn cancel(&self, me: &AnyPromise) -> bool {
        let Some(watched) = self.head().cancel() else { return false };
        if watched {
            self.head().tell_cancelled(me);
        }
        true
    }
}

impl<T: Send + 'static> Face<dyn Promised> for PlainPromise<T> {
    fn face(&self) -> &(dyn Promised + 'static) {
        self
    }
}
