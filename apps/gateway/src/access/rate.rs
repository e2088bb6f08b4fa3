//! The rate of one connection: a token bucket.

use std::time::Duration;

use waterwheel::executor::Nanos;

/// A rate with a burst: so many at once after a quiet time, then so many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The number per second.
    pub per_second: u32,
    /// The number at once.
    pub burst: u32,
}

/// A bucket that holds up to `burst` tokens, and gets `per_second` of them each second.
///
/// Instead of the tokens the bucket keeps the time at which it is full again, so that nothing is rounded away.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// The time in which the bucket gets one token, in nanoseconds.
    interval: u64,
    burst: u64,
    full_at: Nanos,
}

impl TokenBucket {
    /// Creates a full bucket. A rate or a burst of 0 counts as 1.
    #[must_use]
    pub fn new(limit: RateLimit) -> Self {
        const SECOND: u64 = 1_000_000_000;
        Self {
            interval: SECOND.div_ceil(limit.per_second.max(1).into()),
            burst: limit.burst.max(1).into(),
            full_at: Nanos::default(),
        }
    }

    /// Takes a number of tokens.
    ///
    /// # Errors
    /// Takes none, and returns the time after which there are as many; `Duration::MAX` if they are more than the burst.
    pub fn try_take(&mut self, count: usize, now: Nanos) -> Result<(), Duration> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        if count > self.burst {
            return Err(Duration::MAX);
        }
        // At most 2³² tokens of at most 10⁹ ns each.
        let start = self.full_at.0.max(now.0);
        let after = start.saturating_add(count * self.interval);
        let latest = now.0.saturating_add(self.burst * self.interval);
        match after.checked_sub(latest) {
            None | Some(0) => {
                self.full_at = Nanos(after);
                Ok(())
            }
            Some(missing) => Err(Duration::from_nanos(missing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    #[test]
    fn g03_a_burst_passes_at_once_and_then_the_rate() {
        let mut bucket = TokenBucket::new(RateLimit { per_second: 10, burst: 3 });
        let start = 5_000;
        for _ in 0..3 {
            assert_eq!(bucket.try_take(1, at(start)), Ok(()));
        }
        assert_eq!(bucket.try_take(1, at(start)), Err(Duration::from_millis(100)));
        assert_eq!(bucket.try_take(1, at(start + 99)), Err(Duration::from_millis(1)));
        assert_eq!(bucket.try_take(1, at(start + 100)), Ok(()));
        assert_eq!(bucket.try_take(1, at(start + 100)), Err(Duration::from_millis(100)));
        assert_eq!(bucket.try_take(3, at(start + 10_000)), Ok(()), "full after a quiet time");
        assert!(bucket.try_take(1, at(start + 10_000)).is_err(), "and not more than full");
    }

    #[test]
    fn g03_a_batch_is_admitted_as_a_whole_or_not_at_all() {
        let mut bucket = TokenBucket::new(RateLimit { per_second: 1, burst: 4 });
        assert_eq!(bucket.try_take(3, at(0)), Ok(()));
        assert_eq!(bucket.try_take(2, at(0)), Err(Duration::from_secs(1)));
        assert_eq!(bucket.try_take(1, at(0)), Ok(()), "the refused batch has taken nothing");
        assert_eq!(bucket.try_take(5, at(60_000)), Err(Duration::MAX));
        assert_eq!(bucket.try_take(usize::MAX, at(60_000)), Err(Duration::MAX));
    }

    #[test]
    fn g03_extreme_rates_and_times_do_not_overflow() {
        let mut fast = TokenBucket::new(RateLimit { per_second: u32::MAX, burst: u32::MAX });
        assert_eq!(fast.try_take(u32::MAX as usize, Nanos(u64::MAX)), Ok(()));
        let mut none = TokenBucket::new(RateLimit { per_second: 0, burst: 0 });
        assert_eq!(none.try_take(0, at(0)), Ok(()));
        assert_eq!(none.try_take(1, at(0)), Ok(()));
        assert_eq!(none.try_take(1, at(999)), Err(Duration::from_millis(1)));
        let mut slow = TokenBucket::new(RateLimit { per_second: 1, burst: u32::MAX });
        assert_eq!(slow.try_take(u32::MAX as usize, Nanos(u64::MAX / 2)), Ok(()));
        assert!(slow.try_take(1, at(0)).is_err(), "a clock that runs backwards refuses");
    }
}
