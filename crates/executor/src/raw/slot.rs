//! A value handed over once: the state word and the cell of every promise.
//!
//! One [`SlotFiller`] (the promise) and one [`SlotTaker`] (its future) share a [`ValueSlot`]. The word decides
//! who may touch the cell:
//!
//! | word | who may touch the cell |
//! |---|---|
//! | not DONE | the filler, through `&mut` |
//! | DONE, not LISTENED | the taker, through `&mut`: no other thread can reach the value |
//! | DONE and LISTENED | the holder of the one [`ValueLease`] (the LEASED bit) |
//! | CANCELLED | the filler only, to take back the value that it was about to hand over |
//!
//! A slot may have work in its tail, which then also fills the slot: see [`work`](super::work), whose bit is
//! CLAIMED.
//!
//! Filling writes the value first and then sets DONE in one step. A cancel in between is seen in the old word,
//! and the value is taken out again. So completing costs a single atomic read-modify-write, and completion,
//! cancel and uncancellable each have exactly one winner.
//!
//! WATCHED means that there are observers to notify. A thread that sets it after DONE sees DONE, and a thread
//! that sets DONE after it sees WATCHED, so one of the two always sees the other.

use std::fmt;
use std::ops::Deref;

use super::block::{Allocator, AsDyn, CountedBlock, Ref};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};

/// The outcome is final.
pub(super) const DONE: u32 = 1;
/// Cancelled: set only together with DONE; there is no value.
pub(super) const CANCELLED: u32 = 1 << 1;
/// Cancelling is no longer possible.
pub(super) const UNCANCELLABLE: u32 = 1 << 2;
/// There are observers to notify of the completion.
pub(super) const WATCHED: u32 = 1 << 3;
/// Threads other than the taker's may read the value, which is then accessed through a lease only.
const LISTENED: u32 = 1 << 4;
/// The lease is held.
const LEASED: u32 = 1 << 5;
/// The work in the tail is claimed.
pub(super) const CLAIMED: u32 = 1 << 6;

/// The part shared by filler and taker. `context` is their common data beside the value.
pub(crate) struct ValueSlot<V, S> {
    pub(super) word: AtomicU32,
    cell: UnsafeCell<Option<V>>,
    pub(crate) context: S,
}

// SAFETY: the value moves between threads (V: Send) but is only ever touched by one at a time, as the table
// above says; no two threads hold a reference to it at once, so V need not be Sync.
unsafe impl<V: Send, S: Sync + Send> Sync for ValueSlot<V, S> {}
// SAFETY: as above.
unsafe impl<V: Send, S: Send> Send for ValueSlot<V, S> {}

/// The completing end of a slot. One per slot: not `Clone`.
pub(crate) struct SlotFiller<V, S, D: ?Sized + 'static>(Ref<ValueSlot<V, S>, D>);

/// The end of a slot that takes the value. One per slot: not `Clone`.
pub(crate) struct SlotTaker<V, S, D: ?Sized + 'static>(Ref<ValueSlot<V, S>, D>);

/// The outcome of [`SlotTaker::take`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TakeOutcome<V> {
    NotYet,
    Cancelled,
    /// Other threads may be reading the value: use [`ValueSlot::lease`].
    Listened,
    /// The value; `None` if it was taken before.
    Value(Option<V>),
}

/// Makes a slot and its two ends.
#[inline]
pub(crate) fn slot<V, S, D: ?Sized + 'static>(
    context: impl FnOnce() -> S,
) -> (SlotFiller<V, S, D>, SlotTaker<V, S, D>)
where
    CountedBlock<ValueSlot<V, S>, (), D>: AsDyn<D> + Send + Sync + 'static,
{
    let (filler, taker) = Ref::pair(Allocator::Global, || ValueSlot::new(context()), || ());
    (SlotFiller(filler), SlotTaker(taker))
}

impl<V, S> ValueSlot<V, S> {
    #[inline]
    pub(super) fn new(context: S) -> Self {
        Self { word: AtomicU32::new(0), cell: UnsafeCell::new(None), context }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.word.load(Ordering::Acquire) & DONE != 0
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.word.load(Ordering::Acquire) & CANCELLED != 0
    }

    /// Cancels the slot. Returns `Some(watched)` if this call cancelled it: if `watched`, the caller must notify the
    /// observers.
    pub(crate) fn cancel(&self) -> Option<bool> {
        self.cancel_from().map(|before| before & WATCHED != 0)
    }

    /// Cancels the slot. Returns the previous word if this call cancelled the slot.
    pub(super) fn cancel_from(&self) -> Option<u32> {
        let before = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word & (DONE | UNCANCELLABLE) == 0).then_some(word | DONE | CANCELLED)
        });
        before.ok()
    }

    /// Hands the value over: see [`SlotFiller::fill`]. The caller must be the only one that may fill.
    #[inline]
    pub(super) unsafe fn fill(&self, value: V) -> Result<bool, V> {
        if self.is_done() {
            return Err(value);
        }
        // SAFETY: not DONE (only the caller sets it, except for a cancel, after which nothing else touches the
        // cell), and the caller is the only one that may fill.
        self.cell.with_mut(|cell| unsafe { *cell = Some(value) });
        let before = self.word.fetch_or(DONE, Ordering::AcqRel);
        if before & CANCELLED == 0 {
            return Ok(before & WATCHED != 0);
        }
        // SAFETY: as above.
        Err(unsafe { self.take_back() })
    }

    /// Takes the value out again, because a cancel won.
    #[cold]
    unsafe fn take_back(&self) -> V {
        debug_assert!(self.is_cancelled());
        // SAFETY: CANCELLED: only the one that fills touches the cell, and that is the caller.
        let back = self.cell.with_mut(|cell| unsafe { (*cell).take() });
        back.unwrap_or_else(|| unreachable!("just stored, and only the filler may take it"))
    }

    /// Marks the slot as observed. Returns true if it is already done.
    pub(crate) fn watch(&self) -> bool {
        self.word.fetch_or(WATCHED, Ordering::AcqRel) & DONE != 0
    }

    /// Claims the lease on the value, if the slot is done and the lease is free.
    pub(crate) fn lease(&self) -> Option<ValueLease<'_, V, S>> {
        let claimed = self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let free = word & (DONE | LISTENED | LEASED) == DONE | LISTENED;
            free.then_some(word | LEASED)
        });
        claimed.ok().map(|_| ValueLease(self))
    }
}

impl<V, S, D: ?Sized + 'static> SlotFiller<V, S, D> {
    /// Hands the value over. Returns `Ok(watched)`: if `watched`, the caller must notify the observers. Returns
    /// the value if the slot was completed or cancelled before.
    #[inline]
    pub(crate) fn fill(&mut self, value: V) -> Result<bool, V> {
        // SAFETY: `&mut self` is the only filler, and a slot that has one has no work that fills.
        unsafe { self.0.fill(value) }
    }

    /// Makes the slot uncancellable. Returns false if it was cancelled before.
    pub(crate) fn set_uncancellable(&mut self) -> bool {
        let before = self.0.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word & DONE == 0).then_some(word | UNCANCELLABLE)
        });
        before.is_ok() || !self.is_cancelled()
    }
}

impl<V, S, D: ?Sized + 'static> SlotTaker<V, S, D> {
    pub(super) fn new(slot: Ref<ValueSlot<V, S>, D>) -> Self {
        Self(slot)
    }

    /// Takes the value, if it is there and no other thread can be reading it.
    #[inline]
    pub(crate) fn take(&mut self) -> TakeOutcome<V> {
        let word = self.0.word.load(Ordering::Acquire);
        if word & DONE == 0 {
            TakeOutcome::NotYet
        } else if word & CANCELLED != 0 {
            TakeOutcome::Cancelled
        } else if word & LISTENED != 0 {
            TakeOutcome::Listened
        } else {
            // SAFETY: DONE, so the filler is done with it; not LISTENED, and only this taker can set that, so
            // no lease exists; `&mut self` is the only taker.
            TakeOutcome::Value(self.0.cell.with_mut(|cell| unsafe { (*cell).take() }))
        }
    }

    /// Makes leases the only way to the value from here on.
    pub(crate) fn listen(&mut self) {
        self.0.word.fetch_or(LISTENED, Ordering::AcqRel);
    }

    /// Returns the shared part, for code that reaches the value through leases.
    pub(crate) fn slot(&self) -> &Ref<ValueSlot<V, S>, D> {
        &self.0
    }
}

impl<V, S, D: ?Sized + 'static> SlotFiller<V, S, D> {
    pub(crate) fn slot(&self) -> &Ref<ValueSlot<V, S>, D> {
        &self.0
    }
}

/// The exclusive right to a completed value. Released on drop.
pub(crate) struct ValueLease<'a, V, S>(&'a ValueSlot<V, S>);

impl<V, S> ValueLease<'_, V, S> {
    /// Calls `look` with the value; with `None` if it was cancelled or taken.
    pub(crate) fn with<R>(&mut self, look: impl FnOnce(Option<&V>) -> R) -> R {
        if self.0.is_cancelled() {
            return look(None);
        }
        // SAFETY: DONE and not CANCELLED: the filler is done; LEASED is ours, through `&mut`.
        self.0.cell.with(|cell| look(unsafe { (*cell).as_ref() }))
    }

    /// Takes the value out.
    pub(crate) fn take(&mut self) -> Option<V> {
        if self.0.is_cancelled() {
            return None;
        }
        // SAFETY: as in `with`.
        self.0.cell.with_mut(|cell| unsafe { (*cell).take() })
    }
}

impl<V, S> Drop for ValueLease<'_, V, S> {
    fn drop(&mut self) {
        self.0.word.fetch_and(!LEASED, Ordering::AcqRel);
    }
}

impl<V, S, D: ?Sized + 'static> Deref for SlotFiller<V, S, D> {
    type Target = ValueSlot<V, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V, S, D: ?Sized + 'static> Deref for SlotTaker<V, S, D> {
    type Target = ValueSlot<V, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<V, S> Drop for ValueSlot<V, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `&mut self`. Not left to the field's own drop: through the cell the models see that the
        // writer is done.
        self.cell.with_mut(|cell| unsafe { *cell = None });
    }
}

impl<V, S> fmt::Debug for ValueSlot<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load(Ordering::Acquire);
        let state = match (word & DONE != 0, word & CANCELLED != 0) {
            (_, true) => "cancelled",
            (true, false) => "done",
            (false, false) => "pending",
        };
        f.write_str(state)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl AsDyn<()> for CountedBlock<ValueSlot<u8, ()>, (), ()> {
        fn as_dyn(&self) -> &() {
            self.tail()
        }
    }

    #[test]
    fn p01_a_second_completion_is_refused() {
        let (mut filler, mut taker) = slot::<u8, (), ()>(|| ());
        assert_eq!(taker.take(), TakeOutcome::NotYet);
        assert_eq!(filler.fill(1), Ok(false));
        assert_eq!(filler.fill(2), Err(2));
        assert_eq!(taker.cancel(), None);
        assert_eq!(taker.take(), TakeOutcome::Value(Some(1)));
        assert_eq!(taker.take(), TakeOutcome::Value(None));
    }

    #[test]
    fn p01_a_value_comes_back_after_a_cancel() {
        let (mut filler, mut taker) = slot::<u8, (), ()>(|| ());
        assert_eq!(taker.cancel(), Some(false));
        assert_eq!(taker.cancel(), None);
        assert_eq!(filler.fill(1), Err(1));
        assert_eq!(taker.take(), TakeOutcome::Cancelled);
    }

    #[test]
    fn p02_uncancellable_and_cancel_exclude_each_other() {
        let (mut filler, taker) = slot::<u8, (), ()>(|| ());
        assert!(filler.set_uncancellable());
        assert_eq!(taker.cancel(), None);
        let (mut filler, taker) = slot::<u8, (), ()>(|| ());
        assert_eq!(taker.cancel(), Some(false));
        assert!(!filler.set_uncancellable());
    }

    #[test]
    fn a_lease_is_exclusive() {
        let (mut filler, mut taker) = slot::<u8, (), ()>(|| ());
        taker.listen();
        assert!(taker.slot().lease().is_none(), "not done");
        filler.fill(7).unwrap();
        assert_eq!(taker.take(), TakeOutcome::Listened);
        let mut lease = taker.slot().lease().unwrap();
        assert!(taker.slot().lease().is_none(), "held");
        assert_eq!(lease.with(|v| v.copied()), Some(7));
        drop(lease);
        assert_eq!(taker.slot().lease().unwrap().take(), Some(7));
    }

    #[test]
    fn completion_and_observer_see_each_other() {
        let (mut filler, taker) = slot::<u8, (), ()>(|| ());
        assert!(!taker.watch());
        assert_eq!(filler.fill(1), Ok(true));
        let (mut filler, taker) = slot::<u8, (), ()>(|| ());
        assert_eq!(filler.fill(1), Ok(false));
        assert!(taker.watch());
    }
}
