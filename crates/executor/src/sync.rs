//! The synchronisation primitives of the crate: std's, or loom's under `--cfg loom`.
//!
//! Everything whose memory ordering is subtle uses this module, so that loom explores the same files that ship.
//! Plain locks and counters elsewhere are std's.
//!
//! Two rules keep the models faithful:
//!
//! 1. Orderings that matter are explicit [`fence`]s, because loom models fences and treats a SeqCst *access* as
//!    merely acquire-release. Where a fence would cost too much and SeqCst accesses suffice, [`model_fence`]
//!    stands between them, so that at least the need for it is modelled. Loom cannot see that the accesses
//!    around it are SeqCst.
//! 2. No stand-ins: the models drive the queue that ships, with smaller blocks.

#[cfg(not(loom))]
pub(crate) use self::real::*;

#[cfg(loom)]
pub(crate) use self::model::*;

/// Thread-locals with constant initialisers. Loom's macro has no `const` block.
macro_rules! per_thread {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $initial:expr;)*) => {
        #[cfg(not(loom))]
        std::thread_local! { $($(#[$attribute])* static $name: $type = const { $initial };)* }
        #[cfg(loom)]
        loom::thread_local! { $($(#[$attribute])* static $name: $type = $initial;)* }
    };
}
pub(crate) use per_thread;

/// Locks a mutex and ignores poisoning: no user code runs under these locks (except under the start gate, which
/// guards no value), so a panic cannot have left a value half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;

    pub(crate) use crossbeam_utils::Backoff;

    /// Does nothing: the accesses around it are SeqCst.
    #[inline]
    pub(crate) fn model_fence() {}

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    /// The fence that loom needs in place of SeqCst accesses.
    pub(crate) fn model_fence() {
        fence(Ordering::SeqCst);
    }

    /// A back-off that yields to the other threads of a model.
    #[derive(Debug)]
    pub(crate) struct Backoff(());

    impl Backoff {
        pub(crate) fn new() -> Self {
            Self(())
        }

        pub(crate) fn spin(&self) {}

        pub(crate) fn snooze(&self) {
            yield_now();
        }
    }
}
