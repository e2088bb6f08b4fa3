//! The only `unsafe` code of the crate: small containers with safe interfaces.
//!
//! - [`call`]: a closure stored inline when it is small, so that submitting one allocates nothing. [`task`]: a
//!   user's closure, with its origin.
//! - [`origin`]: one word that says where a task came from, publishable through an atomic.
//! - [`free_slots`]: which slots of a growing table are free, in the order in which they are taken.
//! - [`block`]: a reference-counted object behind one thin pointer, with a tail that only its own type knows.
//! - [`pool`]: memory for blocks of one size, taken on one thread and given back on any.
//! - [`prefetch`]: a hint to the processor that memory will be read.
//! - [`queue`]: the unbounded queue from many threads to one (MPSC), in blocks.
//! - [`slot`]: a value handed over once between two threads, under one state word.
//! - [`work`]: a closure in the tail of its own slot, under the same word.
//!
//! Nothing outside of this folder may use `unsafe` (the crate denies it), and nothing in here calls back into
//! the rest of the crate.
#![allow(
    unsafe_code,
    reason = "the only module with unsafe code; every block carries its SAFETY note"
)]

pub(crate) mod block;
pub(crate) mod call;
pub(crate) mod free_slots;
pub(crate) mod origin;
pub(crate) mod pool;
pub(crate) mod prefetch;
pub(crate) mod queue;
pub(crate) mod slot;
pub(crate) mod task;
pub(crate) mod work;
