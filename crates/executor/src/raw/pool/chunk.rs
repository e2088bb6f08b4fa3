//! A chunk of a pool: its header, its slots, and the list of slots given back by other threads.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

/// Bytes in a slot: two cache lines, room for a timer with a closure of two words.
#[cfg(not(loom))]
pub(super) const SLOT: usize = 128;
/// Bytes in a slot under loom, whose cells are larger.
#[cfg(loom)]
pub(super) const SLOT: usize = 1024;
/// The largest alignment of a slot.
pub(super) const ALIGN: usize = 64;
/// Slot numbers in a chunk of 256 KiB; only the pages in use are resident. A million timers take 500
/// chunks.
pub(super) const SLOTS: usize = if cfg!(miri) { 256 } else { 2048 }; // Miri is slow.
/// The first slot numbers of a chunk, which are not used. Slot 1 is the header. Slot 0 would be the last one of
/// the chunk's memory: an allocator that keeps a word between chunks could not put them side by side.
pub(super) const RESERVED: u32 = 2;
const CHUNK: usize = SLOT * SLOTS;

/// The header of a chunk.
///
/// Read by the pool's thread and by threads that give slots back. `outstanding` is written by the pool when it
/// is dropped, and by threads that give slots back afterwards.
pub(super) struct Chunk {
    pub(super) returns: Arc<ReturnList>,
    /// The index of the chunk in its pool.
    pub(super) number: u32,
    /// How many slots are not given back, once the pool was dropped; below zero (wrapping) until the pool has
    /// added their number.
    outstanding: AtomicU32,
}

const _: () = assert!(size_of::<Chunk>() <= SLOT && size_of::<ReturnedSlot>() <= SLOT);

/// The slots of a pool that other threads gave back, as a linked list. Any thread adds to it; the pool's thread
/// takes all of it at once, and closes it when the pool is dropped.
pub(super) struct ReturnList {
    /// The slot given back last; [`closed`] if the pool was dropped.
    last: AtomicPtr<ReturnedSlot>,
}

/// A slot in the list of slots given back.
pub(super) struct ReturnedSlot {
    before: UnsafeCell<*mut ReturnedSlot>,
}

impl ReturnedSlot {
    /// Returns the slot that was given back before this one.
    ///
    /// # Safety
    /// The list was taken by the caller, and this slot is still in it.
    pub(super) unsafe fn before(slot: NonNull<Self>) -> *mut Self {
        // SAFETY: written before the slot was linked, and owned by the caller since the list was taken.
        unsafe { slot.as_ref() }.before.with(|before| unsafe { *before })
    }
}

/// The end of a list whose pool was dropped.
fn closed() -> *mut ReturnedSlot {
    ptr::without_provenance_mut(align_of::<ReturnedSlot>())
}

impl ReturnList {
    pub(super) fn new() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a slot. Returns false if the pool was dropped.
    ///
    /// # Safety
    /// The conditions of [`give_back`](super::give_back); the slot belongs to the pool of this list.
    unsafe fn push(&self, slot: NonNull<ReturnedSlot>) -> bool {
        let mut last = self.last.load(Ordering::Acquire);
        while last != closed() {
            let returned = ReturnedSlot { before: UnsafeCell::new(last) };
            // SAFETY: the slot belongs to the caller until it is linked.
            unsafe { slot.write(returned) };
            let linked = self.last.compare_exchange_weak(
                last,
                slot.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match linked {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        false
    }

    /// Takes all slots. Returns the slot given back last.
    pub(super) fn take_all(&self) -> *mut ReturnedSlot {
        if self.last.load(Ordering::Relaxed).is_null() {
            return ptr::null_mut();
        }
        self.last.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Takes all slots, and closes the list. Returns the slot given back last.
    pub(super) fn close(&self) -> *mut ReturnedSlot {
        self.last.swap(closed(), Ordering::AcqRel)
    }
}

/// Gives a slot back on a thread other than its pool's, or after its pool was dropped.
///
/// # Safety
/// The conditions of [`give_back`](super::give_back).
pub(super) unsafe fn give_back_elsewhere(slot: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let (chunk, _) = unsafe { locate_slot(slot) };
    // SAFETY: the chunk lives as long as this slot is taken, and so does its list.
    let returns = &unsafe { chunk.as_ref() }.returns;
    // SAFETY: the caller's promise. Once the slot is linked, the chunk may be freed at any time.
    if unsafe { returns.push(slot.cast()) } {
        return;
    }
    // SAFETY: the pool was dropped, so the chunk lives until no slot is outstanding; and this slot is.
    let outstanding = &unsafe { chunk.as_ref() }.outstanding;
    if outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: this was the last one, and no other thread has seen the count reach zero.
        unsafe { free_chunk(chunk) };
    }
}

/// Returns the chunk of a slot, and the slot's number in it.
///
/// # Safety
/// The slot belongs to a chunk.
#[inline]
pub(super) unsafe fn locate_slot(slot: NonNull<u8>) -> (NonNull<Chunk>, usize) {
    let chunk = slot.as_ptr().map_addr(|address| address & !(CHUNK - 1));
    let at = (slot.as_ptr().addr() - chunk.addr()) / SLOT + 1;
    // SAFETY: a chunk is aligned to its size, and the caller promises that the slot is in one; the header is at
    // its beginning.
    (unsafe { NonNull::new_unchecked(chunk.cast()) }, at)
}

const LAYOUT: Layout = match Layout::from_size_align(CHUNK - SLOT, CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("the alignment is a power of two"),
};

/// Allocates a chunk. Returns `None` if there is no memory.
pub(super) fn new_chunk(returns: Arc<ReturnList>, number: u32) -> Option<NonNull<Chunk>> {
    let header = Chunk { returns, number, outstanding: AtomicU32::new(0) };
    // SAFETY: the layout is not empty.
    let chunk = NonNull::new(unsafe { alloc(LAYOUT) })?.cast::<Chunk>();
    // SAFETY: just allocated, and large enough.
    unsafe { chunk.write(header) };
    Some(chunk)
}

/// Returns a slot of a chunk.
///
/// # Safety
/// The chunk lives, and `slot` is the number of one of its slots, not below [`RESERVED`].
#[inline]
pub(super) unsafe fn slot_of(chunk: NonNull<Chunk>, slot: usize) -> NonNull<u8> {
    // SAFETY: slot 1 is at the beginning, the last one inside of the chunk.
    unsafe { chunk.cast::<u8>().byte_add((slot - 1) * SLOT) }
}

/// Hands a chunk of a dropped pool to the threads that hold its slots; frees it if no slot is outstanding.
///
/// # Safety
/// `taken` slots of it were not given back, and the list of slots given back is closed.
pub(super) unsafe fn abandon_chunk(chunk: NonNull<Chunk>, taken: u32) {
    // SAFETY: until this has added the outstanding slots, no thread can see the count at zero.
    let outstanding = &unsafe { chunk.as_ref() }.outstanding;
    if outstanding.fetch_add(taken, Ordering::AcqRel).wrapping_add(taken) == 0 {
        // SAFETY: no slot is outstanding, and no other thread has seen that.
        unsafe { free_chunk(chunk) };
    }
}

/// Frees a chunk.
///
/// # Safety
/// No other thread may access any part of it.
pub(super) unsafe fn free_chunk(chunk: NonNull<Chunk>) {
    // SAFETY: the caller has exclusive access to the chunk.
    unsafe { chunk.drop_in_place() };
    // SAFETY: allocated by `new_chunk`.
    unsafe { dealloc(chunk.as_ptr().cast(), LAYOUT) };
}
