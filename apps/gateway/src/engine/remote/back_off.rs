//! The times between attempts to connect.

use std::time::Duration;

/// Times that double from attempt to attempt, each shortened at random by up to a half: gateways that have lost the same server
/// do not return to it at the same moment.
#[derive(Clone, Debug)]
pub(in crate::engine) struct BackOff {
    first: Duration,
    longest: Duration,
    attempts: u32,
}

impl BackOff {
    pub(in crate::engine) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, attempts: 0 }
    }

    /// Returns the time before the next attempt. `random` is any number.
    pub(in crate::engine) fn next_delay(&mut self, random: u32) -> Duration {
        let doubled =
            self.first.saturating_mul(1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX));
        self.attempts = self.attempts.saturating_add(1);
        let whole = doubled.min(self.longest);
        whole.mul_f64(1.0 - 0.5 * f64::from(random) / f64::from(u32::MAX))
    }

    /// True before the first attempt, and after one that succeeded.
    pub(in crate::engine) fn is_first(&self) -> bool {
        self.attempts == 0
    }

    /// Begins again with the first time, after an attempt that succeeded.
    pub(in crate::engine) fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// Returns a random number.
pub(in crate::engine) fn random() -> u32 {
    let mut bytes = [0; 4];
    // Only a system without random numbers fails here, and then nothing that is encrypted works either.
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_times_between_attempts_double_up_to_the_longest_and_begin_again() {
        let ms = Duration::from_millis;
        let mut back_off = BackOff::new(ms(100), ms(1000));
        let whole: Vec<_> = (0..6).map(|_| back_off.next_delay(0).as_millis()).collect();
        assert_eq!(whole, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(back_off.next_delay(u32::MAX), ms(500), "a half at least");
        for _ in 0..100 {
            assert_eq!(back_off.next_delay(0), ms(1000));
        }
        assert!(!back_off.is_first());
        back_off.reset();
        assert!(back_off.is_first());
        assert_eq!(back_off.next_delay(0), ms(100));
    }
}
