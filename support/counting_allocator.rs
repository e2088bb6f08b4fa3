//! An allocator that counts, for budgets that are exact on a noisy machine.
//!
//! A test or benchmark includes this file as a module (`#[path = "…"] mod counting_allocator;`) and
//! with that runs on it. Each thread counts for itself, so neighbours that run at the same time do
//! not disturb a measurement; what a loop allocates is asked for on the loop. What the whole process has is
//! counted too.
#![allow(unsafe_code, reason = "an allocator cannot be written without; every block has its note")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Needs neither an initialiser nor a destructor: reaching it never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// What was asked for, less what was given back.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// What all threads have asked for, less what they gave back. Any thread adds and subtracts; it orders
/// nothing.
static BYTES_OF_ALL: AtomicUsize = AtomicUsize::new(0);

/// How often the calling thread has asked for memory so far; growing a block is asking again.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// How many bytes the calling thread has asked for so far and not given back, as if all were its own;
/// with what it gave back of others', it wraps.
#[allow(dead_code, reason = "each test that includes this file has its own questions")]
pub(crate) fn bytes() -> usize {
    BYTES.get()
}

/// How many bytes all threads have asked for so far and not given back.
#[allow(dead_code, reason = "each test that includes this file has its own questions")]
pub(crate) fn bytes_of_all() -> usize {
    BYTES_OF_ALL.load(Ordering::Relaxed)
}

/// What the calling thread allocates in `f`.
#[allow(dead_code, reason = "each test that includes this file has its own questions")]
pub(crate) fn allocations_in<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let before = allocations();
    let result = f();
    (allocations() - before, result)
}

/// The system's allocator, with a tally.
struct Counting;

fn count(given: usize, taken: usize) {
    BYTES.set(BYTES.get().wrapping_add(given).wrapping_sub(taken));
    BYTES_OF_ALL.fetch_add(given.wrapping_sub(taken), Ordering::Relaxed); // It wraps, as that does.
    ALLOCATIONS.set(ALLOCATIONS.get() + u64::from(given > 0));
}

// SAFETY: every call goes to the system's allocator as it came; counting touches a plain cell of
// this thread and an atomic number, and neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        // SAFETY: the caller's promise, passed on; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promise, passed on; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}
