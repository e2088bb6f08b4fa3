//! Sleeping and waking: the seam between the executor's core and whatever its thread blocks on.
//!
//! A task-only executor blocks on a [`TokenPark`]; an event loop blocks in its I/O driver, which
//! implements the same two traits. The wake word guarantees at most one `unpark` per announced
//! sleep.

use std::fmt;
use std::sync::Arc;

use crate::clock::{Clock, Nanos};
use crate::sync::{Condvar, Mutex, lock};

/// The loop's half: blocks the loop's own thread.
pub trait Park {
    /// Blocks until unparked or until the given time, whichever is first; `None` has no limit.
    /// May return early. An `unpark` that came before the call makes it return at once.
    fn park(&mut self, until: Option<Nanos>);
}

/// The other threads' half: ends the current or the next [`park`](Park::park).
pub trait Unpark: Send + Sync {
    /// Makes the loop return from its park.
    fn unpark(&self);
}

/// Parks on a token of its own: never on `std::thread::park`, whose token user code shares.
#[derive(Debug)]
pub struct TokenPark {
    token: Arc<Token>,
    clock: Clock,
}

impl TokenPark {
    /// A parker whose deadlines are read off `clock`. By a virtual clock a deadline comes when somebody
    /// moves the clock there.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { token: Arc::new(Token::new()), clock }
    }

    /// The half for the other threads.
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
        let mut raised = lock(&self.token.raised);
        while !*raised {
            raised = match (&self.clock, until) {
                (_, None) | (Clock::Virtual(_), _) => wait(&self.token.changed, raised),
                (Clock::Monotonic, Some(until)) => {
                    let now = self.clock.now();
                    if now >= until {
                        break;
                    }
                    let waited = self.token.changed.wait_timeout(raised, until.since(now));
                    waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
        }
        *raised = false;
    }
}

/// A flag and its condition variable. The parked thread waits for the flag and lowers it; any
/// thread raises it.
struct Token {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Token {
    fn new() -> Self {
        Self { raised: Mutex::new(false), changed: Condvar::new() }
    }
}

impl Unpark for Token {
    fn unpark(&self) {
        *lock(&self.raised) = true;
        self.changed.notify_one();
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
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
