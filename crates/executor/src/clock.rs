//! The only clock of the workspace, real or virtual.
//!
//! No other code asks the operating system for the time (clippy enforces it). A loop reads its clock at a few
//! named points of a turn (`docs/LOOP.md`). An executor or a driver may use a [`VirtualClock`] instead,
//! which moves only when a test moves it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::wake::park::Unpark;

/// A point in time on a loop's clock: nanoseconds since the clock's origin.
///
/// Arithmetic saturates: a deadline beyond the clock's range (584 years) becomes [`Nanos::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The last instant of a clock's range. Stands for "never".
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// Returns this instant plus a duration, saturating.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Nanos {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Nanos(self.0.saturating_add(nanos))
    }

    /// Returns this instant, or `None` for [`Nanos::MAX`], which no clock reaches.
    #[inline]
    #[must_use]
    pub fn finite(self) -> Option<Nanos> {
        (self < Nanos::MAX).then_some(self)
    }

    /// Returns how long after `earlier` this instant is; zero if it is not later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this time as an [`Instant`], for libraries that calculate with those. For the monotonic clock it is the
    /// instant that `Instant::now` would have returned, within a few hundred nanoseconds; a virtual clock has the same
    /// origin.
    #[must_use]
    pub fn to_instant(self) -> Instant {
        *CLOCK_ORIGIN + Duration::from_nanos(self.0)
    }

    /// Returns the time of an [`Instant`]: the reverse of [`to_instant`](Self::to_instant). An instant before the
    /// clock's origin becomes zero, one beyond its range [`Nanos::MAX`].
    #[must_use]
    pub fn from_instant(instant: Instant) -> Nanos {
        Nanos(0).plus(instant.saturating_duration_since(*CLOCK_ORIGIN))
    }
}

/// The origin of the clocks as an [`Instant`].
static CLOCK_ORIGIN: LazyLock<Instant> = LazyLock::new(instant_of_zero);

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
fn instant_of_zero() -> Instant {
    let (now, uptime) = (Instant::now(), Duration::from_nanos(monotonic_now().0));
    // An `Instant` counts from the same origin, so this is within its range.
    now.checked_sub(uptime).unwrap_or(now)
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

/// The clock that a loop reads.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The monotonic clock of the operating system (CLOCK_MONOTONIC).
    #[default]
    Monotonic,
    /// A clock that moves only when a thread moves it.
    Virtual(VirtualClock),
}

impl Clock {
    /// Returns the present time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Monotonic => monotonic_now(),
            Clock::Virtual(clock) => clock.now(),
        }
    }
}

/// A clock for tests: it stands still until [`advance`](Self::advance) moves it.
///
/// Moving the clock wakes all sleepers whose deadline it reaches: threads of executors, and pooled executors.
/// Any number of threads may move it.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_executor::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now().since(before), Duration::from_secs(3600));
/// ```
#[derive(Clone, Default)]
pub struct VirtualClock {
    state: Arc<ClockState>,
}

/// A thread moves `nanos` forward first, then takes the alarms that are due out of `alarms`; a thread that sets
/// an alarm inserts it first, then reads `nanos`. So one of the two sees the other, and no alarm is missed.
/// Nothing is woken under the lock.
#[derive(Default)]
struct ClockState {
    nanos: AtomicU64,
    alarms: Mutex<Alarms>,
}

/// Alarms by deadline, then by the order in which they were set.
#[derive(Default)]
struct Alarms {
    waiting: BTreeMap<(Nanos, u64), Arc<dyn Unpark>>,
    set: u64,
}

impl VirtualClock {
    /// Creates a clock that shows zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the time that the clock shows.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(self.state.nanos.load(Ordering::Acquire))
    }

    /// Moves the clock forward. Concurrent calls all add their durations.
    pub fn advance(&self, by: Duration) {
        let later = |now| Some(Nanos(now).plus(by).0);
        let _ = self.state.nanos.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        self.wake_due();
    }

    /// Moves the clock forward to an instant. An instant in the past changes nothing.
    pub fn advance_to(&self, to: Nanos) {
        self.state.nanos.fetch_max(to.0, Ordering::AcqRel);
        self.wake_due();
    }

    /// Calls `unpark` once when the clock reaches `at`, on the thread that moves the clock; at once if the clock
    /// has reached `at` already. Dropping the [`ClockAlarm`] before then cancels the call.
    ///
    /// Used by code that sleeps by a clock and is not an executor of this crate, such as a driver.
    pub fn wake_at(&self, at: Nanos, unpark: Arc<dyn Unpark>) -> ClockAlarm {
        let mut alarms = self.lock_alarms();
        alarms.set += 1;
        let key = (at, alarms.set);
        alarms.waiting.insert(key, unpark);
        drop(alarms);
        self.wake_due();
        ClockAlarm { clock: self.clone(), key }
    }

    fn wake_due(&self) {
        let mut due = Vec::new();
        let (mut alarms, now) = (self.lock_alarms(), self.now());
        while let Some(first) = alarms.waiting.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        drop(alarms);
        due.iter().for_each(|unpark| unpark.unpark());
    }

    fn lock_alarms(&self) -> MutexGuard<'_, Alarms> {
        self.state.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VirtualClock").field(&self.now()).finish()
    }
}

/// A wake-up requested from a [`VirtualClock`]. Dropping it cancels the wake-up.
#[must_use = "dropping it cancels the wake-up"]
pub struct ClockAlarm {
    clock: VirtualClock,
    key: (Nanos, u64),
}

impl Drop for ClockAlarm {
    fn drop(&mut self) {
        let unpark = self.clock.lock_alarms().waiting.remove(&self.key);
        drop(unpark); // Dropped outside of the lock.
    }
}

impl fmt::Debug for ClockAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClockAlarm").field(&self.key.0).finish()
    }
}

/// Returns the time of day, for properties that are shown to people. Never used to measure.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Reads CLOCK_MONOTONIC: one clock_gettime call and one multiplication. `std::time::Instant` takes three times as
/// many instructions for a difference that nothing here needs. The kernel's clock is never zero once a process
/// runs, which the wake word relies on: zero means "awake".
fn monotonic_now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Nanos((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Nanos(5).plus(Duration::MAX), Nanos::MAX);
        assert_eq!(Nanos(5).since(Nanos(9)), Duration::ZERO);
        assert_eq!(Nanos(9).since(Nanos(5)), Duration::from_nanos(4));
        assert_eq!((Nanos(9).finite(), Nanos::MAX.finite()), (Some(Nanos(9)), None));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares the clock with the standard library's")]
    fn times_become_instants_and_come_back() {
        for nanos in [Nanos(0), Nanos(1), Nanos(u64::MAX / 2), Nanos::MAX] {
            assert_eq!(Nanos::from_instant(nanos.to_instant()), nanos);
        }
        let before_origin = Nanos(0).to_instant().checked_sub(Duration::from_secs(1));
        assert!(before_origin.is_none_or(|instant| Nanos::from_instant(instant) == Nanos(0)));
        let (earlier, later) = (Clock::Monotonic.now(), Nanos::from_instant(Instant::now()));
        // The origin is read from two clocks, one after the other: it may be later by that time.
        assert!(later.plus(Duration::from_secs(60)) > earlier);
        assert!(earlier.plus(Duration::from_secs(60)) > later, "{earlier:?}, then {later:?}");
    }

    #[test]
    fn a_virtual_clock_never_goes_back() {
        let clock = VirtualClock::new();
        clock.advance_to(Nanos(10));
        clock.advance_to(Nanos(3));
        assert_eq!(Clock::Virtual(clock).now(), Nanos(10));
    }

    #[test]
    fn the_monotonic_clock_starts_above_zero() {
        assert!(Clock::Monotonic.now() > Nanos(0));
    }
}
