//! A value that is read often and replaced rarely: readers never wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// Two slots, one of which holds the value.
///
/// Any thread may read, and any thread may replace the value. A writer fills the empty slot, makes it the current one,
/// then empties the other; writers exclude each other by `writing`. So only the slot that is not current is ever locked
/// for writing, apart from readers that are about to find out: a reader takes the read lock of the current slot without
/// waiting. If that fails, or if the slot is empty, a writer has made the other slot current since, and the reader tries
/// that one. A thread that is suspended while it replaces the value delays no reader.
///
/// `current` orders no memory; the locks do. A reader looks at it again once it has the slot: one that was suspended in
/// between may have a slot that a writer has filled and not yet made current, and would see the previous value afterwards.
pub(super) struct SwapCell<T> {
    slots: [RwLock<Option<T>>; 2],
    current: AtomicUsize,
    writing: Mutex<()>,
}

impl<T> SwapCell<T> {
    pub(super) fn new(value: T) -> Self {
        let slots = [RwLock::new(Some(value)), RwLock::new(None)];
        Self { slots, current: AtomicUsize::new(0), writing: Mutex::new(()) }
    }

    /// Calls `f` with the value. `f` must not replace it.
    pub(super) fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        loop {
            let slot = self.try_slot(self.current.load(Ordering::Relaxed));
            if let Some(value) = slot.as_deref().and_then(Option::as_ref) {
                return f(value);
            }
            std::hint::spin_loop();
        }
    }

    /// Takes the read lock of a slot, if that is possible without waiting and the slot is the current one.
    fn try_slot(&self, at: usize) -> Option<RwLockReadGuard<'_, Option<T>>> {
        let slot = match self.slots[at].try_read() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        (self.current.load(Ordering::Relaxed) == at).then_some(slot)
    }

    /// Replaces the value. No reader uses the previous value after this call.
    pub(super) fn replace(&self, value: T) {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.load(Ordering::Relaxed);
        let after = 1 - before;
        *self.slots[after].write().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.current.store(after, Ordering::Relaxed);
        // Waits for the readers of the previous value, which are few and quick.
        let previous = self.slots[before].write().unwrap_or_else(PoisonError::into_inner).take();
        drop(writing);
        drop(previous);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn k10_a_reader_sees_the_last_value_that_was_set() {
        let cell = SwapCell::new(0);
        for value in 1..10 {
            cell.replace(value);
            assert_eq!(cell.read(|value| *value), value);
        }
    }

    #[test]
    fn k10_a_reader_does_not_wait_for_a_writer_that_is_suspended() {
        let cell = SwapCell::new(7);
        let suspended = cell.slots[1].write().unwrap(); // As a writer that fills the empty slot.
        assert_eq!(cell.read(|value| *value), 7);
        drop(suspended);
        *cell.slots[1].write().unwrap() = Some(8);
        cell.current.store(1, Ordering::Relaxed);
        let suspended = cell.slots[0].write().unwrap(); // As a writer that empties the other.
        assert_eq!(cell.read(|value| *value), 8);
        drop(suspended);
    }

    #[test]
    fn k10_readers_of_a_value_that_is_replaced_all_the_time_see_whole_and_recent_values() {
        const LAST: u64 = 2_000;
        let cell = Arc::new(SwapCell::new((0, 0)));
        let replaced = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (cell, replaced) = (cell.clone(), replaced.clone());
                std::thread::spawn(move || {
                    let mut seen = 0;
                    while seen < LAST {
                        let least = replaced.load(Ordering::Acquire);
                        let (value, twice) = cell.read(|pair| *pair);
                        assert_eq!(value * 2, twice, "one value, not parts of two");
                        assert!(value >= least, "not older than the last that was set before");
                        assert!(value >= seen, "values do not go back");
                        seen = value;
                    }
                })
            })
            .collect();
        for value in 1..=LAST {
            cell.replace((value, value * 2));
            replaced.store(value, Ordering::Release);
        }
        for reader in readers {
            reader.join().unwrap();
        }
    }

    /// A reader that was suspended after it has read `current` tries a slot that a writer has just filled.
    #[test]
    fn k10_a_late_reader_does_not_see_a_value_before_it_is_the_current_one() {
        let cell = SwapCell::new(7);
        *cell.slots[1].write().unwrap() = Some(8); // As a writer that was suspended afterwards.
        assert!(cell.try_slot(1).is_none(), "the next read would see 7 again");
        cell.current.store(1, Ordering::Relaxed);
        assert_eq!(cell.try_slot(1).as_deref(), Some(&Some(8)));
    }
}
