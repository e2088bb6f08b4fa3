//! Handlers that run on another executor than their channel's loop (C03): for work that would hold
//! the loop up.
//!
//! ```text
//!            the loop                                      the executor
//!   head ⇄ [ Offloaded ] ⇄ tail
//!              │  ▲
//!              │  └── emissions ◄─────────────── RemoteCtx ◄──┐
//!              └───── letters ────► one task drains many ──► RemoteHandler
//! ```
//!
//! 1. In the slot, on the loop, there is an [`Offloaded`]: it stops every event, also those its handler
//!    does not care about, and posts it as a letter. So nothing overtakes anything (rule 12).
//! 2. There is one queue to the handler and one back. What arrives at the slot reaches the handler in
//!    that order, whatever its direction, and what the handler emits goes on from the slot in the order
//!    of emission: so either direction is first in, first out.
//! 3. Each queue is drained by one task, or one command, for all that is in it; after a batch others
//!    have their turn. No lock is held while a handler runs.
//! 4. Writes count as pending bytes while they wait in either queue. A `read` waits behind the messages
//!    that came before it: so nothing more is read while the handler is busy with the last round.
//! 5. A completion that belongs to the loop stays there, in a table; a number travels in its stead.
//! 6. A handler that is removed gets what was posted before, then `on_removed`. Its slot stays for that
//!    long, and all that comes meanwhile waits behind it and then goes past: nothing is lost, writes
//!    included (rule 4).
//! 7. When the channel is closed its future is kept at once. The handlers are removed when the last
//!    events have come through all mailboxes, so a handler behind an offloaded one learns that the
//!    channel is inactive before it is removed; the loop's end waits for that as long as for anything
//!    else that is in flight.
//! 8. A handler that panics, cannot be built or added, or whose executor is gone, is dropped: operations
//!    that wait for it fail, what tells of the channel's life goes past it, and the channel is closed.
//!
//! | to understand | read |
//! |---|---|
//! | what a user writes | `remote_handler`, `remote_context`, `remote_completion` |
//! | what travels | `remote_event` |
//! | the queues, and who drains them when | `link`, on `fifo` |
//! | what happens on the executor | `executor_side` |
//! | what happens on the loop | `offloaded`, `loop_side` |

mod executor_side;
mod fifo;
mod link;
mod loop_side;
mod offloaded;
mod remote_completion;
mod remote_context;
mod remote_event;
mod remote_handler;

pub(crate) use self::link::OffloadLink;
pub(crate) use self::loop_side::OffloadState;
pub use self::offloaded::Offloaded;
pub use self::remote_completion::RemoteCompletion;
pub use self::remote_context::RemoteCtx;
pub use self::remote_handler::RemoteHandler;
