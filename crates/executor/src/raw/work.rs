//! A timer's closure, stored in the same allocation as its promise.
//!
//! The slot's word says who may touch the work:
//!
//! | word | who may touch the work, while it is there |
//! |---|---|
//! | neither DONE nor CLAIMED | no thread |
//! | CLAIMED | the holder of the one [`WorkClaim`], cancelled meanwhile or not, until it has taken the work out |
//! | CANCELLED, not CLAIMED before | the thread that cancelled, which takes the work out at once |
//!
//! The work is moved out once, and no other state is needed. A slot with work has no other end that fills it: the
//! holder of the claim that took the work out fills it ([`UnfilledSlot`]). Work that is never taken out is
//! never dropped: the owner of the block makes sure that it is taken out.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::block::{Allocator, AnyRef, AsDyn, CountedBlock, Ref};
use super::slot::{CANCELLED, CLAIMED, DONE, SlotTaker, UNCANCELLABLE, ValueSlot, WATCHED};
use crate::sync::{Ordering, UnsafeCell};

/// The tail of a block: a closure, and the data kept beside it.
pub(crate) struct WorkTail<W, B> {
    work: UnsafeCell<MaybeUninit<W>>,
    pub(crate) extra: B,
}

// SAFETY: the work moves between threads (W: Send) but is only ever touched by one at a time, as the table
// above says, so it need not be Sync.
unsafe impl<W: Send, B: Sync> Sync for WorkTail<W, B> {}

impl<W, B> WorkTail<W, B> {
    /// Moves the work out. Must be called once, by the thread that may touch the work.
    unsafe fn take(&self) -> W {
        // SAFETY: the caller promises that the work is there, and that no other thread touches it.
        self.work.with_mut(|work| unsafe { work.cast::<W>().read() })
    }
}

/// A slot with work in its tail.
pub(crate) type WorkBlock<V, S, W, B, D> = CountedBlock<ValueSlot<V, S>, WorkTail<W, B>, D>;

/// Makes a slot with work in its tail. Returns the handle for the work and the end that takes the value.
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
    /// Claims the work for a while: it may still be cancelled meanwhile. Returns `None` if it was cancelled or
    /// completed, or is claimed.
    pub(crate) fn claim(&self) -> Option<WorkClaim<'_, V, S, W, B, D>> {
        self.claim_with(CLAIMED)
    }

    /// Claims the work and makes it uncancellable.
    pub(crate) fn claim_uncancellable(&self) -> Option<WorkClaim<'_, V, S, W, B, D>> {
        self.claim_with(CLAIMED | UNCANCELLABLE)
    }

    fn claim_with(&self, bits: u32) -> Option<WorkClaim<'_, V, S, W, B, D>> {
        let before = self.head().word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            (word & (DONE | CLAIMED) == 0).then_some(word | bits)
        });
        before.ok().map(|_| WorkClaim(self))
    }

    /// Cancels as [`ValueSlot::cancel`] does. Also takes the work out, unless a thread has claimed it: then
    /// that thread does.
    pub(crate) fn cancel_work(&self) -> Option<(bool, Option<W>)> {
        let before = self.head().cancel_from()?;
        // SAFETY: this call alone cancelled, and the work was not claimed: it is there, it is ours, and work
        // that is DONE cannot be claimed.
        let take = || unsafe { self.tail().take() };
        Some((before & WATCHED != 0, (before & CLAIMED == 0).then(take)))
    }
}

/// The exclusive right to the work of a slot, and to complete the slot.
pub(crate) struct WorkClaim<'a, V, S, W, B, D: ?Sized + 'static>(&'a WorkBlock<V, S, W, B, D>);

impl<'a, V, S, W, B, D: ?Sized + 'static> WorkClaim<'a, V, S, W, B, D> {
    /// Calls `f` with the work in place.
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut W) -> R) -> R {
        // SAFETY: CLAIMED is ours, through `&mut`, and only what ends the claim takes it out.
        self.0.tail().work.with_mut(|work| f(unsafe { &mut *work.cast::<W>() }))
    }

    /// Takes the work out. The caller must then fill the slot.
    pub(crate) fn take(self) -> (W, UnfilledSlot<'a, V, S>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: CLAIMED is ours, and stays set: no other thread gets here.
        let work = unsafe { this.0.tail().take() };
        (work, UnfilledSlot(this.0.head()))
    }

    /// Releases the claim. Returns the work if it was cancelled meanwhile: the caller drops it.
    pub(crate) fn give_back(self) -> Option<W> {
        ManuallyDrop::new(self).end()
    }

    fn end(&mut self) -> Option<W> {
        let before = self.0.head().word.fetch_and(!CLAIMED, Ordering::AcqRel);
        if before & CANCELLED == 0 {
            return None;
        }
        // SAFETY: the thread that cancelled found it claimed and left it; work that is DONE cannot be claimed.
        Some(unsafe { self.0.tail().take() })
    }
}

impl<V, S, W, B, D: ?Sized + 'static> Drop for WorkClaim<'_, V, S, W, B, D> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// A slot whose work was taken out, and which waits for its outcome.
#[must_use]
pub(crate) struct UnfilledSlot<'a, V, S>(&'a ValueSlot<V, S>);

impl<V, S> UnfilledSlot<'_, V, S> {
    /// Fills the slot: see [`SlotFiller::fill`](super::slot::SlotFiller::fill).
    pub(crate) fn fill(self, value: V) -> Result<bool, V> {
        // SAFETY: the slot has no filler, and this was made by its only claim, which is never released.
        unsafe { self.0.fill(value) }
    }
}
