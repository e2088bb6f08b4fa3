//! The limit of reports: a burst at once, then one per interval.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Nanos;

/// A token bucket that counts what it suppresses. Any thread uses it; the lock is held for a few instructions,
/// and no user code runs under it.
#[derive(Debug)]
pub(crate) struct BurstLimit {
    burst: u32,
    interval: Duration,
    state: Mutex<BurstState>,
}

#[derive(Debug)]
struct BurstState {
    tokens: u32,
    /// The time up to which tokens were added.
    refilled: Nanos,
    suppressed: u64,
}

impl BurstLimit {
    /// Creates a limit that admits `burst` at once, and then one per `interval`, which must not be zero.
    pub(crate) const fn new(burst: u32, interval: Duration) -> Self {
        let state = BurstState { tokens: burst, refilled: Nanos(0), suppressed: 0 };
        Self { burst, interval, state: Mutex::new(state) }
    }

    /// Asks for one token. Returns how many requests were suppressed since the last admitted one, or `None` if
    /// this one is suppressed.
    pub(crate) fn admit(&self, now: Nanos) -> Option<u64> {
        let mut state = self.lock();
        let intervals = now.since(state.refilled).as_nanos() / self.interval.as_nanos();
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        state.tokens = state.tokens.saturating_add(intervals).min(self.burst);
        state.refilled = if state.tokens == self.burst {
            now // A full bucket does not save up time.
        } else {
            state.refilled.plus(self.interval.saturating_mul(intervals))
        };
        if state.tokens == 0 {
            state.suppressed += 1;
            return None;
        }
        state.tokens -= 1;
        Some(std::mem::take(&mut state.suppressed))
    }

    /// Counts `n` admitted requests as suppressed after all.
    pub(crate) fn add_suppressed(&self, n: u64) {
        self.lock().suppressed += n;
    }

    fn lock(&self) -> MutexGuard<'_, BurstState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn r04_a_burst_is_admitted_and_then_one_per_interval_with_the_count_of_the_others() {
        let limit = BurstLimit::new(3, SECOND);
        let now = Nanos(5_000_000_000);
        let admitted: Vec<_> = (0..10).map(|_| limit.admit(now)).collect();
        assert_eq!(admitted[..3], [Some(0); 3]);
        assert_eq!(admitted[3..], [None; 7]);
        assert_eq!(limit.admit(now.plus(SECOND / 2)), None);
        assert_eq!(limit.admit(now.plus(SECOND)), Some(8));
        assert_eq!(limit.admit(now.plus(SECOND)), None);
        // Parts of an interval are not lost: half a second was saved up, and half a second more is enough.
        assert_eq!(limit.admit(now.plus(SECOND * 5 / 2)), Some(1));
        assert_eq!(limit.admit(now.plus(SECOND * 3)), Some(0));
    }

    #[test]
    fn r04_a_long_silence_saves_up_one_burst_and_no_more() {
        let limit = BurstLimit::new(3, SECOND);
        let now = Nanos(5_000_000_000);
        assert_eq!(limit.admit(now), Some(0));
        let later = now.plus(1000 * SECOND);
        assert_eq!((0..10).filter_map(|_| limit.admit(later)).count(), 3);
        limit.add_suppressed(2);
        assert_eq!(limit.admit(Nanos::MAX), Some(9));
    }
}
