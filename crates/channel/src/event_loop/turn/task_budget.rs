//! The time that tasks may run before the next I/O (L04). Pure arithmetic, without a loop.

use std::time::Duration;

use waterwheel_executor::engine::PassLimit;

/// The default share of I/O, in percent.
pub const DEFAULT_IO_RATIO: u8 = 50;

/// Divides a loop's time between I/O and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskBudget {
    /// The share of I/O in percent, 1 to 100.
    pub(crate) io_ratio: u8,
    pub(crate) quantum: Option<Duration>,
}

impl TaskBudget {
    /// Returns the limit of the task phase after events that took `io`; `None` means that there were no events.
    pub(crate) fn pass_limit(self, io: Option<Duration>) -> PassLimit {
        let share = match (self.io_ratio, io) {
            (100, _) => return self.quantum.map_or(PassLimit::Queued, PassLimit::Within),
            // No time to measure by: run one batch, then poll for events again.
            (_, None) => Duration::ZERO,
            (ratio, Some(io)) => {
                let ratio = u128::from(ratio);
                let nanos = io.as_nanos() * (100 - ratio) / ratio;
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        PassLimit::Within(self.quantum.map_or(share, |quantum| share.min(quantum)))
    }
}

impl Default for TaskBudget {
    fn default() -> Self {
        Self { io_ratio: DEFAULT_IO_RATIO, quantum: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    fn budget(io_ratio: u8) -> TaskBudget {
        TaskBudget { io_ratio, quantum: None }
    }

    #[test]
    fn l04_tasks_get_the_share_that_the_ratio_leaves_them() {
        let after = |ratio, io| budget(ratio).pass_limit(Some(io));
        assert_eq!(after(50, 7 * MICRO), PassLimit::Within(7 * MICRO));
        assert_eq!(after(80, 8 * MICRO), PassLimit::Within(2 * MICRO));
        assert_eq!(after(1, MICRO), PassLimit::Within(99 * MICRO));
        assert_eq!(after(99, 99 * MICRO), PassLimit::Within(MICRO));
    }

    #[test]
    fn l04_a_ratio_of_100_does_not_limit_the_tasks() {
        assert_eq!(budget(100).pass_limit(Some(MICRO)), PassLimit::Queued);
        assert_eq!(budget(100).pass_limit(None), PassLimit::Queued);
    }

    #[test]
    fn l04_without_events_there_is_one_batch() {
        assert_eq!(budget(50).pass_limit(None), PassLimit::Within(Duration::ZERO));
    }

    #[test]
    fn l04_a_quantum_caps_them_all() {
        let capped = |io_ratio| TaskBudget { io_ratio, quantum: Some(5 * MICRO) };
        assert_eq!(capped(50).pass_limit(Some(9 * MICRO)), PassLimit::Within(5 * MICRO));
        assert_eq!(capped(50).pass_limit(Some(3 * MICRO)), PassLimit::Within(3 * MICRO));
        assert_eq!(capped(100).pass_limit(Some(MICRO)), PassLimit::Within(5 * MICRO));
    }

    #[test]
    fn l04_an_endless_round_of_events_saturates() {
        let endless = budget(1).pass_limit(Some(Duration::MAX));
        assert_eq!(endless, PassLimit::Within(Duration::from_nanos(u64::MAX)));
    }
}
