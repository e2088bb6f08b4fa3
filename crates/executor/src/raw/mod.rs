//! The crate's one room with `unsafe` in it: small containers with safe faces.
//!
//! - [`call`]: a closure stored inline when it is small, so that submitting one allocates nothing;
//!   [`task`]: the same, of a user, with its origin.
//! - [`origin`]: one word that says where a task came from, publishable through an atomic.
//! - [`free_slots`]: which slots of a growing table are free, in the order in which they are taken.
//! - [`block`]: a counted object behind one thin pointer, with a tail that only it knows.
//! - [`pool`]: memory for blocks of one size, taken on a thread and given back on any.
//! - [`prefetch`]: a hint to the processor that memory will be read.
//! - [`queue`]: values from many threads to one, in blocks.
//! - [`slot`]: a value handed over once between two threads, under one state word.
//! - [`work`]: a closure in the tail of its own slot, under the same word.
//!
//! Nothing outside this folder may use `unsafe` (the crate denies it), and nothing in here calls
//! back into the rest of the crate.
#![allow(unsafe_code, reason = "the named room; every block carries its SAFETY note")]

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
