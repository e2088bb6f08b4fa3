//! Who is at work, and when nobody is any more: what lets the gateway end without losing a line.
//!
//! Whoever accepts a line goes in before, and comes out when the line is in all the queues it is for and its
//! sender has been answered. Closed, the gate lets nobody in, and those who wait learn when everybody is out:
//! from then on the queues only become shorter.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts who is in. Shared by the business threads and whoever ends the gateway; each looks and changes
/// it under the lock.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    everybody_out: Condvar,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    inside: usize,
}

/// Somebody is in, until it is dropped.
#[derive(Debug)]
#[must_use = "whoever is let in is out when this is dropped"]
pub struct Pass<'a>(&'a Gate);

impl Gate {
    /// Goes in; `None` if it is closed.
    pub fn enter(&self) -> Option<Pass<'_>> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.inside += 1;
        Some(Pass(self))
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        self.lock().closed = true;
    }

    /// Waits until everybody is out. `false`: it took longer than this.
    #[must_use]
    pub fn wait_until_empty(&self, at_most: Duration) -> bool {
        let occupied = |state: &mut State| state.inside > 0;
        let waited = self.everybody_out.wait_timeout_while(self.lock(), at_most, occupied);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inside -= 1;
        if state.inside == 0 {
            self.0.everybody_out.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn who_is_in_is_waited_for_and_nobody_else_comes_in() {
        let gate = Gate::default();
        let pass = gate.enter().unwrap();
        gate.close();
        assert!(gate.enter().is_none());
        assert!(!gate.wait_until_empty(Duration::from_millis(1)));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.wait_until_empty(Duration::from_secs(10)));
            drop(pass);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn a_gate_that_nobody_is_in_is_empty_at_once() {
        let gate = Gate::default();
        drop(gate.enter());
        gate.close();
        assert!(gate.wait_until_empty(Duration::ZERO));
    }
}
