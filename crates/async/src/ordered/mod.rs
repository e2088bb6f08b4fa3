//! Answers in order: asynchronous calls for the requests of a connection (C19).
//!
//! ```text
//!   request ──► held ──► calls, at most `max_concurrent` ──► answers, in the order of the requests
//!                        a   ready at its first poll          A is written at once
//!                        b   pending                          B is written when b is ready
//!                        c   ready before b                   C waits for B
//! ```
//!
//! An [`AsyncHandler`] answers one request with one response; [`OrderedAnswers`] is the handler of the pipeline that
//! calls it. The contract is the documentation of [`OrderedAnswers`]. How it is kept:
//!
//! | file | |
//! |---|---|
//! | `async_handler.rs` | the trait that a user implements, and its form for functions |
//! | `answers.rs`, `builder.rs`, `error.rs` | the handler of the pipeline, and its options |
//! | `call_queue.rs`, `call_state.rs` | the calls in order: beginning, polling and answering them; pauses; how they end |
//! | `call_slot.rs` | the place of one call: its future and its waker |
//! | `call_driver.rs` | the future that polls woken calls |
//!
//! 1. *First poll.* A call is polled where its request is read. If it is ready, neither a task nor a waker is made for
//!    it, and its place is used again by the next call. A call that is pending before the connection has a driver was
//!    polled with a waker that does nothing: the driver polls it again, in the same turn, so no wake is lost.
//! 2. *Wakes.* Each call has its own waker, which marks the call and wakes the driver, a future of the loop. The driver
//!    polls the marked calls, each once, and writes what is ready: a turn costs one flush.
//! 3. *No borrow.* The state is taken out of its cell while it is used, so nothing is borrowed while futures are polled
//!    or dropped, or while other handlers run. The driver works as a call of the handler (`LocalCtx::run`), so it never
//!    meets the handler's own methods.

mod answers;
mod async_handler;
mod builder;
mod call_driver;
mod call_queue;
mod call_slot;
mod call_state;
mod error;

pub use self::answers::OrderedAnswers;
pub use self::async_handler::{AsyncHandler, HandlerFn, handler_fn};
pub use self::builder::{DEFAULT_MAX_CONCURRENT, OrderedAnswersBuilder};
pub use self::error::InvalidOrderedOption;
