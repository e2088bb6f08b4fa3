//! The counters of a server (H13).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;

/// The number of [`HttpMetrics::latency`] buckets.
pub const LATENCY_BUCKETS: usize = 12;

/// The upper bound of the first latency bucket, 2¹⁶ ns: about 65 µs. Each next one is four times as long.
const FIRST_BOUND: Duration = Duration::from_nanos(1 << FIRST_BOUND_BITS);

const FIRST_BOUND_BITS: u32 = 16;

/// The counters of a server on one loop. The loop's thread writes, by a load and a store; any thread reads, with Relaxed
/// ordering: a count orders nothing.
#[derive(Debug, Default)]
pub(super) struct HttpLoopCounters {
    connections: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    answered: AtomicU64,
    by_class: [AtomicU64; 5],
    refused: AtomicU64,
    panics: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    latency: [AtomicU64; LATENCY_BUCKETS],
    latency_nanos: AtomicU64,
}

/// Adds to a counter that only this thread writes.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl HttpLoopCounters {
    pub(super) fn count_connection(&self) {
        add(&self.connections, 1);
        add(&self.open, 1);
    }

    pub(super) fn count_end(&self) {
        add(&self.open, u64::MAX); // Minus one.
    }

    #[inline]
    pub(super) fn count_request(&self) {
        add(&self.requests, 1);
    }

    /// Counts a request that was begun and will not be answered.
    pub(super) fn count_abandoned(&self, requests: u64) {
        add(&self.answered, requests);
    }

    #[inline]
    pub(super) fn count_answer(&self, status: StatusCode, nanos: u64) {
        add(&self.answered, 1);
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        add(&self.by_class[class.min(4)], 1);
        add(&self.latency[latency_bucket(nanos)], 1);
        add(&self.latency_nanos, nanos);
    }

    pub(super) fn count_refusal(&self) {
        add(&self.refused, 1);
    }

    pub(super) fn count_panic(&self) {
        add(&self.panics, 1);
    }

    #[inline]
    pub(super) fn count_bytes(&self, bytes_in: u64, bytes_out: u64) {
        add(&self.bytes_in, bytes_in);
        add(&self.bytes_out, bytes_out);
    }
}

/// Returns the bucket of a duration in nanoseconds: of the first bound that is not exceeded.
#[inline]
fn latency_bucket(nanos: u64) -> usize {
    // The logarithm to the base of four of the multiple of the first bound, both rounded up.
    let bits = u64::BITS - (nanos.saturating_sub(1) >> FIRST_BOUND_BITS).leading_zeros();
    (bits.div_ceil(2) as usize).min(LATENCY_BUCKETS - 1)
}

/// A snapshot of what a server has counted on all of its loops: see
/// [`HttpServer::metrics`](crate::HttpServer::metrics).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpMetrics {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that are open.
    pub open_connections: u64,
    /// Requests that were begun, refused ones among them.
    pub requests: u64,
    /// Requests that are not answered yet.
    pub in_flight: u64,
    /// Responses by class: 1xx, 2xx, 3xx, 4xx, 5xx. Refused requests are among them.
    pub responses: [u64; 5],
    /// Requests that were refused as malformed or beyond a limit.
    pub refused: u64,
    /// Calls of the service that panicked.
    pub panics: u64,
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Bytes that were written.
    pub bytes_out: u64,
    /// Requests by the time from their head to the end of their response; see [`latency_bound`](Self::latency_bound).
    pub latency: [u64; LATENCY_BUCKETS],
    /// The sum of those times.
    pub latency_sum: Duration,
}

impl HttpMetrics {
    /// Returns the longest time of a latency bucket; `None` for the last one, which has no bound.
    #[must_use]
    pub fn latency_bound(bucket: usize) -> Option<Duration> {
        (bucket + 1 < LATENCY_BUCKETS).then(|| FIRST_BOUND * 4u32.pow(bucket as u32))
    }

    pub(super) fn of(loops: &[Arc<HttpLoopCounters>]) -> Self {
        let mut sum = Self::default();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (mut answered, mut open) = (0u64, 0u64);
        for counters in loops {
            // Before the requests, so that a request that is answered meanwhile is not counted as answered only.
            answered += read(&counters.answered);
            sum.connections += read(&counters.connections);
            open = open.wrapping_add(read(&counters.open));
            sum.requests += read(&counters.requests);
            sum.refused += read(&counters.refused);
            sum.panics += read(&counters.panics);
            sum.bytes_in += read(&counters.bytes_in);
            sum.bytes_out += read(&counters.bytes_out);
            sum.latency_sum += Duration::from_nanos(read(&counters.latency_nanos));
            for (sum, counter) in sum.responses.iter_mut().zip(&counters.by_class) {
                *sum += read(counter);
            }
            for (sum, counter) in sum.latency.iter_mut().zip(&counters.latency) {
                *sum += read(counter);
            }
        }
        sum.open_connections = open;
        sum.in_flight = sum.requests.saturating_sub(answered);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h13_latency_buckets_have_their_bounds() {
        for bucket in 0..LATENCY_BUCKETS {
            match HttpMetrics::latency_bound(bucket) {
                Some(bound) => {
                    let nanos = u64::try_from(bound.as_nanos()).unwrap();
                    assert_eq!(latency_bucket(nanos), bucket);
                    assert_eq!(latency_bucket(nanos + 1), bucket + 1);
                }
                None => assert_eq!(latency_bucket(u64::MAX), bucket),
            }
        }
        assert_eq!(latency_bucket(0), 0);
    }

    #[test]
    fn h13_a_snapshot_adds_up_the_loops() {
        let loops = [Arc::new(HttpLoopCounters::default()), Arc::new(HttpLoopCounters::default())];
        loops[0].count_connection();
        loops[1].count_connection();
        loops[1].count_end();
        for counters in &loops {
            counters.count_request();
            counters.count_bytes(10, 20);
        }
        loops[0].count_answer(StatusCode::NOT_FOUND, 100_000);
        let metrics = HttpMetrics::of(&loops);
        assert_eq!((metrics.connections, metrics.open_connections), (2, 1));
        assert_eq!((metrics.requests, metrics.in_flight), (2, 1));
        assert_eq!((metrics.responses, metrics.latency[1]), ([0, 0, 0, 1, 0], 1));
        assert_eq!(metrics.latency_sum, Duration::from_micros(100));
        assert_eq!((metrics.bytes_in, metrics.bytes_out), (20, 40));
    }
}
