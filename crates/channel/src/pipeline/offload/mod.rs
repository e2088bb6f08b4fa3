//! Offloaded handlers: they run on another executor than their channel's loop (C03), for work that would block the
//! loop.
//!
//! ```text
//!            the loop                                      the executor
//!   head ⇄ [ Offloaded ] ⇄ tail
//!              │  ▲
//!              │  └── emissions ◄─────────────── RemoteCtx ◄──┐
//!              └───── commands ───► one task runs many ───► RemoteHandler
//! ```
//!
//! 1. The slot on the loop holds an [`Offloaded`]. It stops every event, even those its handler has no method for, and
//!    sends it to the handler as a command. So no event overtakes another (rule 12).
//! 2. There is one queue to the handler and one back. Events reach the handler in the order in which they arrived at
//!    the slot, whatever their direction. The handler's emissions continue from the slot in the order of emission. So
//!    either direction is first in, first out.
//! 3. Each queue is drained by one task, or one loop command, for all its items; after a batch others get a turn. No
//!    lock is held while a handler runs.
//! 4. Writes count as pending bytes while they are in either queue. A `read` queues after the messages that arrived
//!    before it, so nothing more is read while the handler is busy with the last round.
//! 5. A completion that belongs to the loop stays there, in a table; its number is sent instead.
//! 6. A handler that is removed receives the commands queued before, then `on_removed`. Its slot stays until then; all
//!    events that arrive meanwhile wait there and then skip the handler, so none is lost, writes included (rule 4).
//! 7. When the channel is closed, its close future completes at once. The handlers are removed after the last events
//!    have passed through all queues, so a handler after an offloaded one learns that the channel is inactive before
//!    it is removed. The shutdown of the loop waits for the removal as for everything else in flight.
//! 8. A handler that panics, that cannot be built or added, or whose executor is gone, is dropped: operations queued
//!    for it fail, lifecycle events of the channel skip it, and the channel is closed.
//!
//! | to understand | read |
//! |---|---|
//! | what a user writes | `remote_handler`, `remote_context`, `remote_completion` |
//! | the events that are sent between the threads | `remote_event` |
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
