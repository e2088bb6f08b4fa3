//! The phases of a turn: what every loop is made of (`docs/LOOP.md`).
//!
//! ```text
//!        ┌──────────────────────── one turn ────────────────────────┐
//!        │  wait            run_tasks              check_shutdown    │
//!   ────►│  sleep if there  │ what was queued      │ quiet? overdue? │────► Again ─┐
//!        │  is no work      │ when the pass began  │ hooks           │             │
//!        └──────────────────────────────────────────────────────────┘◄────────────┘
//!                                                        └────► Done ──► teardown
//! ```
//!
//! A task-only executor calls these three phases in a row; an event loop puts its I/O between the first and the
//! second. [`LoopCore`] is the owned half: it lives on the loop's thread, and no other thread can reach it.
//!
//! Its parts: `loop_core` (the phases), `local_half` and `shared_half` (what the loop alone touches, what all
//! threads touch), `command` (entries of the queue), `unstarted` and `run_loop` (from the seed to the
//! teardown), `teardown` (its steps), `suspended` (a pooled loop between two turns), `current` (the loop on
//! this thread), `registry` (executors by id), `user_code` (running code of the user for the layer above).

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
pub use crate::watchdog::activity_cell::{ActivityGuard, RoundGuard};

/// How many tasks one task phase may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassLimit {
    /// The commands that were queued when the phase began.
    Queued,
    /// Commands for at most this long. The clock is read every 64 commands; zero means at most 64 commands.
    Within(Duration),
}

/// The outcome of a turn.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The loop continues with another turn.
    Again,
    /// The loop is done: tear it down.
    Done,
}

/// The work of a loop: its turns, and the commands of the layer above. Made and dropped on the loop's thread,
/// so it need not be `Send`.
pub trait LoopWork<X: Send + 'static>: 'static {
    /// Makes one turn.
    fn turn(&mut self, core: &mut LoopCore<X>) -> TurnOutcome;

    /// Performs a command of the layer above that has reached the head of the queue.
    fn on_command(&mut self, command: X);

    /// Handles a panic of a turn. Returns `Ok` if the loop can continue with the next turn.
    ///
    /// # Errors
    /// The panic payload, if the loop cannot continue: the loop then dies.
    fn on_panic(&mut self, payload: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        Err(payload)
    }

    /// Notifies the work that the loop has died by a panic in [`turn`](Self::turn). `cause` is the error for
    /// everything that waits. The work is dropped next.
    fn on_death(&mut self, cause: &Error) {
        let _ = cause;
    }
}

/// Makes a loop's [`LoopWork`] on the loop's thread. The seed itself is `Send`.
pub type LoopSeed<X> = Box<dyn FnOnce() -> Box<dyn LoopWork<X>> + Send>;

/// Returns the value that the layer above has [attached](crate::EventExecutorGroupBuilder::attach) to a group.
#[must_use]
pub fn attachment_of<X: Send + 'static>(
    group: &EventExecutorGroup<X>,
) -> Option<&Arc<dyn Any + Send + Sync>> {
    group.attachment()
}
