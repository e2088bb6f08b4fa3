//! How work enters a loop from other threads (E07, E08).
//!
//! - [`inbox`]: everything another thread can do to a loop: admit, push, wake.
//! - [`admission`]: the admission word, which counts accepted commands, bounds the queue and closes it.
//! - [`rejection`]: the error of a refused submission, and the policies for a full queue.
//!
//! The lock-free queue itself is `raw::queue`; the wake word is in `wake`. No module of this folder knows what
//! a command is: the inbox is generic.

pub(crate) mod admission;
pub(crate) mod inbox;
pub(crate) mod rejection;
