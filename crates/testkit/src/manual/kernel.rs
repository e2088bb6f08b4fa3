//! What all drivers of one [`Manual`](super::Manual) share: the clock, who sleeps, who was woken.
//!
//! Rules:
//!
//! 1. One lock, held for a few lines, never while a socket's lock is taken. A socket's side changes
//!    its socket first and then calls [`Kernel::touch`].
//! 2. A wait lowers `touched` before it looks at the sockets. What changes after the look raises it
//!    again, and the wait looks once more instead of sleeping: no change is missed.
//! 3. Everything that somebody may be waiting for ends in [`Kernel::changed`], which wakes them all:
//!    the loops, and the tests in `wait_idle`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::{Nanos, VirtualClock};

use super::{Mode, PATIENCE};

/// What a wait does that has a deadline and nothing to do. See the
/// [module's documentation](super#time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// It waits until the test moves the clock.
    #[default]
    Manual,
    /// It moves the clock to its deadline. One at [`Nanos::MAX`] is none.
    AutoAdvance,
}

/// What drivers have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverCounts {
    /// Drivers opened.
    pub opens: usize,
    /// Calls of `wait`.
    pub waits: usize,
    /// Times that a wait found nothing to do and fell asleep, or jumped.
    pub sleeps: usize,
    /// Uses of a waker.
    pub wakes: usize,
    /// Successful calls of `attach`.
    pub attaches: usize,
    /// Successful calls of `register_foreign`.
    pub registers: usize,
    /// Calls of `detach` that found something.
    pub detaches: usize,
    /// Calls of `write`.
    pub writes: usize,
    /// Calls of `shutdown`.
    pub shutdowns: usize,
    /// Calls of `rebuild`.
    pub rebuilds: usize,
    /// Events given out.
    pub events: usize,
}

pub(super) struct Kernel {
    pub(super) mode: Mode,
    pub(super) clock: VirtualClock,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    time: ClockMode,
    held: bool,
    sleepers: Vec<Sleeper>,
    counts: DriverCounts,
    addresses: u16,
}

/// What is known of one driver's sleep. The driver's thread writes `alive` and `asleep` and lowers
/// the flags; any thread raises them. All under the lock.
#[derive(Debug)]
struct Sleeper {
    alive: bool,
    woken: bool,
    touched: bool,
    /// In a wait that found nothing to do, with this deadline.
    asleep: Option<Option<Nanos>>,
}

impl Kernel {
    pub(super) fn new(mode: Mode, clock: VirtualClock, time: ClockMode) -> Self {
        let state = State {
            time,
            held: false,
            sleepers: Vec::new(),
            counts: DriverCounts::default(),
            addresses: 0,
        };
        Self { mode, clock, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A driver has been opened; returns its number.
    pub(super) fn enter(&self) -> usize {
        let mut state = self.lock();
        state.counts.opens += 1;
        state.sleepers.push(Sleeper { alive: true, woken: false, touched: false, asleep: None });
        state.sleepers.len() - 1
    }

    pub(super) fn leave(&self, driver: usize) {
        self.change(|state| state.sleepers[driver].alive = false);
    }

    /// Something that this driver watches has changed.
    pub(super) fn touch(&self, driver: usize) {
        self.change(|state| state.sleepers[driver].touched = true);
    }

    pub(super) fn wake(&self, driver: usize) {
        self.change(|state| {
            state.counts.wakes += 1;
            state.sleepers[driver].woken = true;
        });
    }

    pub(super) fn hold(&self, held: bool) {
        self.change(|state| {
            state.held = held;
            state.sleepers.iter_mut().for_each(|sleeper| sleeper.touched = true);
        });
    }

    pub(super) fn time(&self) -> ClockMode {
        self.lock().time
    }

    pub(super) fn set_clock_mode(&self, time: ClockMode) {
        self.change(|state| state.time = time);
    }

    /// The clock was moved, and not under the lock: it wakes others who sleep by it.
    pub(super) fn clock_moved(&self) {
        self.change(|_| ());
    }

    pub(super) fn counts(&self) -> DriverCounts {
        self.lock().counts
    }

    pub(super) fn count(&self, how: impl FnOnce(&mut DriverCounts)) {
        how(&mut self.lock().counts);
    }

    /// An address nobody else has.
    pub(super) fn new_address(&self) -> SocketAddr {
        let mut state = self.lock();
        state.addresses = state.addresses.wrapping_add(1);
        SocketAddr::from((Ipv4Addr::LOCALHOST, state.addresses))
    }

    /// The driver is about to look at its sockets; returns whether completions are held.
    pub(super) fn begin_look(&self, driver: usize) -> bool {
        let mut state = self.lock();
        state.sleepers[driver].touched = false;
        state.held
    }

    /// The driver has looked, and so many registrations are ready. Sleeps if there is nothing to do.
    /// Returns whether the wait is over because it was woken; `None` means look again.
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
            let sleeper = &mut state.sleepers[driver];
            let woken = std::mem::take(&mut sleeper.woken);
            if woken || ready > 0 {
                break Some(woken);
            }
            if sleeper.touched {
                break None;
            }
            if until.is_some_and(|until| until <= self.clock.now()) {
                break Some(false);
            }
            slept = true;
            if let (ClockMode::AutoAdvance, Some(until)) = (state.time, until) {
                drop(state); // The clock wakes others who sleep by it.
                self.clock.advance_to(until);
                state = self.lock();
                self.changed.notify_all();
                break Some(false);
            }
            state.sleepers[driver].asleep = Some(until);
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleepers[driver].asleep = None;
        };
        state.counts.sleeps += usize::from(slept);
        over
    }

    pub(super) fn wait_idle(&self) {
        let busy = |state: &mut State| {
            let now = self.clock.now();
            state.sleepers.iter().any(|sleeper| sleeper.alive && !sleeper.is_idle(now))
        };
        let waited = self.changed.wait_timeout_while(self.lock(), PATIENCE, busy);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(
            !waited.timed_out(),
            "not idle after {PATIENCE:?}: {:?} at {:?}",
            state.sleepers,
            self.clock.now()
        );
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.lock());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sleeper {
    fn is_idle(&self, now: Nanos) -> bool {
        let deadline_ahead = |until: Option<Nanos>| until.is_none_or(|until| until > now);
        self.asleep.is_some_and(deadline_ahead) && !self.woken && !self.touched
    }
}
