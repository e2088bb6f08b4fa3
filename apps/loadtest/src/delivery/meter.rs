//! `DeliveryMeter`: the times and counts of what all subscribers of a run receive.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

use hdrhistogram::Histogram;
use waterwheel::executor::{Clock, Nanos};

use super::tracker::Arrival;

/// The longest time that is told apart from longer ones.
const LONGEST: Duration = Duration::from_secs(3600);

/// Significant decimal digits of times.
const DIGITS: u8 = 3;

/// Maximum number of buckets of the throughput over time: an hour of seconds.
const MAX_BUCKETS: usize = 3600;

/// The deliveries of a run. Belongs to the loop of the generator.
pub(crate) struct DeliveryMeter {
    times: RefCell<Histogram<u64>>,
    /// The instant of the first bucket.
    began: Cell<Nanos>,
    /// The instant of the last delivery.
    last: Cell<Nanos>,
    bucket: Cell<Duration>,
    buckets: RefCell<Vec<u64>>,
    received: Cell<u64>,
    duplicates: Cell<u64>,
    out_of_order: Cell<u64>,
    unreadable: Cell<u64>,
    /// The publisher that waits until so many were received.
    waiting: RefCell<Option<(u64, Waker)>>,
}

impl DeliveryMeter {
    /// Returns a meter that begins now.
    ///
    /// # Panics
    /// Never: the bounds of the histogram are constants.
    pub(crate) fn new() -> Self {
        let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        let times = Histogram::new_with_bounds(1, longest, DIGITS)
            .unwrap_or_else(|_| unreachable!("the bounds are valid"));
        Self {
            times: RefCell::new(times),
            began: Cell::new(Clock::Monotonic.now()),
            last: Cell::default(),
            bucket: Cell::new(Duration::from_secs(1)),
            buckets: RefCell::default(),
            received: Cell::new(0),
            duplicates: Cell::new(0),
            out_of_order: Cell::new(0),
            unreadable: Cell::new(0),
            waiting: RefCell::default(),
        }
    }

    /// Begins the throughput over time, with about sixty buckets of at least 100 ms.
    pub(crate) fn begin(&self, duration: Duration) {
        self.began.set(Clock::Monotonic.now());
        self.bucket.set((duration / 60).max(Duration::from_millis(100)));
        self.buckets.borrow_mut().clear();
    }

    /// Notes a publication that a subscriber received now, and that was to be published at `intended`.
    pub(crate) fn note(&self, intended: Nanos, arrival: Arrival) {
        match arrival {
            Arrival::InOrder => {}
            Arrival::OutOfOrder => self.out_of_order.set(self.out_of_order.get() + 1),
            Arrival::Duplicate => return self.duplicates.set(self.duplicates.get() + 1),
        }
        let now = Clock::Monotonic.now();
        self.last.set(now);
        let nanos = u64::try_from(now.since(intended).as_nanos()).unwrap_or(u64::MAX);
        self.times.borrow_mut().saturating_record(nanos);
        let at = now.since(self.began.get()).as_nanos() / self.bucket.get().as_nanos();
        if let Some(at) = usize::try_from(at).ok().filter(|at| *at < MAX_BUCKETS) {
            let mut buckets = self.buckets.borrow_mut();
            if buckets.len() <= at {
                buckets.resize(at + 1, 0);
            }
            buckets[at] += 1;
        }
        let received = self.received.get() + 1;
        self.received.set(received);
        let is_awaited =
            self.waiting.borrow().as_ref().is_some_and(|(least, _)| received >= *least);
        if is_awaited && let Some((_, waker)) = self.waiting.take() {
            waker.wake();
        }
    }

    /// Notes a message that is none of this run.
    pub(crate) fn note_unreadable(&self) {
        self.unreadable.set(self.unreadable.get() + 1);
    }

    /// Waits until at least so many deliveries were received. One future at a time waits.
    pub(crate) async fn received_at_least(&self, least: u64) {
        poll_fn(|context| {
            if self.received.get() >= least {
                return Poll::Ready(());
            }
            let waiting = Some((least, context.waker().clone()));
            drop(self.waiting.replace(waiting));
            Poll::Pending
        })
        .await;
    }

    /// Returns how many deliveries were received, each counted once.
    pub(crate) fn received(&self) -> u64 {
        self.received.get()
    }

    /// Returns the time from the beginning of the throughput to the last delivery.
    pub(crate) fn elapsed(&self) -> Duration {
        self.last.get().since(self.began.get())
    }

    /// Returns how many deliveries came once more.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates.get()
    }

    /// Returns how many deliveries came after a later one of the same publisher.
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order.get()
    }

    /// Returns how many messages were none of this run.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.get()
    }

    /// Returns the times from the intended publish to the receipt, in nanoseconds.
    pub(crate) fn times(&self) -> Histogram<u64> {
        self.times.borrow().clone()
    }

    /// Returns deliveries per second over time: the middle of each bucket in seconds, and its rate. The last bucket is left
    /// out, because it is not over.
    pub(crate) fn throughput(&self) -> Vec<(f64, f64)> {
        let (buckets, width) = (self.buckets.borrow(), self.bucket.get().as_secs_f64());
        let whole = buckets.len().saturating_sub(1);
        let point = |(at, count): (usize, &u64)| ((at as f64 + 0.5) * width, *count as f64 / width);
        buckets[..whole].iter().enumerate().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_times_count_from_the_intended_publish() {
        let meter = DeliveryMeter::new();
        let now = Clock::Monotonic.now();
        let intended = Nanos(now.0 - Duration::from_secs(2).as_nanos() as u64);
        meter.note(intended, Arrival::InOrder);
        meter.note(intended, Arrival::OutOfOrder);
        meter.note(intended, Arrival::Duplicate);
        assert_eq!((meter.received(), meter.duplicates(), meter.out_of_order()), (2, 1, 1));
        let times = meter.times();
        assert_eq!(times.len(), 2);
        assert!(times.min() >= 1_990_000_000, "{}", times.min());
    }
}
