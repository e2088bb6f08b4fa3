//! A rate limit that any number of channels on any loops share.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use waterwheel_executor::{Clock, Nanos};

use super::rate::TrafficRate;
use super::schedule::{RateSchedule, Ticket};
use super::throughput::ThroughputMeter;
use super::waiting::WaitingHandler;

/// A limit for the traffic of one direction, or of both: of one channel, or of all channels that share it.
///
/// This is a handle: cheap to clone, usable from any thread. Every [`TrafficShapingHandler`](super::TrafficShapingHandler)
/// has two of its own, for what its channel reads and writes; those of a group are created here and given to
/// [`TrafficShapingBuilder`](super::TrafficShapingBuilder). A limiter without a rate only counts.
///
/// Channels that wait take turns, in the order in which they began to wait: one that has much to send does not
/// starve the others.
///
/// ```
/// use waterwheel_handlers::{TrafficLimiter, TrafficRate};
///
/// let uplink = TrafficLimiter::new(TrafficRate::per_second(10_000_000));
/// uplink.set_rate(TrafficRate::per_second(5_000_000)); // For waiting channels too, at once.
/// assert_eq!(uplink.stats().bytes, 0);
/// uplink.set_rate(None);
/// ```
#[derive(Clone)]
pub struct TrafficLimiter {
    shared: Arc<LimiterShared>,
}

/// The state of a limiter, used by the loops of its channels and by any thread with a handle.
///
/// The lock is held for a few instructions of arithmetic; nothing is called under it. The other fields are counters and
/// copies that a reader may see a moment late. While there is no rate, a message touches the counters only.
struct LimiterShared {
    state: Mutex<LimiterState>,
    /// The bytes of a quantum: [`NO_LIMIT`] while there is no rate.
    quantum: AtomicU64,
    passed: ThroughputMeter,
    /// Bytes that handlers hold because of this limiter or another one of their direction.
    held: AtomicU64,
    /// Bytes that passed above the rate, because they had waited for the longest delay.
    overdue: AtomicU64,
}

struct LimiterState {
    schedule: RateSchedule,
    /// A rate that takes effect with the next call, which knows the time. Handlers that wait are woken to make one.
    next_rate: Option<Option<TrafficRate>>,
    /// Handlers that wait for a ticket, and have to know of a new rate.
    waiting: HashMap<u64, WaitingHandler>,
}

/// The quantum of a limiter without a rate.
pub(super) const NO_LIMIT: u64 = u64::MAX;

/// A snapshot of the counters of a [`TrafficLimiter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficStats {
    /// Bytes that have passed.
    pub bytes: u64,
    /// Bytes that passed in the last second. An estimate.
    pub bytes_per_second: u64,
    /// Bytes of written messages that are held back, in all channels of the limiter. Read messages are never held.
    pub held: u64,
    /// Bytes of `bytes` that passed above the rate because they had waited for the longest delay.
    pub overdue: u64,
}

impl TrafficLimiter {
    /// Creates a limiter with this rate.
    #[must_use]
    pub fn new(rate: TrafficRate) -> Self {
        Self::with_rate(Some(rate))
    }

    /// Creates a limiter without a rate, which only counts until a rate is set.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::with_rate(None)
    }

    pub(super) fn with_rate(rate: Option<TrafficRate>) -> Self {
        let state = LimiterState {
            schedule: RateSchedule::new(rate),
            next_rate: None,
            waiting: HashMap::new(),
        };
        Self {
            shared: Arc::new(LimiterShared {
                state: Mutex::new(state),
                quantum: AtomicU64::new(quantum_of(rate)),
                passed: ThroughputMeter::default(),
                held: AtomicU64::new(0),
                overdue: AtomicU64::new(0),
            }),
        }
    }

    /// Returns the rate; `None` if there is no limit.
    #[must_use]
    pub fn rate(&self) -> Option<TrafficRate> {
        let state = self.shared.lock();
        state.next_rate.unwrap_or(state.schedule.rate())
    }

    /// Changes the rate; `None` removes the limit. Takes effect at once, also for messages that wait.
    pub fn set_rate(&self, rate: impl Into<Option<TrafficRate>>) {
        let rate = rate.into();
        let mut state = self.shared.lock();
        if state.waiting.is_empty() && state.next_rate.is_none() {
            // No channel waits, so the time since the last call may count at the new rate: a burst at most.
            state.schedule.set_rate(rate, Nanos(0));
        } else {
            state.next_rate = Some(rate);
        }
        self.shared.quantum.store(quantum_of(rate), Ordering::Relaxed);
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        for handler in waiting.into_values() {
            handler.wake();
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> TrafficStats {
        self.stats_at(Clock::Monotonic.now())
    }

    /// Returns the counters as of `now`, for channels on a virtual clock.
    #[must_use]
    pub fn stats_at(&self, now: Nanos) -> TrafficStats {
        let shared = &self.shared;
        TrafficStats {
            bytes: shared.passed.total(),
            bytes_per_second: shared.passed.per_second(now),
            held: shared.held.load(Ordering::Relaxed),
            overdue: shared.overdue.load(Ordering::Relaxed),
        }
    }

    /// True if both handles are of the same limiter.
    pub(super) fn is_same(&self, other: &TrafficLimiter) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the bytes of a quantum.
    pub(super) fn quantum(&self) -> u64 {
        self.shared.quantum.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, bytes: u64, now: Nanos) {
        self.shared.passed.count(bytes, now);
    }

    pub(super) fn count_overdue(&self, bytes: u64) {
        self.shared.overdue.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Replaces a handler's part of the held bytes.
    pub(super) fn replace_held(&self, before: u64, after: u64) {
        self.shared.held.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Applies a new rate, if there is one.
    pub(super) fn apply_rate(&self, now: Nanos) {
        drop(self.shared.lock_at(now));
    }

    /// Takes bytes if the rate allows it now.
    pub(super) fn try_take(&self, bytes: u64, now: Nanos) -> bool {
        self.quantum() == NO_LIMIT || self.shared.lock_at(now).schedule.try_take(bytes, now)
    }

    /// Returns a ticket and when it is due.
    pub(super) fn issue(&self, bytes: u64, now: Nanos) -> Ticket {
        self.shared.lock_at(now).schedule.issue(bytes, now)
    }

    /// Returns when a ticket is due. If that is later than `now`, `waiting` is woken when the rate changes.
    pub(super) fn due(
        &self,
        ticket: Ticket,
        now: Nanos,
        waiting: Option<(u64, WaitingHandler)>,
    ) -> Nanos {
        let mut state = self.shared.lock_at(now);
        let due = state.schedule.due(ticket, now);
        if let Some((key, handler)) = waiting.filter(|_| due > now) {
            state.waiting.insert(key, handler);
        }
        due
    }

    /// Adds a debt. Returns true if nothing is left for the next taker.
    pub(super) fn charge(&self, bytes: u64, now: Nanos) -> bool {
        self.quantum() != NO_LIMIT && self.shared.lock_at(now).schedule.charge(bytes, now)
    }

    /// Gives back bytes that were taken, issued or charged, and not used.
    pub(super) fn give_back(&self, bytes: u64) {
        if bytes > 0 && self.quantum() != NO_LIMIT {
            self.shared.lock().schedule.give_back(bytes);
        }
    }

    /// Forgets a handler that waited.
    pub(super) fn stop_waiting(&self, key: u64) {
        let handler = self.shared.lock().waiting.remove(&key);
        drop(handler);
    }
}

/// A limiter that is not kept alive.
pub(super) struct WeakLimiter(Weak<LimiterShared>);

impl WeakLimiter {
    pub(super) fn new(limiter: &TrafficLimiter) -> Self {
        Self(Arc::downgrade(&limiter.shared))
    }

    pub(super) fn upgrade(&self) -> Option<TrafficLimiter> {
        self.0.upgrade().map(|shared| TrafficLimiter { shared })
    }
}

impl LimiterShared {
    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state, and applies a new rate.
    fn lock_at(&self, now: Nanos) -> MutexGuard<'_, LimiterState> {
        let mut state = self.lock();
        if let Some(rate) = state.next_rate.take() {
            state.schedule.set_rate(rate, now);
        }
        state
    }
}

fn quantum_of(rate: Option<TrafficRate>) -> u64 {
    rate.map_or(NO_LIMIT, TrafficRate::quantum)
}

impl fmt::Debug for TrafficLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrafficLimiter")
            .field("rate", &self.rate())
            .field("bytes", &self.shared.passed.total())
            .finish_non_exhaustive()
    }
}
