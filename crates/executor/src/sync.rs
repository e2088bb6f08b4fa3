//! The seam between the code and the model checker.
//!
//! Everything whose ordering is subtle goes through this module, so that the files that ship are the
//! files that loom explores (plain locks and counters elsewhere are std's): under `--cfg loom` the same names are loom's, and the task queue and
//! the cell get stand-ins with the same contract.
//!
//! Two rules keep the models honest:
//!
//! 1. Orderings that matter are explicit [`fence`]s, because loom models those and treats a SeqCst
//!    *access* as merely acquire-release.
//! 2. The queue's stand-in must not synchronise more than the real one. Its emptiness test is a
//!    single atomic load; a lock there would hide a missing fence in the wake word.

#[cfg(not(loom))]
pub(crate) use self::real::*;

#[cfg(loom)]
pub(crate) use self::model::*;

/// Thread-locals with constant initialisers; loom's macro knows no `const` block.
macro_rules! per_thread {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $initial:expr;)*) => {
        #[cfg(not(loom))]
        std::thread_local! { $($(#[$attribute])* static $name: $type = const { $initial };)* }
        #[cfg(loom)]
        loom::thread_local! { $($(#[$attribute])* static $name: $type = $initial;)* }
    };
}
pub(crate) use per_thread;

/// Locks a mutex. A poisoned one is taken as it is: no user code runs under our locks (but for the
/// start gate, which guards no value), so a panic cannot have left one half-written.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::yield_now;

    pub(crate) use crossbeam_queue::SegQueue as Queue;

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
    use std::collections::VecDeque;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;

    use super::lock;

    /// Unbounded FIFO whose emptiness test orders nothing by itself, like the real queue's.
    #[derive(Debug)]
    pub(crate) struct Queue<T> {
        items: Mutex<VecDeque<T>>,
        len: AtomicU64,
    }

    impl<T> Queue<T> {
        pub(crate) fn new() -> Self {
            Self { items: Mutex::new(VecDeque::new()), len: AtomicU64::new(0) }
        }

        pub(crate) fn push(&self, item: T) {
            lock(&self.items).push_back(item);
            self.len.fetch_add(1, Ordering::Release);
        }

        pub(crate) fn pop(&self) -> Option<T> {
            if self.is_empty() {
                return None;
            }
            let item = lock(&self.items).pop_front();
            if item.is_some() {
                self.len.fetch_sub(1, Ordering::Release);
            }
            item
        }

        pub(crate) fn len(&self) -> usize {
            self.len.load(Ordering::Acquire) as usize
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}
