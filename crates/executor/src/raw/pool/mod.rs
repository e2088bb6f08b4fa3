//! Memory for blocks of one size: taken on one thread, given back on any.
//!
//! ```text
//!   thread's Pool ──► chunk 0  ┌────────┬──────┬──────┬──────┐   256 KiB, aligned to its size:
//!     free slots      chunk 1  │ header │ slot │ slot │ …    │   so a slot's address gives its chunk
//!     chunks          …        └───┬────┴──────┴──────┴──────┘
//!                                  ▼
//!                     Arc<ReturnList>: the slots that other threads gave back, as a linked list
//! ```
//!
//! Used for timers: a loop has thousands of them, of the same size, and takes and gives back most of them
//! itself. [`FreeSlots`] says which slot is taken first; `chunk` is the memory itself.
//!
//! Who may access what, and when:
//! 1. The pool and the free slots belong to the thread: it alone takes slots, and gives its own slots back
//!    without an atomic operation.
//! 2. A taken slot belongs to its holder. Another thread that gives it back adds it to the `ReturnList`; the
//!    pool collects that list when it has no free slot left, and when it searches for chunks to free.
//! 3. A chunk holds its pool's `ReturnList`. As long as it does, that address identifies the pool.
//! 4. A pool that is dropped closes its `ReturnList`. From then on each of its chunks counts its outstanding
//!    slots, and the thread that brings the count to zero frees the chunk: the pool adds the outstanding slots,
//!    each slot that is given back subtracts one.

mod chunk;
#[cfg(all(test, not(loom)))]
mod tests;

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use self::chunk::{
    ALIGN, Chunk, RESERVED, ReturnList, ReturnedSlot, SLOT, SLOTS, abandon_chunk, free_chunk,
    give_back_elsewhere, locate_slot, new_chunk, slot_of,
};
use crate::raw::free_slots::FreeSlots;
use crate::sync::per_thread;

/// How many free slots are always kept: one chunk.
const SPARE: usize = SLOTS;

per_thread! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::new());
}

/// True if a slot can hold a value of this layout.
pub(crate) const fn fits(layout: Layout) -> bool {
    layout.size() <= SLOT && layout.align() <= ALIGN
}

/// Takes a slot of this thread's pool. Returns `None` without memory, and while the thread's locals are
/// destroyed.
#[inline]
pub(crate) fn take() -> Option<NonNull<u8>> {
    POOL.try_with(|pool| pool.borrow_mut().take()).ok()?
}

/// Gives a slot back to its pool.
///
/// # Safety
/// The slot was taken from a pool, was not given back, and nothing will read it again.
#[inline]
pub(crate) unsafe fn give_back(slot: NonNull<u8>) {
    let give_back = |pool: &RefCell<Pool>| {
        let mut pool = pool.borrow_mut();
        // SAFETY: the caller's promise.
        unsafe { pool.give_back_own(slot) }
    };
    if !POOL.try_with(give_back).unwrap_or(false) {
        // SAFETY: the caller's promise.
        unsafe { give_back_elsewhere(slot) };
    }
}

/// Frees memory of this thread's pool that a burst of timers has left.
pub(crate) fn shrink() {
    // Err: the thread's locals are destroyed, and the pool with them.
    let _ = POOL.try_with(|pool| pool.borrow_mut().shrink());
}

/// The slots of a thread. See the module's documentation.
pub(crate) struct Pool {
    /// The list of slots that other threads gave back; created with the first chunk.
    returns: Option<Arc<ReturnList>>,
    chunks: Vec<Option<NonNull<Chunk>>>,
    slots: FreeSlots,
    /// How many slots are taken, or given back and not collected.
    taken: usize,
    /// How many slots were given back since the last search for chunks to free.
    given_back: usize,
}

impl Pool {
    pub(crate) const fn new() -> Self {
        let slots = FreeSlots::new(SLOTS / 64, RESERVED);
        Self { returns: None, chunks: Vec::new(), slots, taken: 0, given_back: 0 }
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<NonNull<u8>> {
        let slot = match self.slots.take() {
            Some(slot) => slot,
            None => self.refill()?,
        };
        self.taken += 1;
        let chunk = self.chunks[slot / SLOTS]?;
        // SAFETY: the chunk is listed, and the reserved numbers are never taken.
        Some(unsafe { slot_of(chunk, slot % SLOTS) })
    }

    /// Takes a slot back if it belongs to this pool. Returns whether it does.
    ///
    /// # Safety
    /// The conditions of [`give_back`].
    #[inline]
    pub(crate) unsafe fn give_back_own(&mut self, slot: NonNull<u8>) -> bool {
        // SAFETY: the caller's promise.
        let (chunk, at) = unsafe { locate_slot(slot) };
        // SAFETY: a chunk lives at least as long as one of its slots is taken, and its header is shared.
        let header = unsafe { chunk.as_ref() };
        let is_own = self.returns.as_ref().is_some_and(|own| Arc::ptr_eq(own, &header.returns));
        if is_own {
            self.slots.give_back(header.number * SLOTS as u32 + at as u32);
            self.taken -= 1;
            self.given_back += 1;
        }
        is_own
    }

    /// Frees chunks without a taken slot, the highest first, if many slots are free. Keeps as many free slots
    /// as are taken, plus `SPARE`.
    pub(crate) fn shrink(&mut self) {
        self.collect();
        let has_many_free = self.slots.free() > 2 * (self.taken + SPARE);
        if !has_many_free || self.given_back < SPARE + self.chunks.len() {
            return;
        }
        self.given_back = 0;
        self.slots.flush_recent();
        for at in (0..self.chunks.len()).rev() {
            if self.slots.free() < self.taken + SPARE + SLOTS {
                break;
            }
            if self.slots.is_segment_free(at)
                && let Some(chunk) = self.chunks[at].take()
            {
                self.slots.close_segment(at);
                // SAFETY: none of its slots is taken, and it is no longer listed.
                unsafe { free_chunk(chunk) };
            }
        }
    }

    /// Frees the slots that other threads gave back.
    fn collect(&mut self) {
        let last = self.returns.as_ref().map_or(ptr::null_mut(), |returns| returns.take_all());
        self.collect_list(last);
    }

    /// Frees the slots of a list.
    fn collect_list(&mut self, mut last: *mut ReturnedSlot) {
        while let Some(slot) = NonNull::new(last) {
            // SAFETY: the list was taken, and this slot is the last one of the rest of it.
            last = unsafe { ReturnedSlot::before(slot) };
            // SAFETY: it was linked into the list of this pool, so it belongs to this pool, and was given back.
            let own = unsafe { self.give_back_own(slot.cast()) };
            debug_assert!(own);
        }
    }

    /// Returns a slot when none was free: one that another thread gave back, or the first of a new chunk.
    #[cold]
    fn refill(&mut self) -> Option<usize> {
        self.collect();
        if let Some(slot) = self.slots.take() {
            return Some(slot);
        }
        let freed = self.chunks.iter().position(Option::is_none);
        let at = freed.unwrap_or(self.chunks.len());
        let number = u32::try_from(at).ok().filter(|at| *at < u32::MAX / SLOTS as u32)?;
        let returns = self.returns.get_or_insert_with(|| Arc::new(ReturnList::new())).clone();
        let chunk = new_chunk(returns, number)?;
        match freed {
            Some(at) => self.chunks[at] = Some(chunk),
            None => self.chunks.push(Some(chunk)),
        }
        self.slots.open_segment(at);
        self.slots.take()
    }
}

/// A slot for the models, which have no unsafe code.
#[cfg(test)]
pub(crate) struct LentSlot(NonNull<u8>);

// SAFETY: a slot belongs to its holder.
#[cfg(test)]
unsafe impl Send for LentSlot {}

#[cfg(test)]
impl LentSlot {
    pub(crate) fn give_back_elsewhere(self) {
        // SAFETY: taken from a pool by `lend`, and consumed by this.
        unsafe { give_back_elsewhere(self.0) };
    }
}

/// Functions for the loom models.
#[cfg(test)]
impl Pool {
    pub(crate) fn lend(&mut self) -> LentSlot {
        LentSlot(self.take().expect("memory for a chunk"))
    }

    pub(crate) fn collect_returned(&mut self) {
        self.collect();
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// Returns a function that counts the allocated chunks after the pool was dropped. Each chunk holds the
    /// list.
    pub(crate) fn chunks_alive(&self) -> impl Fn() -> usize + use<> {
        let returns = self.returns.clone();
        move || returns.as_ref().map_or(0, |returns| Arc::strong_count(returns) - 1)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let Some(returns) = self.returns.clone() else { return };
        self.collect_list(returns.close());
        self.slots.flush_recent();
        for at in 0..self.chunks.len() {
            let Some(chunk) = self.chunks[at].take() else { continue };
            let taken = self.slots.taken_in_segment(at) as u32;
            // SAFETY: this many slots were not given back, and the list was closed above.
            unsafe { abandon_chunk(chunk, taken) };
        }
    }
}

// SAFETY: a pool may be sent while no thread uses it, which `&mut` ensures: its chunks are its own.
unsafe impl Send for Pool {}
