//! A counting global allocator, for allocation budgets that are exact on a noisy machine.
//!
//! A test or benchmark that includes this file as a module (`#[path = "…"] mod counting_allocator;`) runs on it.
//! Each thread has its own counts, so tests that run at the same time do not disturb a measurement; the allocations
//! of a loop are read on the loop. The bytes of the whole process are counted too.
#![allow(
    unsafe_code,
    reason = "an allocator cannot be written without unsafe; every block has its SAFETY note"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

thread_local! {
    /// Allocations of this thread. The cell has no lazy initialiser and no destructor, so access never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated by this thread, less bytes freed.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Bytes allocated by all threads, less bytes freed. Any thread adds and subtracts with Relaxed ordering: the count
/// orders nothing.
static PROCESS_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Returns how many allocations the calling thread has made so far; growing a block (`realloc`) counts as one.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Returns how many bytes the calling thread has allocated so far, less those it has freed. The count wraps when the
/// thread has freed more than it allocated, because it freed blocks of other threads.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn bytes() -> usize {
    BYTES.get()
}

/// Returns how many bytes all threads have allocated so far and not freed.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn process_bytes() -> usize {
    PROCESS_BYTES.load(Ordering::Relaxed)
}

/// Calls `f` and returns how many allocations the calling thread made in it.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn allocations_in<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let before = allocations();
    let result = f();
    (allocations() - before, result)
}

/// The system allocator, with counters of allocations and bytes.
struct CountingAllocator;

fn count(allocated: usize, freed: usize) {
    BYTES.set(BYTES.get().wrapping_add(allocated).wrapping_sub(freed));
    PROCESS_BYTES.fetch_add(allocated.wrapping_sub(freed), Ordering::Relaxed); // Wraps, as above.
    ALLOCATIONS.set(ALLOCATIONS.get() + u64::from(allocated > 0));
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches a plain cell of
// this thread and an atomic number, and neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: the caller's promise is passed on; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promise is passed on; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
