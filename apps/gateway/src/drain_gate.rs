//! Counts the commands in progress, so that the gateway can end without losing a line.
//!
//! A session enters the gate before it executes a command, and leaves it when the line is in the outbox of every
//! receiver and its sender has been answered. A closed gate refuses entry. Once the gate is closed and idle, outboxes
//! only become shorter.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A counter of commands in progress that can be closed. Shared by the business threads and the thread that drains
/// the gateway; all of them read and change it under the lock.
#[derive(Debug, Default)]
pub struct DrainGate {
    state: Mutex<GateState>,
    idle: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    in_progress: usize,
}

/// A command in progress; it ends when the guard is dropped.
#[derive(Debug)]
#[must_use = "the command counts as finished when the guard is dropped"]
pub struct CommandGuard<'a>(&'a DrainGate);

impl DrainGate {
    /// Begins a command; `None` if the gate is closed.
    pub fn enter(&self) -> Option<CommandGuard<'_>> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        state.in_progress += 1;
        Some(CommandGuard(self))
    }

    /// Refuses all further commands.
    pub fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Waits until no command is in progress. Returns false if that took longer than `at_most`.
    #[must_use]
    pub fn wait_until_idle(&self, at_most: Duration) -> bool {
        let is_busy = |state: &mut GateState| state.in_progress > 0;
        let waited = self.idle.wait_timeout_while(self.lock(), at_most, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CommandGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.in_progress -= 1;
        if state.in_progress == 0 {
            self.0.idle.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn closing_waits_for_commands_in_progress_and_refuses_new_ones() {
        let gate = DrainGate::default();
        let command = gate.enter().unwrap();
        gate.close();
        assert!(gate.enter().is_none());
        assert!(!gate.wait_until_idle(Duration::from_millis(1)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.wait_until_idle(Duration::from_secs(10)));
            drop(command);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn a_gate_without_commands_is_idle_at_once() {
        let gate = DrainGate::default();
        drop(gate.enter());
        gate.close();
        assert!(gate.wait_until_idle(Duration::ZERO));
    }
}
