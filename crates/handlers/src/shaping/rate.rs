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

/// The quantum of a rate is 10 ms of it: the bytes that a waiting channel passes before the next one. So a channel that
/// waits is woken at most 100 times a second.
const QUANTA_PER_SECOND: u64 = 100;

/// The smallest quantum in bytes, about one Ethernet frame, so that a slow channel does not send tiny segments. Below that
/// many bytes per second a quantum is one second's worth.
const SMALLEST_QUANTUM: u64 = 1500;

impl TrafficRate {
    /// Creates a rate in bytes per second with the smallest burst: two quanta, which is 20 ms of the rate but at least
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
        let smallest = self.quantum().saturating_mul(2);
        if self.burst > smallest { self.burst } else { smallest }
    }

    /// Returns how many bytes a waiting channel passes before the next one.
    pub(super) const fn quantum(self) -> u64 {
        let rate = self.bytes_per_second;
        let smallest = if rate < SMALLEST_QUANTUM { rate } else { SMALLEST_QUANTUM };
        let quantum = rate / QUANTA_PER_SECOND;
        let quantum = if quantum > smallest { quantum } else { smallest };
        if quantum > 1 { quantum } else { 1 }
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
    fn k08_a_quantum_is_ten_milliseconds_but_at_least_a_frame() {
        let quantum = |rate| TrafficRate::per_second(rate).quantum();
        assert_eq!([quantum(0), quantum(1), quantum(900), quantum(10_000)], [1, 1, 900, 1500]);
        assert_eq!([quantum(10_000_000), quantum(u64::MAX)], [100_000, u64::MAX / 100]);
    }

    #[test]
    fn k08_a_burst_is_at_least_two_quanta() {
        let burst = |rate, burst| TrafficRate::per_second(rate).with_burst(burst).burst();
        assert_eq!([burst(0, 0), burst(10, 0), burst(10_000, 100)], [2, 20, 3000]);
        assert_eq!([burst(u64::MAX, 0), burst(1, u64::MAX)], [u64::MAX / 100 * 2, u64::MAX]);
    }
}
