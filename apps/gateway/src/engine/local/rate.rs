//! The rate of a topic.

use std::time::Duration;

use waterwheel::executor::Nanos;

/// The time over which a rate is taken.
const WINDOW: Duration = Duration::from_secs(10);

/// Counts events in the present window of time and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateWindow {
    /// The number of the present window since the origin of the clock.
    window: u64,
    current: u32,
    previous: u32,
}

impl RateWindow {
    /// Counts an event.
    pub(super) fn count(&mut self, now: Nanos) {
        self.turn(now);
        self.current = self.current.saturating_add(1);
    }

    /// Returns the events per second over the last ten seconds, as if those of the window before had come evenly.
    pub(super) fn per_second(mut self, now: Nanos) -> f64 {
        self.turn(now);
        let window = WINDOW.as_secs_f64();
        let into = now.since(Nanos(self.window * window_nanos())).as_secs_f64();
        let still_counted = f64::from(self.previous) * (1.0 - into / window);
        (f64::from(self.current) + still_counted) / window
    }

    fn turn(&mut self, now: Nanos) {
        let window = now.0 / window_nanos();
        if window != self.window {
            let is_next = window == self.window + 1;
            self.previous = if is_next { self.current } else { 0 };
            self.current = 0;
            self.window = window;
        }
    }
}

fn window_nanos() -> u64 {
    WINDOW.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_the_rate_of_a_topic_follows_its_publications() {
        let at = |tenths: u64| Nanos(tenths * 100_000_000);
        let mut rate = RateWindow::default();
        for tenth in 0..300 {
            rate.count(at(tenth));
        }
        assert!((rate.per_second(at(300)) - 10.0).abs() < 0.2, "{}", rate.per_second(at(300)));
        assert!((rate.per_second(at(350)) - 5.0).abs() < 0.2, "{}", rate.per_second(at(350)));
        assert_eq!(rate.per_second(at(401)), 0.0);
    }
}
