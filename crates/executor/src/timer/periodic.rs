//! When a repeating timer is due again, as arithmetic without a loop.

use std::time::Duration;

use crate::clock::Nanos;

/// The policy of a fixed-rate timer that is late by a whole period or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// Every tick happens: late ones follow each other at once, until the schedule has caught up.
    #[default]
    CatchUp,
    /// Missed ticks are left out; the schedule stays on its grid.
    Skip,
    /// The next tick is due a period after the late tick was served; the grid moves.
    Delay,
}

impl MissedTicks {
    /// Returns the next tick of a schedule whose tick at `due` was served at `now`. Returns `None`
    /// for a period of zero, whose ticks would never end.
    #[must_use]
    pub fn next_tick(self, due: Nanos, now: Nanos, period: Duration) -> Option<Nanos> {
        let repeat = Repeat::Rate { period, missed: self };
        (!period.is_zero()).then(|| repeat.next(due, now))
    }
}

/// How a timer repeats. The period is above zero: scheduling checks that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Ticks are a period apart.
    Rate { period: Duration, missed: MissedTicks },
    /// A pause separates the end of one run from the start of the next.
    Delay { pause: Duration },
}

impl Repeat {
    pub(crate) fn period(self) -> Duration {
        match self {
            Repeat::Rate { period, .. } => period,
            Repeat::Delay { pause } => pause,
        }
    }

    /// Returns the next deadline, for a run that was due at `due` and ended at `now`.
    pub(crate) fn next(self, due: Nanos, now: Nanos) -> Nanos {
        match self {
            Repeat::Delay { pause } => now.plus(pause),
            Repeat::Rate { period, missed } => {
                let next = due.plus(period);
                match missed {
                    MissedTicks::CatchUp => next,
                    _ if next > now => next,
                    MissedTicks::Delay => now.plus(period),
                    MissedTicks::Skip => {
                        let period = period.as_nanos();
                        let missed = u128::from(now.0 - due.0) / period;
                        let next = u128::from(due.0) + (missed + 1) * period;
                        Nanos(u64::try_from(next).unwrap_or(u64::MAX))
                    }
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn rate(missed: MissedTicks) -> Repeat {
        Repeat::Rate { period: Duration::from_nanos(10), missed }
    }

    #[test]
    fn e13_a_fixed_rate_does_not_drift() {
        for missed in [MissedTicks::CatchUp, MissedTicks::Skip, MissedTicks::Delay] {
            assert_eq!(rate(missed).next(Nanos(100), Nanos(103)), Nanos(110), "{missed:?}");
        }
    }

    #[test]
    fn e13_missed_ticks_catch_up_are_skipped_or_delay_the_rest() {
        let late = |missed| rate(missed).next(Nanos(100), Nanos(134));
        assert_eq!(late(MissedTicks::CatchUp), Nanos(110));
        assert_eq!(late(MissedTicks::Skip), Nanos(140));
        assert_eq!(late(MissedTicks::Delay), Nanos(144));
    }

    #[test]
    fn e13_ticks_without_a_period_have_no_next_one() {
        for missed in [MissedTicks::CatchUp, MissedTicks::Skip, MissedTicks::Delay] {
            assert_eq!(missed.next_tick(Nanos(100), Nanos(134), Duration::ZERO), None);
            let shortest = missed.next_tick(Nanos(100), Nanos(100), Duration::from_nanos(1));
            assert_eq!(shortest, Some(Nanos(101)), "{missed:?}");
        }
    }

    #[test]
    fn e13_a_run_that_ends_on_the_grid_skips_to_the_next_point() {
        assert_eq!(rate(MissedTicks::Skip).next(Nanos(100), Nanos(130)), Nanos(140));
    }

    #[test]
    fn e13_a_fixed_delay_counts_from_completion() {
        let pause = Repeat::Delay { pause: Duration::from_nanos(10) };
        assert_eq!(pause.next(Nanos(100), Nanos(134)), Nanos(144));
    }

    #[test]
    fn e13_huge_periods_saturate() {
        for missed in [MissedTicks::CatchUp, MissedTicks::Skip, MissedTicks::Delay] {
            let repeat = Repeat::Rate { period: Duration::MAX, missed };
            assert_eq!(repeat.next(Nanos(100), Nanos(134)), Nanos::MAX, "{missed:?}");
        }
    }
}
