//! The loops of a watchdog, and the thread that looks at them.
//!
//! The list is under a lock, held while the thread looks and never while somebody is told. A loop comes
//! in when it starts; the thread lets it go when its pulse says that it is over, and ends with the last.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use super::OnSlow;
use super::slow_work::{Activity, SlowWork};
use super::watch::{Verdict, Watch};
use crate::clock::{Clock, Nanos, wall_clock};
use crate::raw::origin::Origin;
use crate::report::guard::{guard_for, report_to};
use crate::report::{Fault, Reporter, UserCode};
use crate::watchdog::activity_cell::Sight;
use crate::watchdog::loop_status::Vitals;

pub(super) struct Kennel {
    pub(super) limit: Duration,
    look_every: Duration,
    /// `None`: the loop's reporter.
    on_slow: Option<OnSlow>,
    state: Mutex<State>,
    /// A loop has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    loops: Vec<Watched>,
    /// The thread is there, or was asked for.
    has_thread: bool,
}

/// A loop that is watched. Nothing in here keeps it from ending.
struct Watched {
    name: Arc<str>,
    reporter: Arc<dyn Reporter>,
    vitals: Arc<Vitals>,
    watch: Watch,
    /// The last reports of its current piece of work and of its current round, by [`PIECE`] and [`ROUND`]; used when
    /// they end.
    last: [Option<SlowWork>; 2],
    is_over: bool,
}

/// The places in [`Watched::last`].
const PIECE: usize = 0;
const ROUND: usize = 1;

/// To be told, when the lock is gone.
type Telling = (Arc<dyn Reporter>, SlowWork);

impl Kennel {
    pub(super) fn new(limit: Duration, look_every: Duration, on_slow: Option<OnSlow>) -> Self {
        Self { limit, look_every, on_slow, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn watched(&self) -> usize {
        let is_there = |watched: &&Watched| watched.vitals.pulse.look() != Sight::Over;
        self.lock().loops.iter().filter(is_there).count()
    }

    /// Watches a loop from now on.
    pub(super) fn admit(
        self: &Arc<Self>,
        name: &Arc<str>,
        reporter: &Arc<dyn Reporter>,
        vitals: &Arc<Vitals>,
    ) {
        let mut state = self.lock();
        state.loops.push(Watched {
            name: name.clone(),
            reporter: reporter.clone(),
            vitals: vitals.clone(),
            watch: Watch::default(),
            last: [None, None],
            is_over: false,
        });
        if state.has_thread {
            return;
        }
        let kennel = self.clone();
        let thread = std::thread::Builder::new().name(String::from("waterwheel-watchdog"));
        match thread.spawn(move || kennel.patrol()) {
            Ok(_detached) => state.has_thread = true,
            // Loops do without. The next one to start asks again.
            Err(error) => {
                drop(state);
                let what = format!("no watchdog thread: {error}; nothing slow is reported");
                report_to(&**reporter, name, Fault::Degraded(what));
            }
        }
    }

    /// Lets the thread look before its time: a loop has ended.
    pub(super) fn look_again(&self) {
        drop(self.lock()); // It waits, or has yet to look.
        self.changed.notify_one();
    }

    /// The thread's life.
    fn patrol(&self) {
        let mut state = self.lock();
        loop {
            let now = Clock::Monotonic.now();
            let tellings = state.loops.iter_mut().flat_map(|it| it.look(now, self.limit));
            let tellings: Vec<Telling> = tellings.collect();
            let gone: Vec<Watched> = state.loops.extract_if(.., |it| it.is_over).collect();
            if !tellings.is_empty() || !gone.is_empty() {
                drop(state);
                for (reporter, work) in tellings {
                    self.tell(&*reporter, work);
                }
                drop(gone); // With what belongs to users.
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

    fn tell(&self, reporter: &dyn Reporter, work: SlowWork) {
        let executor = work.executor.clone();
        match &self.on_slow {
            Some(on_slow) => {
                let what = (UserCode::Callback, Origin::labelled("watchdog"));
                guard_for((reporter, &executor), what, || on_slow(&work));
            }
            None => report_to(reporter, &executor, Fault::Slow(Box::new(work))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn look(&mut self, now: Nanos, limit: Duration) -> impl Iterator<Item = Telling> + use<> {
        let (sight, round) = (self.vitals.pulse.look(), self.vitals.pulse.round());
        self.is_over = sight == Sight::Over;
        let [of_piece, of_round] = self.watch.look((&sight, round), now, limit);
        let named = match &sight {
            Sight::Busy(seen) => Some(Activity::of(seen)),
            Sight::Idle | Sight::Over | Sight::Blurred => None,
        };
        let in_round = match &named {
            Some((activity, _)) => (activity.clone(), Some(Activity::round())),
            None => (Activity::round(), None),
        };
        let piece = self.judge(PIECE, of_piece, named);
        let round = self.judge(ROUND, of_round, Some(in_round));
        [piece, round].into_iter().flatten()
    }

    /// Returns the report that is due for a piece of work, or for a round, with this name.
    fn judge(
        &mut self,
        which: usize,
        verdict: Verdict,
        named: Option<(Activity, Option<Activity>)>,
    ) -> Option<Telling> {
        let work = match verdict {
            Verdict::Fine => return None,
            Verdict::Slow { held_for, nth } => {
                self.vitals.held(held_for, nth == 1);
                let (activity, within) = named?;
                let work = SlowWork {
                    executor: self.name.clone(),
                    thread: self.vitals.thread().and_then(|thread| thread.name),
                    activity,
                    within,
                    since: wall_clock().checked_sub(held_for).unwrap_or(SystemTime::UNIX_EPOCH),
                    held_for,
                    told: nth,
                    is_over: false,
                };
                self.last[which] = Some(work.clone());
                work
            }
            Verdict::Over { held_for, nth } => {
                self.vitals.held(held_for, false);
                SlowWork { held_for, told: nth, is_over: true, ..self.last[which].take()? }
            }
        };
        Some((self.reporter.clone(), work))
    }
}
