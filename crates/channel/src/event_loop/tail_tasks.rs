//! TailTasks tasks: what runs at the end of a turn, after the tasks (L09).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::{CommandSender, Origin, UserCode};

use crate::event_loop::command::LoopCommand;
use crate::local_queue::LocalQueue;

/// A tail task that may still be removed.
#[derive(Clone, Debug)]
pub struct TailTask {
    entry: Arc<TailTaskEntry>,
}

impl TailTask {
    pub(crate) fn new(entry: Arc<TailTaskEntry>) -> Self {
        Self { entry }
    }

    /// Removes it, from any thread: `true` if it has not run, and never will. Its closure is dropped
    /// here.
    pub fn remove(&self) -> bool {
        let removed = self.entry.take();
        removed.is_some()
    }
}

/// Shared by the loop, which runs it, and by whoever may remove it: the closure belongs to the one
/// who takes it out.
pub(crate) struct TailTaskEntry {
    origin: Origin,
    task: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl TailTaskEntry {
    pub(crate) fn new(origin: Origin, task: Box<dyn FnOnce() + Send>) -> Self {
        Self { origin, task: Mutex::new(Some(task)) }
    }

    fn take(&self) -> Option<Box<dyn FnOnce() + Send>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The tail tasks of a loop.
#[derive(Debug, Default)]
pub(crate) struct TailTasks {
    waiting: LocalQueue<Arc<TailTaskEntry>>,
}

impl TailTasks {
    pub(crate) fn push(&self, entry: Arc<TailTaskEntry>) {
        self.waiting.push(entry);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Runs those that wait now; those they add wait for the next turn.
    pub(crate) fn run(&self, sender: &CommandSender<LoopCommand>) {
        for _ in 0..self.waiting.len() {
            let Some(entry) = self.waiting.pop() else { return };
            if let Some(task) = entry.take() {
                // A panic was reported: nobody else waits for it.
                let _ = sender.run_user_code(UserCode::Task, entry.origin, task);
            }
        }
    }
}

impl fmt::Debug for TailTaskEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TailTaskEntry({})", self.origin)
    }
}
