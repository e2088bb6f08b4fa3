//! The phases of a turn: what every loop is made of (`docs/LOOP.md`).
//!
//! ```text
//!        ┌──────────────────────── one turn ────────────────────────┐
//!        │  wait            run_tasks              check_shutdown    │
//!   ────►│  sleep, if there │ what was queued      │ quiet? overdue? │────► Again ─┐
//!        │  is nothing      │ when the pass began  │ hooks           │             │
//!        └──────────────────────────────────────────────────────────┘◄────────────┘
//!                                                        └────► Done ──► teardown
//! ```
//!
//! A task-only executor calls these three in a row; an event loop puts its I/O
//! between the first and the second. [`LoopCore`] is the owned half: it lives on the loop's thread
//! and nobody else can reach it.
//!
//! What the teardown asks of it is in `ending`; a loop without a thread is put away in `resting`.

pub(crate) mod command;
pub(crate) mod current;
pub(crate) mod hooks;
pub(crate) mod local_half;
mod loop_core;
pub(crate) mod loop_local;
pub(crate) mod registry;
pub(crate) mod run_loop;
pub(crate) mod shared_half;
pub(crate) mod suspended;
pub(crate) mod task_loop;
mod teardown;
pub(crate) mod trampoline;
mod unstarted;
mod user_code;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::group::EventExecutorGroup;

pub use self::loop_core::LoopCore;
pub use self::user_code::{drop_in_turn, panic_message, report, run_as, run_at, run_user_code};
pub use crate::executor::sender::CommandAccess;
pub use crate::raw::call::InlineCall;
pub use crate::watchdog::activity_cell::{Begun, BegunRound};

/// How much one task phase may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The tasks that were queued when it began.
    Queued,
    /// For at most this long, looking at the clock every 64 tasks; zero means at most 64 tasks.
    Within(Duration),
}

/// Whether a loop goes on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There will be another turn.
    Again,
    /// The loop is through: tear it down.
    Done,
}

/// What a loop does in a turn. Made on the loop's thread, dropped there: it need not be `Send`.
pub trait Work<X: Send + 'static>: 'static {
    /// One turn.
    fn turn(&mut self, core: &mut LoopCore<X>) -> Turn;

    /// A command of the layer above has come to the head of the queue.
    fn on_command(&mut self, command: X);

    /// A turn has panicked. Whether the loop can go on with the next one.
    ///
    /// # Errors
    /// The panic, if it cannot: the loop dies of it.
    fn on_panic(&mut self, payload: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        Err(payload)
    }

    /// The loop has died, by a panic in [`turn`](Self::turn): the cause, for whoever is told of the end. It is
    /// dropped next.
    fn on_death(&mut self, cause: &Error) {
        let _ = cause;
    }
}

/// Makes a loop's [`Work`] on the loop's thread. Until then it waits in here, and is `Send`.
pub type LoopSeed<X> = Box<dyn FnOnce() -> Box<dyn Work<X>> + Send>;

/// Returns what the layer above has [attached](crate::EventExecutorGroupBuilder::attach) to a group.
#[must_use]
pub fn attachment_of<X: Send + 'static>(
    group: &EventExecutorGroup<X>,
) -> Option<&Arc<dyn Any + Send + Sync>> {
    group.attachment()
}
