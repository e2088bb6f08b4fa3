//! A rate of bytes with its burst.

use std::fmt;

/// A limit in bytes per second, with the burst that may pass at once after a time without traffic.
///
/// A rate of zero lets nothing pass until it is changed, apart from messages that have waited for the
/// [longest delay](super::TrafficShapingBuilder::longest_delay).
///
/// ```
/// use waterwheel_handlers::TrafficRate;
///
/// let rate = TrafficRate::per_second(1_000_000);
/// assert_eq!(rate.burst(), 20_000, "20 ms of the rate");
/// assert_eq!(rate.with_burst(100_000).burst(), 100_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrafficRate {
    bytes_per_second: u64,
    burst: u64,
}

/// The part of a second that one turn of a waiting channel is worth: 10 ms. A channel that waits is woken at most 100
/// times a second, and among many channels of a group each gets that much of the group's rate before the next one.
const TURNS_PER_SECOND: u64 = 100;

/// The smallest turn in bytes, about one Ethernet frame, so that a slow channel does not send tiny segments. Below that
/// many bytes per second a turn is one second's worth.
const SMALLEST_TURN: u64 = 1500;

impl TrafficRate {
    /// Creates a rate in bytes per second with the smallest burst: two turns, which is 20 ms of the rate but at least
    /// 3,000 bytes, or two seconds of a rate below 1,500 bytes per second.
    #[must_use]
    pub const fn per_second(bytes: u64) -> Self {
        Self { bytes_per_second: bytes, burst: 0 }
    }

    /// Sets the burst in bytes: how much may pass at once after a time without traffic. A smaller burst than the one of
    /// [`per_second`](Self::per_second) has no effect, because timers are not precise enough for it.
    #[must_use]
    pub const fn with_burst(self, bytes: u64) -> Self {
        Self { burst: bytes, ..self }
    }

    /// Returns the rate in bytes per second.
    #[must_use]
    pub const fn bytes_per_second(self) -> u64 {
        self.bytes_per_second
    }

    /// Returns the burst in bytes.
    #[must_use]
    pub const fn burst(self) -> u64 {
        let smallest = self.turn().saturating_mul(2);
        if self.burst > smallest { self.burst } else { smallest }
    }

    /// Returns how many bytes a waiting channel passes in one turn.
    pub(super) const fn turn(self) -> u64 {
        let rate = self.bytes_per_second;
        let smallest = if rate < SMALLEST_TURN { rate } else { SMALLEST_TURN };
        let turn = rate / TURNS_PER_SECOND;
        let turn = if turn > smallest { turn } else { smallest };
        if turn > 1 { turn } else { 1 }
    }
}

impl fmt::Debug for TrafficRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes/s (burst {})", self.bytes_per_second, self.burst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k08_a_turn_is_ten_milliseconds_but_at_least_a_frame() {
        let turn = |rate| TrafficRate::per_second(rate).turn();
        assert_eq!([turn(0), turn(1), turn(900), turn(10_000)], [1, 1, 900, 1500]);
        assert_eq!([turn(10_000_000), turn(u64::MAX)], [100_000, u64::MAX / 100]);
    }

    #[test]
    fn k08_a_burst_is_at_least_two_turns() {
        let burst = |rate, burst| TrafficRate::per_second(rate).with_burst(burst).burst();
        assert_eq!([burst(0, 0), burst(10, 0), burst(10_000, 100)], [2, 20, 3000]);
        assert_eq!([burst(u64::MAX, 0), burst(1, u64::MAX)], [u64::MAX / 100 * 2, u64::MAX]);
    }
}
