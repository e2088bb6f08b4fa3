//! The bridge between a pipeline and futures: a handler at its end, and the state it shares with the handles that
//! futures hold.
//!
//! ```text
//!   pipeline ──on_read──► BridgeHandler ──► queue of one round ──► next().await
//!            ◄──write── context of the bridge ◄──────────────────── send().await
//! ```
//!
//! Rules:
//! 1. *Reads on demand.* At the end of a round of reads, if no future waits for a message, reads pause; they resume when
//!    one waits and the queue is empty. So the queue holds the messages of one round at most. A new bridge does not
//!    read.
//! 2. *Back-pressure.* A write waits while the channel is not writable.
//! 3. *The end.* Messages in the queue come first, then the cause if the channel was closed with one, then `None`. The
//!    end of the peer's data is an end of the input; writes go on if the channel allows half-closure.
//! 4. *Errors* that reach the end of the pipeline are items, at most [`MAX_ERRORS`](round_queue::MAX_ERRORS) at once; more
//!    pass on, and are reported.
//! 5. *Drain.* Between the end of a round and the next wait the bridge holds the loop's drain: a future is at work on
//!    what it has read. So it does from the end of the peer's data to the close.
//! 6. *Inline polls.* The task of the connection, if it is the one that waits, is polled when a message comes, inside of
//!    the handler's call; every other future by its waker.
//! 7. *Wakers, futures and messages* are the user's: they are called and dropped outside of every borrow.

pub(crate) mod drain_signal;
pub(crate) mod handler;
pub(crate) mod round_queue;
pub(crate) mod state;
mod waker_slot;
