//! The timing of a graceful shutdown: quiet period and timeout, as arithmetic without a loop (E15).

use std::time::Duration;

use crate::clock::Nanos;

/// The default quiet period: long enough for work in flight to submit its follow-ups.
pub const DEFAULT_QUIET_PERIOD: Duration = Duration::from_secs(2);

/// The default limit on a whole graceful shutdown.
pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);

/// Shutdown parameters that contradict each other.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the shutdown timeout of {timeout:?} is shorter than the quiet period of {quiet:?}")]
pub struct InvalidShutdown {
    /// The requested quiet period.
    pub quiet: Duration,
    /// The requested timeout.
    pub timeout: Duration,
}

/// The parameters of a shutdown. The first call sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShutdownPlan {
    pub(crate) quiet: Duration,
    pub(crate) timeout: Duration,
    pub(crate) begun: Nanos,
}

/// The next step of a loop that is shutting down.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownStep {
    End,
    /// Run the queued work.
    Work,
    /// Sleep until a task arrives or this time is reached, then ask again.
    QuietUntil(Nanos),
}

impl ShutdownPlan {
    pub(crate) fn new(
        quiet: Duration,
        timeout: Duration,
        begun: Nanos,
    ) -> Result<Self, InvalidShutdown> {
        if timeout < quiet {
            return Err(InvalidShutdown { quiet, timeout });
        }
        Ok(Self { quiet, timeout, begun })
    }

    /// Returns the time by which the shutdown ends.
    pub(crate) fn end(&self) -> Nanos {
        self.begun.plus(self.timeout)
    }

    pub(crate) fn is_overdue(&self, now: Nanos) -> bool {
        now >= self.end()
    }

    /// Decides the next step. `last_activity` is the time at which the last user task or hook ended, if one ran
    /// since the shutdown began.
    pub(crate) fn next_step(
        &self,
        now: Nanos,
        last_activity: Option<Nanos>,
        has_work: bool,
    ) -> ShutdownStep {
        let quiet_end = last_activity.unwrap_or(self.begun).plus(self.quiet);
        if self.is_overdue(now) {
            ShutdownStep::End
        } else if has_work {
            ShutdownStep::Work
        } else if now >= quiet_end {
            ShutdownStep::End
        } else {
            ShutdownStep::QuietUntil(quiet_end.min(self.end()))
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn plan(quiet: u64, timeout: u64) -> ShutdownPlan {
        let nanos = Duration::from_nanos;
        ShutdownPlan::new(nanos(quiet), nanos(timeout), Nanos(1000)).unwrap()
    }

    #[test]
    fn e15_a_timeout_below_the_quiet_period_is_an_error() {
        let (quiet, timeout) = (Duration::from_secs(2), Duration::from_secs(1));
        let error = ShutdownPlan::new(quiet, timeout, Nanos(0)).unwrap_err();
        assert_eq!(error, InvalidShutdown { quiet, timeout });
        assert!(error.to_string().contains("1s") && error.to_string().contains("2s"));
    }

    #[test]
    fn e15_without_activity_the_quiet_period_counts_from_the_start() {
        let plan = plan(100, 500);
        assert_eq!(plan.next_step(Nanos(1050), None, false), ShutdownStep::QuietUntil(Nanos(1100)));
        assert_eq!(plan.next_step(Nanos(1100), None, false), ShutdownStep::End);
    }

    #[test]
    fn e15_activity_restarts_the_quiet_period() {
        let plan = plan(100, 500);
        let last = Some(Nanos(1080));
        assert_eq!(plan.next_step(Nanos(1150), last, false), ShutdownStep::QuietUntil(Nanos(1180)));
        assert_eq!(plan.next_step(Nanos(1180), last, false), ShutdownStep::End);
    }

    #[test]
    fn e15_quiet_zero_ends_when_the_queue_is_empty() {
        let plan = plan(0, 500);
        assert_eq!(plan.next_step(Nanos(1000), None, true), ShutdownStep::Work);
        assert_eq!(plan.next_step(Nanos(1001), Some(Nanos(1001)), false), ShutdownStep::End);
    }

    #[test]
    fn e15_the_timeout_bounds_the_whole_shutdown() {
        let plan = plan(100, 150);
        let last = Some(Nanos(1140));
        assert_eq!(plan.next_step(Nanos(1141), last, false), ShutdownStep::QuietUntil(Nanos(1150)));
        assert_eq!(plan.next_step(Nanos(1150), last, true), ShutdownStep::End);
    }
}
