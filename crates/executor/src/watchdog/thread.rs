//! The loops of a watchdog, and the thread that looks at them.
//!
//! The list is under a lock, which is held while the thread looks and never while a report is made. A loop is
//! added when it starts; the thread removes it when its activity says that it has ended, and exits with the
//! last loop.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::OnSlow;
use super::hold_tracker::{HoldStatus, HoldTracker};
use super::slow_work::{Activity, SlowWork};
use crate::clock::{Clock, Nanos, wall_clock};
use crate::raw::origin::Origin;
use crate::report::guard::{guard_for, report_to};
use crate::report::{Fault, Reporter, UserCode};
use crate::watchdog::activity_cell::ActivitySnapshot;
use crate::watchdog::loop_status::LoopStatus;

pub(super) struct WatchdogThread {
    pub(super) limit: Duration,
    look_every: Duration,
    /// The callback for slow work; with `None`, the loop's reporter receives the reports.
    on_slow: Option<OnSlow>,
    state: Mutex<WatchList>,
    /// Signalled when a loop has ended.
    changed: Condvar,
}

#[derive(Default)]
struct WatchList {
    loops: Vec<WatchedLoop>,
    /// True from the start of the thread until it exits.
    has_thread: bool,
}

/// A watched loop. Does not keep the loop alive.
struct WatchedLoop {
    name: Arc<str>,
    reporter: Arc<dyn Reporter>,
    status: Arc<LoopStatus>,
    holds: HoldTracker,
    /// The last reports of its current piece of work and of its current round, at [`PIECE`] and [`ROUND`]; used
    /// when they end.
    last: [Option<SlowWork>; 2],
    is_over: bool,
}

/// The indices of [`WatchedLoop::last`].
const PIECE: usize = 0;
const ROUND: usize = 1;

/// A report to make after the lock is released.
type PendingReport = (Arc<dyn Reporter>, SlowWork);

impl WatchdogThread {
    pub(super) fn new(limit: Duration, look_every: Duration, on_slow: Option<OnSlow>) -> Self {
        Self { limit, look_every, on_slow, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn watched_loops(&self) -> usize {
        let is_running =
            |watched: &&WatchedLoop| watched.status.activity.read() != ActivitySnapshot::Ended;
        self.lock().loops.iter().filter(is_running).count()
    }

    /// Watches a loop from now on.
    pub(super) fn add_loop(
        self: &Arc<Self>,
        name: &Arc<str>,
        reporter: &Arc<dyn Reporter>,
        status: &Arc<LoopStatus>,
    ) {
        let mut state = self.lock();
        state.loops.push(WatchedLoop {
            name: name.clone(),
            reporter: reporter.clone(),
            status: status.clone(),
            holds: HoldTracker::default(),
            last: [None, None],
            is_over: false,
        });
        if state.has_thread {
            return;
        }
        let watchdog = self.clone();
        let thread = std::thread::Builder::new().name(String::from("waterwheel-watchdog"));
        match thread.spawn(move || watchdog.run()) {
            Ok(_detached) => state.has_thread = true,
            // The loops go on unwatched. The next loop that starts tries again.
            Err(error) => {
                drop(state);
                let what = format!(
                    "the watchdog thread could not be started: {error}; slow work of this loop is not reported"
                );
                report_to(&**reporter, name, Fault::Degraded(what));
            }
        }
    }

    /// Makes the thread look before its interval is over: a loop has ended.
    pub(super) fn check_now(&self) {
        drop(self.lock()); // After this, the thread either waits or has not looked yet.
        self.changed.notify_one();
    }

    /// Looks at the loops until the last has ended: the body of the thread.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let now = Clock::Monotonic.now();
            let reports = state.loops.iter_mut().flat_map(|it| it.check(now, self.limit));
            let reports: Vec<PendingReport> = reports.collect();
            let gone: Vec<WatchedLoop> = state.loops.extract_if(.., |it| it.is_over).collect();
            if !reports.is_empty() || !gone.is_empty() {
                drop(state);
                for (reporter, work) in reports {
                    self.report_slow(&*reporter, work);
                }
                drop(gone); // Drops reporters of users: outside of the lock.
                state = self.lock();
            }
            if state.loops.is_empty() {
                state.has_thread = false;
                return;
            }
            let waited = self.changed.wait_timeout(state, self.look_every);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn report_slow(&self, reporter: &dyn Reporter, work: SlowWork) {
        let executor = work.executor.clone();
        match &self.on_slow {
            Some(on_slow) => {
                let what = (UserCode::Callback, Origin::labelled("watchdog"));
                guard_for((reporter, &executor), what, || on_slow(&work));
            }
            None => report_to(reporter, &executor, Fault::Slow(Box::new(work))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, WatchList> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedLoop {
    fn check(
        &mut self,
        now: Nanos,
        limit: Duration,
    ) -> impl Iterator<Item = PendingReport> + use<> {
        let (snapshot, round) = (self.status.activity.read(), self.status.activity.round());
        self.is_over = snapshot == ActivitySnapshot::Ended;
        let [of_piece, of_round] = self.holds.observe((&snapshot, round), now, limit);
        let named = match &snapshot {
            ActivitySnapshot::Busy(seen) => Some(Activity::of(seen)),
            ActivitySnapshot::Idle | ActivitySnapshot::Ended | ActivitySnapshot::Changing => None,
        };
        let in_round = match &named {
            Some((activity, _)) => (activity.clone(), Some(Activity::round())),
            None => (Activity::round(), None),
        };
        let piece = self.report_for(PIECE, of_piece, named);
        let round = self.report_for(ROUND, of_round, Some(in_round));
        [piece, round].into_iter().flatten()
    }

    /// Returns the report to make about the piece of work or the round of events (`which`): the first one when it
    /// has held the loop for the limit, another whenever that time has doubled, and a last one at its end. `named`
    /// describes the work and the work that encloses it.
    fn report_for(
        &mut self,
        which: usize,
        hold_status: HoldStatus,
        named: Option<(Activity, Option<Activity>)>,
    ) -> Option<PendingReport> {
        let work = match hold_status {
            HoldStatus::Fine => return None,
            HoldStatus::Slow { held_for, nth } => {
                self.status.record_hold(held_for, nth == 1);
                let (activity, enclosing) = named?;
                let work = SlowWork {
                    executor: self.name.clone(),
                    thread: self.status.thread().and_then(|thread| thread.name),
                    activity,
                    enclosing,
                    since: wall_clock().checked_sub(held_for).unwrap_or(SystemTime::UNIX_EPOCH),
                    held_for,
                    report_count: nth,
                    is_over: false,
                };
                self.last[which] = Some(work.clone());
                work
            }
            HoldStatus::Ended { held_for, nth } => {
                self.status.record_hold(held_for, false);
                SlowWork { held_for, report_count: nth, is_over: true, ..self.last[which].take()? }
            }
        };
        Some((self.reporter.clone(), work))
    }
}
