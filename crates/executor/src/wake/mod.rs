//! How a loop sleeps and is woken (E10).
//!
//! - [`wake_word`]: one atomic word that says until when the loop sleeps, and decides which thread wakes it.
//! - [`park`]: the traits for blocking a loop's thread, and the parker of loops without I/O.

pub(crate) mod park;
pub(crate) mod wake_word;
