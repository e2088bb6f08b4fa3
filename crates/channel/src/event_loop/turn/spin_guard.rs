//! Spinning selectors and failing waits: when to rebuild, and how long to leave the driver alone
//! (L03, L06). The arithmetic, without a loop.

use std::time::Duration;

/// So many turns in a row may return early with nothing to do before the selector is rebuilt.
pub const DEFAULT_REBUILD_THRESHOLD: u32 = 512;

/// Below this a threshold means "never".
const MIN_THRESHOLD: u32 = 3;

/// So many early returns in a row are odd enough to be counted as a series of their own.
const SERIES_THRESHOLD: u32 = 3;

/// So many early returns are forgiven for one wait that was of use. Were it all of them, a loop with
/// a little traffic would spin for ever: something useful always comes before the threshold.
const FORGIVEN_PER_USEFUL_WAIT: u32 = 16;

/// What a turn's wait came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// There was something to do, or the time had come, or the wait was not meant to block.
    Useful,
    /// It returned early, with nothing.
    Premature,
}

/// What to do about it.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpinAction {
    None,
    /// The series has just become long enough to be counted.
    CountSeries,
    /// The selector spins: rebuild it.
    Rebuild,
}

/// Counts waits that returned early with nothing to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinGuard {
    threshold: Option<u32>,
    series: u32,
}

impl SpinGuard {
    pub(crate) fn new(threshold: u32) -> Self {
        Self { threshold: (threshold >= MIN_THRESHOLD).then_some(threshold), series: 0 }
    }

    /// True while no series goes on: a useful wait changes nothing then.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.series == 0
    }

    pub(crate) fn after(&mut self, outcome: WaitOutcome) -> SpinAction {
        if outcome == WaitOutcome::Useful {
            self.series = self.series.saturating_sub(FORGIVEN_PER_USEFUL_WAIT);
            return SpinAction::None;
        }
        self.series = self.series.saturating_add(1);
        if self.threshold.is_some_and(|threshold| self.series >= threshold) {
            self.series = 0;
            SpinAction::Rebuild
        } else if self.series == SERIES_THRESHOLD + 1 {
            SpinAction::CountSeries
        } else {
            SpinAction::None
        }
    }
}

/// How long the driver is left alone after trouble: longer each time, until something goes well.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_secs(1);

    /// True if nothing has failed since something went well.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.failures == 0
    }

    /// The pause after one more failure.
    pub(crate) fn fail(&mut self) -> Duration {
        let pause = Self::FIRST.saturating_mul(1 << self.failures.min(16)).min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    pub(crate) fn succeed(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn premature(guard: &mut SpinGuard, times: u32) -> Vec<SpinAction> {
        (0..times).map(|_| guard.after(WaitOutcome::Premature)).collect()
    }

    #[test]
    fn l06_a_series_of_early_returns_rebuilds_once() {
        let mut guard = SpinGuard::new(5);
        let verdicts = premature(&mut guard, 6);
        let (fine, odd, rebuild) = (SpinAction::None, SpinAction::CountSeries, SpinAction::Rebuild);
        assert_eq!(verdicts, [fine, fine, fine, odd, rebuild, fine]);
    }

    #[test]
    fn l06_a_useful_wait_ends_the_series() {
        let mut guard = SpinGuard::new(3);
        for _ in 0..10 {
            assert!(!premature(&mut guard, 2).contains(&SpinAction::Rebuild));
            assert_eq!(guard.after(WaitOutcome::Useful), SpinAction::None);
        }
    }

    #[test]
    fn l06_a_little_traffic_does_not_hide_a_spinning_selector() {
        let mut guard = SpinGuard::new(512);
        let rebuilt = (0..100).any(|_| {
            assert_eq!(guard.after(WaitOutcome::Useful), SpinAction::None);
            premature(&mut guard, 40).contains(&SpinAction::Rebuild)
        });
        assert!(rebuilt, "forty early returns for each useful one");
    }

    #[test]
    fn l06_a_threshold_below_three_turns_the_guard_off() {
        for threshold in 0..3 {
            let verdicts = premature(&mut SpinGuard::new(threshold), 2_000);
            assert!(!verdicts.contains(&SpinAction::Rebuild), "{threshold}");
        }
        assert_eq!(premature(&mut SpinGuard::new(3), 3)[2], SpinAction::Rebuild);
    }

    #[test]
    fn l03_pauses_double_up_to_a_second_and_begin_anew_after_success() {
        let mut back_off = BackOff::default();
        let pauses: Vec<_> = (0..12).map(|_| back_off.fail().as_millis()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
        back_off.succeed();
        assert_eq!(back_off.fail(), BackOff::FIRST);
    }
}
