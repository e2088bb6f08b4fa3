//! The state that all drivers of one [`Manual`](super::Manual) share: the clock, and which drivers sleep or were woken.
//!
//! Rules:
//!
//! 1. There is one lock, held for a few lines, and never while a socket's lock is taken. A thread that changes a
//!    socket changes it first and then calls [`Kernel::mark_changed`].
//! 2. A wait clears `has_changed` before it looks at the sockets. A change after the look sets it again, and the wait looks
//!    once more instead of sleeping: no change is missed.
//! 3. Every change that a thread may wait for notifies [`Kernel::changed`], which wakes all waiting threads: the loops,
//!    and the tests in `wait_idle`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::{Nanos, VirtualClock};

use super::{CompletionMode, TIMEOUT};

/// How the virtual clock moves while a wait has a deadline and nothing to do. See the
/// [module's documentation](super#clockmode).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// The wait blocks until the test advances the clock.
    #[default]
    Manual,
    /// The wait moves the clock to its deadline. A deadline at [`Nanos::MAX`] counts as no deadline.
    AutoAdvance,
}

/// How often drivers were called so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCounts {
    /// Drivers opened.
    pub opens: usize,
    /// Calls of `wait`.
    pub waits: usize,
    /// Waits that found nothing to do and slept, or advanced the clock.
    pub sleeps: usize,
    /// Uses of a waker.
    pub wakes: usize,
    /// Successful calls of `attach`.
    pub attaches: usize,
    /// Successful calls of `register_foreign`.
    pub registers: usize,
    /// Calls of `detach` with an attached token.
    pub detaches: usize,
    /// Calls of `write`.
    pub writes: usize,
    /// Calls of `shutdown`.
    pub shutdowns: usize,
    /// Calls of `rebuild`.
    pub rebuilds: usize,
    /// Events returned by `next_event`.
    pub events: usize,
}

pub(super) struct Kernel {
    pub(super) mode: CompletionMode,
    pub(super) clock: VirtualClock,
    state: Mutex<KernelState>,
    changed: Condvar,
}

struct KernelState {
    clock_mode: ClockMode,
    /// True while completions and readiness are held back.
    is_holding: bool,
    drivers: Vec<SleepState>,
    counts: DriverCounts,
    /// How many addresses were assigned.
    assigned_addresses: u16,
}

/// The sleep state of one driver. The driver's thread writes `is_open` and `asleep` and clears the flags; any thread sets
/// the flags. Every access holds the lock.
#[derive(Debug)]
struct SleepState {
    is_open: bool,
    woken: bool,
    has_changed: bool,
    /// Set while the driver sleeps in a wait, with the wait's deadline.
    asleep: Option<Option<Nanos>>,
}

impl Kernel {
    pub(super) fn new(mode: CompletionMode, clock: VirtualClock, clock_mode: ClockMode) -> Self {
        let state = KernelState {
            clock_mode,
            is_holding: false,
            drivers: Vec::new(),
            counts: DriverCounts::default(),
            assigned_addresses: 0,
        };
        Self { mode, clock, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Registers an opened driver and returns its number.
    pub(super) fn add_driver(&self) -> usize {
        let mut state = self.lock();
        state.counts.opens += 1;
        state.drivers.push(SleepState {
            is_open: true,
            woken: false,
            has_changed: false,
            asleep: None,
        });
        state.drivers.len() - 1
    }

    pub(super) fn remove_driver(&self, driver: usize) {
        self.change(|state| state.drivers[driver].is_open = false);
    }

    /// Records that a socket of this driver has changed.
    pub(super) fn mark_changed(&self, driver: usize) {
        self.change(|state| state.drivers[driver].has_changed = true);
    }

    pub(super) fn wake(&self, driver: usize) {
        self.change(|state| {
            state.counts.wakes += 1;
            state.drivers[driver].woken = true;
        });
    }

    pub(super) fn hold(&self, held: bool) {
        self.change(|state| {
            state.is_holding = held;
            state.drivers.iter_mut().for_each(|sleeper| sleeper.has_changed = true);
        });
    }

    pub(super) fn clock_mode(&self) -> ClockMode {
        self.lock().clock_mode
    }

    pub(super) fn set_clock_mode(&self, clock_mode: ClockMode) {
        self.change(|state| state.clock_mode = clock_mode);
    }

    /// Wakes the waits after the clock was moved outside the lock.
    pub(super) fn notify_clock_moved(&self) {
        self.change(|_| ());
    }

    pub(super) fn counts(&self) -> DriverCounts {
        self.lock().counts
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut DriverCounts)) {
        change(&mut self.lock().counts);
    }

    /// Returns an address that no other socket has.
    pub(super) fn new_address(&self) -> SocketAddr {
        let mut state = self.lock();
        state.assigned_addresses = state.assigned_addresses.wrapping_add(1);
        SocketAddr::from((Ipv4Addr::LOCALHOST, state.assigned_addresses))
    }

    /// Called before a driver looks at its sockets. Returns true while completions are held back.
    pub(super) fn begin_look(&self, driver: usize) -> bool {
        let mut state = self.lock();
        state.drivers[driver].has_changed = false;
        state.is_holding
    }

    /// Called after a driver has looked at its sockets and found `ready` registrations. Sleeps if there is nothing to
    /// do. Returns true if a wake ended the wait; `None` means that the driver must look again.
    pub(super) fn end_look(
        &self,
        driver: usize,
        until: Option<Nanos>,
        ready: usize,
    ) -> Option<bool> {
        let until = until.filter(|until| *until < Nanos::MAX);
        let mut state = self.lock();
        let mut slept = false;
        let over = loop {
            let sleeper = &mut state.drivers[driver];
            let woken = std::mem::take(&mut sleeper.woken);
            if woken || ready > 0 {
                break Some(woken);
            }
            if sleeper.has_changed {
                break None;
            }
            if until.is_some_and(|until| until <= self.clock.now()) {
                break Some(false);
            }
            slept = true;
            if let (ClockMode::AutoAdvance, Some(until)) = (state.clock_mode, until) {
                drop(state); // Advancing the clock wakes other sleepers of this clock.
                self.clock.advance_to(until);
                state = self.lock();
                self.changed.notify_all();
                break Some(false);
            }
            state.drivers[driver].asleep = Some(until);
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.drivers[driver].asleep = None;
        };
        state.counts.sleeps += usize::from(slept);
        over
    }

    pub(super) fn wait_idle(&self) {
        let busy = |state: &mut KernelState| {
            let now = self.clock.now();
            state.drivers.iter().any(|sleeper| sleeper.is_open && !sleeper.is_idle(now))
        };
        let waited = self.changed.wait_timeout_while(self.lock(), TIMEOUT, busy);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            !waited.timed_out(),
            "timed out after {TIMEOUT:?} waiting for all drivers to be idle: {:?} at {:?}",
            state.drivers,
            self.clock.now()
        );
    }

    fn change(&self, change: impl FnOnce(&mut KernelState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, KernelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SleepState {
    fn is_idle(&self, now: Nanos) -> bool {
        let deadline_ahead = |until: Option<Nanos>| until.is_none_or(|until| until > now);
        self.asleep.is_some_and(deadline_ahead) && !self.woken && !self.has_changed
    }
}
