//! The traits for blocking a loop's thread, and the parker of loops without I/O.
//!
//! A task-only executor blocks on a [`TokenPark`]; an event loop blocks in its I/O driver, which implements the
//! same two traits. The wake word guarantees at most one `unpark` per announced sleep.

use std::fmt;
use std::sync::Arc;

use crate::clock::{Clock, Nanos};
use crate::sync::{Condvar, Mutex, lock};

/// Blocks the loop's own thread. The loop owns this half.
pub trait Park {
    /// Blocks until unparked or until the given time, whichever is first; `None` means no limit. May return
    /// early. An `unpark` before the call makes it return at once.
    fn park(&mut self, until: Option<Nanos>);
}

/// Ends the current or the next [`park`](Park::park). Other threads hold this half.
pub trait Unpark: Send + Sync {
    /// Makes the loop return from its park.
    fn unpark(&self);
}

/// A parker with a token of its own, never `std::thread::park`, whose token user code shares.
#[derive(Debug)]
pub struct TokenPark {
    token: Arc<ParkToken>,
    clock: Clock,
}

impl TokenPark {
    /// Creates a parker whose deadlines are measured by `clock`. With a virtual clock a deadline is reached
    /// when a thread moves the clock there.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { token: Arc::new(ParkToken::new()), clock }
    }

    /// Returns the half for other threads.
    #[must_use]
    pub fn unparker(&self) -> Arc<dyn Unpark> {
        self.token.clone()
    }
}

impl Park for TokenPark {
    fn park(&mut self, until: Option<Nanos>) {
        let _alarm = match (&self.clock, until) {
            (Clock::Virtual(clock), Some(until)) => Some(clock.wake_at(until, self.token.clone())),
            _ => None,
        };
        let mut is_raised = lock(&self.token.is_raised);
        while !*is_raised {
            is_raised = match (&self.clock, until) {
                (_, None) | (Clock::Virtual(_), _) => wait(&self.token.changed, is_raised),
                (Clock::Monotonic, Some(until)) => {
                    let now = self.clock.now();
                    if now >= until {
                        break;
                    }
                    let waited = self.token.changed.wait_timeout(is_raised, until.since(now));
                    waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
        }
        *is_raised = false;
    }
}

/// A flag and its condition variable. Any thread raises the flag; the parked thread waits for it and lowers it.
struct ParkToken {
    is_raised: Mutex<bool>,
    changed: Condvar,
}

impl ParkToken {
    fn new() -> Self {
        Self { is_raised: Mutex::new(false), changed: Condvar::new() }
    }
}

impl Unpark for ParkToken {
    fn unpark(&self) {
        *lock(&self.is_raised) = true;
        self.changed.notify_one();
    }
}

impl fmt::Debug for ParkToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParkToken")
    }
}

fn wait<'a, T>(
    condition: &Condvar,
    guard: crate::sync::MutexGuard<'a, T>,
) -> crate::sync::MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_unpark_before_the_park_is_not_lost() {
        let mut park = TokenPark::new(Clock::Monotonic);
        park.unparker().unpark();
        park.park(None);
    }

    #[test]
    fn a_deadline_ends_the_park() {
        let clock = Clock::Monotonic;
        let mut park = TokenPark::new(clock.clone());
        let until = clock.now().plus(Duration::from_millis(5));
        park.park(Some(until));
        assert!(clock.now() >= until, "never early without an unpark");
    }
}
