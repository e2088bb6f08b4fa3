//! Work that waits in the tail of its own promise: a timer's closure.
//!
//! The slot's word says who may touch it:
//!
//! | word | the work is there, and who may touch it |
//! |---|---|
//! | neither DONE nor CLAIMED | nobody |
//! | CLAIMED | whoever holds the one [`WorkClaim`], cancelled meanwhile or not; until it took it out |
//! | CANCELLED, not CLAIMED before | whoever cancelled, who takes it out at once |
//!
//! So it is moved out once, and nothing else need be written down about it. There is no other end
//! that fills such a slot: whoever took the work out of a claim completes it ([`UnfilledSlot`]). Work that
//! nobody takes out is never dropped: whoever keeps the block sees to it that somebody does.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::block::{Allocator, AnyRef, AsDyn, CountedBlock, Ref};
use super::slot::{CANCELLED, CLAIMED, DONE, SlotTaker, UNCANCELLABLE, ValueSlot, WATCHED};
use crate::sync::{Ordering, UnsafeCell};

/// A tail with work in it, and what else is kept beside it.
pub(crate) struct WorkTail<W, B> {
    work: UnsafeCell<MaybeUninit<W>>,
    pub(crate) extra: B,
}

// SAFETY: the work moves between threads (W: Send) but is only ever touched by one at a time, as the
// table above says, so it need not be Sync.
unsafe impl<W: Send, B: Sync> Sync for WorkTail<W, B> {}

impl<W, B> WorkTail<W, B> {
    /// Moves the work out. To be called once, by the one who may touch it.
    unsafe fn take(&self) -> W {
        // SAFETY: the caller promises that it is there, and that nobody else touches it.
        self.work.with_mut(|work| unsafe { work.cast::<W>().read() })
    }
}

/// A slot with work in its tail.
pub(crate) type WorkBlock<V, S, W, B, D> = CountedBlock<ValueSlot<V, S>, WorkTail<W, B>, D>;

/// Makes the end that works and the end that takes.
pub(crate) fn slot_with_work<V, S, W, B, D: ?Sized + 'static>(
    allocator: Allocator,
    context: impl FnOnce() -> S,
    work: W,
    extra: impl FnOnce() -> B,
) -> (AnyRef<D>, SlotTaker<V, S, D>)
where
    WorkBlock<V, S, W, B, D>: AsDyn<D> + Send + Sync + 'static,
{
    let tail = || WorkTail { work: UnsafeCell::new(MaybeUninit::new(work)), extra: extra() };
    let (worker, taker) = Ref::pair(allocator, || ValueSlot::new(context()), tail);
    (worker.into_any(), SlotTaker::new(taker))
}

impl<V, S, W, B, D: ?Sized + 'static> WorkBlock<V, S, W, B, D> {
    /// The right to the work, for a while: it may still be cancelled meanwhile. `None`: it was
    /// cancelled or completed, or somebody is at it.
    pub(crate) fn claim(&self) -> Option<WorkClaim<'_, V, S, W, B, D>> {
        self.claim_with(CLAIMED)
    }

    /// The right to the work, for good: from here on it cannot be cancelled.
    pub(crate) fn claim_uncancellable(&self) -> Option<WorkClaim<'_, V, S, W, B, D>> {
        self.claim_with(CLAIMED | UNCANCELLABLE)
    }

    fn claim_with(&self, bits: u32) -> Option<WorkClaim<'_, V, S, W, B, D>> {
        let before = self.head().word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word & (DONE | CLAIMED) == 0).then_some(word | bits)
        });
        before.ok().map(|_| WorkClaim(self))
    }

    /// As [`ValueSlot::cancel`]. The work comes out as well, unless it is claimed: then it is left to the
    /// claim.
    pub(crate) fn cancel_work(&self) -> Option<(bool, Option<W>)> {
        let before = self.head().cancel_from()?;
        // SAFETY: this call alone cancelled, and nobody had claimed it: it is there, it is ours, and
        // nobody can claim what is DONE.
        let take = || unsafe { self.tail().take() };
        Some((before & WATCHED != 0, (before & CLAIMED == 0).then(take)))
    }
}

/// The exclusive right to the work of a slot, and to complete it.
pub(crate) struct WorkClaim<'a, V, S, W, B, D: ?Sized + 'static>(&'a WorkBlock<V, S, W, B, D>);

impl<'a, V, S, W, B, D: ?Sized + 'static> WorkClaim<'a, V, S, W, B, D> {
    /// Works with the work where it is.
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut W) -> R) -> R {
        // SAFETY: CLAIMED is ours, through `&mut`, and only what ends the claim takes it out.
        self.0.tail().work.with_mut(|work| f(unsafe { &mut *work.cast::<W>() }))
    }

    /// Takes the work out; the slot is still to be filled.
    pub(crate) fn take(self) -> (W, UnfilledSlot<'a, V, S>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: CLAIMED is ours, and stays: nobody comes here again.
        let work = unsafe { this.0.tail().take() };
        (work, UnfilledSlot(this.0.head()))
    }

    /// Gives the right back. If it was cancelled meanwhile the work comes out: it is the caller's to
    /// drop.
    pub(crate) fn give_back(self) -> Option<W> {
        ManuallyDrop::new(self).end()
    }

    fn end(&mut self) -> Option<W> {
        let before = self.0.head().word.fetch_and(!CLAIMED, Ordering::AcqRel);
        if before & CANCELLED == 0 {
            return None;
        }
        // SAFETY: whoever cancelled found it claimed and left it; nobody can claim what is DONE.
        Some(unsafe { self.0.tail().take() })
    }
}

impl<V, S, W, B, D: ?Sized + 'static> Drop for WorkClaim<'_, V, S, W, B, D> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// What was taken to be worked on: the slot waits for its outcome.
#[must_use]
pub(crate) struct UnfilledSlot<'a, V, S>(&'a ValueSlot<V, S>);

impl<V, S> UnfilledSlot<'_, V, S> {
    /// As [`SlotFiller::fill`](super::slot::SlotFiller::fill).
    pub(crate) fn fill(self, value: V) -> Result<bool, V> {
        // SAFETY: the slot has no filler, and only the one claim, which is never given back, came to
        // this.
        unsafe { self.0.fill(value) }
    }
}
