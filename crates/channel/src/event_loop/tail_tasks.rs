//! Tail tasks: tasks that run at the end of a turn, after the others (L09).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_executor::{CommandSender, Origin, UserCode};

use crate::base::local_queue::LocalQueue;
use crate::event_loop::command::LoopCommand;

/// A handle that can remove a tail task before it runs.
#[derive(Clone, Debug)]
pub struct TailTask {
    entry: Arc<TailTaskEntry>,
}

impl TailTask {
    pub(crate) fn new(entry: Arc<TailTaskEntry>) -> Self {
        Self { entry }
    }

    /// Removes the task, from any thread, and drops its closure here. Returns `true` if the task has not run and
    /// never will.
    pub fn remove(&self) -> bool {
        let removed = self.entry.take();
        removed.is_some()
    }
}

/// A tail task, shared by the loop that runs it and the handles that may remove it. The closure belongs to the thread
/// that takes it out.
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

/// The queued tail tasks of a loop.
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

    /// Runs the tasks that are queued now; tasks that they add wait for the next turn.
    pub(crate) fn run(&self, sender: &CommandSender<LoopCommand>) {
        for _ in 0..self.waiting.len() {
            let Some(entry) = self.waiting.pop() else { return };
            if let Some(task) = entry.take() {
                // A panic has already been reported, and no caller waits for the result.
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
