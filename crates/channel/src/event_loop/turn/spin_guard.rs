//! Detects spinning selectors and paces retries of failing waits: when to rebuild the selector, and how long to pause
//! the driver (L03, L06). Pure arithmetic, without a loop.

use std::time::Duration;

/// The default number of waits in a row that may return early with nothing to do before the selector is rebuilt.
pub const DEFAULT_REBUILD_THRESHOLD: u32 = 512;

/// A threshold below this disables the rebuild.
const MIN_THRESHOLD: u32 = 3;

/// A series of more early returns than this is counted in the metrics.
const SERIES_THRESHOLD: u32 = 3;

/// The number of early returns forgiven for each useful wait. If a useful wait forgave all of them, a loop with a
/// little traffic would spin forever: a useful wait always occurs before the threshold is reached.
const FORGIVEN_PER_USEFUL_WAIT: u32 = 16;

/// The result of a turn's wait, as the spin guard sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// There was something to do, or the deadline had passed, or the wait was not meant to block.
    Useful,
    /// The wait returned early, with nothing to do.
    Premature,
}

/// The action to take after a wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpinAction {
    None,
    /// The series has just become long enough to be counted in the metrics.
    CountSeries,
    /// The selector spins: rebuild it.
    Rebuild,
}

/// Counts waits that returned early with nothing to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinGuard {
    threshold: Option<u32>,
    early_returns: u32,
}

impl SpinGuard {
    pub(crate) fn new(threshold: u32) -> Self {
        Self { threshold: (threshold >= MIN_THRESHOLD).then_some(threshold), early_returns: 0 }
    }

    /// True if there were early returns lately, which a useful wait would forgive.
    #[inline]
    pub(crate) fn has_early_returns(&self) -> bool {
        self.early_returns != 0
    }

    pub(crate) fn record(&mut self, outcome: WaitOutcome) -> SpinAction {
        if outcome == WaitOutcome::Useful {
            self.early_returns = self.early_returns.saturating_sub(FORGIVEN_PER_USEFUL_WAIT);
            return SpinAction::None;
        }
        self.early_returns = self.early_returns.saturating_add(1);
        if self.threshold.is_some_and(|threshold| self.early_returns >= threshold) {
            self.early_returns = 0;
            SpinAction::Rebuild
        } else if self.early_returns == SERIES_THRESHOLD + 1 {
            SpinAction::CountSeries
        } else {
            SpinAction::None
        }
    }
}

/// The back-off of a failing driver: each pause is longer than the last, until a wait succeeds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DriverBackOff {
    failures: u32,
}

impl DriverBackOff {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_secs(1);

    /// True if a failure was recorded since the last success.
    #[inline]
    pub(crate) fn has_failures(&self) -> bool {
        self.failures != 0
    }

    /// Records a failure; returns the pause that follows it.
    pub(crate) fn record_failure(&mut self) -> Duration {
        let pause = Self::FIRST.saturating_mul(1 << self.failures.min(16)).min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    pub(crate) fn record_success(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn premature(guard: &mut SpinGuard, times: u32) -> Vec<SpinAction> {
        (0..times).map(|_| guard.record(WaitOutcome::Premature)).collect()
    }

    #[test]
    fn l06_a_series_of_early_returns_rebuilds_once() {
        let mut guard = SpinGuard::new(5);
        let actions = premature(&mut guard, 6);
        let (none, count, rebuild) =
            (SpinAction::None, SpinAction::CountSeries, SpinAction::Rebuild);
        assert_eq!(actions, [none, none, none, count, rebuild, none]);
    }

    #[test]
    fn l06_a_useful_wait_ends_the_series() {
        let mut guard = SpinGuard::new(3);
        for _ in 0..10 {
            assert!(!premature(&mut guard, 2).contains(&SpinAction::Rebuild));
            assert_eq!(guard.record(WaitOutcome::Useful), SpinAction::None);
        }
    }

    #[test]
    fn l06_a_little_traffic_does_not_hide_a_spinning_selector() {
        let mut guard = SpinGuard::new(512);
        let rebuilt = (0..100).any(|_| {
            assert_eq!(guard.record(WaitOutcome::Useful), SpinAction::None);
            premature(&mut guard, 40).contains(&SpinAction::Rebuild)
        });
        assert!(rebuilt, "forty early returns for each useful wait");
    }

    #[test]
    fn l06_a_threshold_below_three_turns_the_guard_off() {
        for threshold in 0..3 {
            let actions = premature(&mut SpinGuard::new(threshold), 2_000);
            assert!(!actions.contains(&SpinAction::Rebuild), "{threshold}");
        }
        assert_eq!(premature(&mut SpinGuard::new(3), 3)[2], SpinAction::Rebuild);
    }

    #[test]
    fn l03_pauses_double_up_to_a_second_and_restart_after_success() {
        let mut back_off = DriverBackOff::default();
        let pauses: Vec<_> = (0..12).map(|_| back_off.record_failure().as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
        back_off.record_success();
        assert_eq!(back_off.record_failure(), DriverBackOff::FIRST);
    }
}
