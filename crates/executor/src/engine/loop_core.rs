//! The owned half of an executor: the phases of a turn, one method each (`docs/LOOP.md`).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::command::{Command, Due, System};
use super::current::{self, CurrentLoop, Entered, LocalHalf};
use super::local_half::Local;
use super::loop_local::LoopLocals;
use super::shared_half::Shared;
use super::{Pass, Turn};
use crate::clock::Nanos;
use crate::lifecycle::State;
use crate::lifecycle::shutdown::Verdict;
use crate::queue::admission::Depth;
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::report::guard::{catch, guard_drop};
use crate::sync::{Ordering, fence};
use crate::timer::entry::{Fired, TimerRef, place_of};
use crate::wake::park::Park;

/// How often a pass looks at the clock: reading it costs about as much as a task, so once per this
/// many.
const TASKS_PER_CLOCK_READ: u32 = 64;

/// How many commands are taken before their admissions are given back. Queue depths seen from outside
/// are this much too high at the most.
const TAKEN_PER_GIVE_BACK: usize = 64;

/// The owned half of an executor. See the module's documentation.
pub struct LoopCore<X: Send + 'static> {
    pub(crate) shared: Arc<Shared<X>>,
    pub(crate) local: Rc<Local<X>>,
    /// `None` without a thread of its own: they need not be `Send`.
    pub(super) loop_locals: Option<Rc<LoopLocals>>,
    /// When the last user task or hook ended, since shutdown began.
    pub(super) last_activity: Option<Nanos>,
    /// The last pass ran a user task.
    pub(crate) was_active: bool,
    /// The next time a shutdown wants to be looked at; the end of time, if there is none.
    pub(super) quiet_until: Nanos,
    /// Commands taken whose admissions are not given back yet: one atomic operation pays for many,
    /// and the word that producers write with every submission is left alone meanwhile.
    pub(super) taken: Depth,
    /// What it says that it does while it performs a command. Made once: it is looked up.
    pub(super) command: Origin,
}

impl<X: Send + 'static> LoopCore<X> {
    pub(crate) fn new(shared: Arc<Shared<X>>) -> Self {
        let local = Rc::new(Local::new(shared.clone()));
        Self { loop_locals: Some(Rc::default()), ..Self::without_thread_of(shared, local) }
    }

    /// The owned half of a loop that may turn on another thread each time.
    pub(crate) fn without_thread(shared: Arc<Shared<X>>) -> Self {
        let local = Rc::new(Local::new(shared.clone()));
        Self::without_thread_of(shared, local)
    }

    pub(super) fn without_thread_of(shared: Arc<Shared<X>>, local: Rc<Local<X>>) -> Self {
        Self {
            local,
            shared,
            loop_locals: None,
            last_activity: None,
            was_active: false,
            quiet_until: Nanos::MAX,
            taken: Depth::NONE,
            command: Origin::labelled("the queue"),
        }
    }

    /// Makes the calling thread this loop's, until the guard goes.
    pub(crate) fn enter(&self) -> Entered {
        current::enter(CurrentLoop {
            id: self.shared.id,
            name: self.shared.name.clone(),
            local: self.local.clone(),
            loop_locals: self.loop_locals.clone(),
            reporter: self.shared.reporter.clone(),
            never_block: self.shared.never_block,
            outer: None,
            is_global: self.shared.is_global,
        })
    }

    /// Sleeps if there is nothing to do, until there is.
    pub fn wait(&mut self, park: &mut dyn Park) {
        self.wait_until(None, || false, park);
    }

    /// As [`wait`](Self::wait), but not beyond `limit`, and not if `has_more_work`: that is asked again
    /// after the sleep was announced, so other threads may change it. Whether it slept.
    #[inline]
    pub fn wait_until(
        &mut self,
        limit: Option<Nanos>,
        has_more_work: impl Fn() -> bool,
        park: &mut (impl Park + ?Sized),
    ) -> bool {
        if self.local.has_work() || has_more_work() {
            self.shared.counters.turn();
            return false;
        }
        let until = self.next_deadline().min(limit.unwrap_or(Nanos::MAX));
        let has_more_work = || {
            fence(Ordering::SeqCst); // After the announcement; whoever changes it has one before its look at that.
            has_more_work()
        };
        self.sleep(until, has_more_work, |until| park.park(until)).is_some()
    }

    /// Sleeps in `park`, for a caller that has just found [nothing to run](Self::has_tasks_at) and knows the
    /// [next deadline](Self::next_deadline): `until` is not beyond it. `None`: something has come since, and `park`
    /// was not called.
    #[inline]
    pub fn sleep_idle<R>(
        &mut self,
        until: Nanos,
        park: impl FnOnce(Option<Nanos>) -> R,
    ) -> Option<R> {
        self.sleep(until, || false, park)
    }

    #[inline]
    fn sleep<R>(
        &mut self,
        until: Nanos,
        has_more_work: impl Fn() -> bool,
        park: impl FnOnce(Option<Nanos>) -> R,
    ) -> Option<R> {
        self.shared.counters.turn();
        self.give_back();
        self.shared.counters.sleep();
        let until = until.if_ever();
        let has_more_work = || self.local.has_ready() || has_more_work();
        self.shared.inbox.sleep(until, has_more_work, || park(until))
    }

    /// Goes on without a wait: for a loop that looks for its work elsewhere. The turn counts all the
    /// same.
    pub fn skip_wait(&mut self) {
        self.shared.counters.turn();
        self.give_back();
    }

    /// Whether a task phase at this time would have something to do.
    #[inline]
    #[must_use]
    pub fn has_tasks_at(&self, now: Nanos) -> bool {
        self.local.has_work() || self.local.is_due(now)
    }

    /// Goes on without a task phase: for a loop that has found nothing to run.
    #[inline]
    pub fn skip_tasks(&mut self) {
        self.was_active = false;
        self.count_timers();
    }

    /// Notes how many timers wait. A task phase does; a loop that sets and cancels some after it does once
    /// more, for it may sleep then, and what it has noted stands for as long.
    #[inline]
    pub fn count_timers(&self) {
        self.shared.counters.timers(self.local.timers());
    }

    /// When the loop has to be awake at the latest: for a timer, or for the end of a quiet period. The
    /// end of time, if for neither.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        self.local.next_deadline().min(self.quiet_until)
    }

    /// Runs tasks and other commands in the order of their acceptance; returns how many user tasks.
    ///
    /// `extension` gets the commands of the layer above.
    pub fn run_tasks(&mut self, pass: Pass, extension: &mut dyn FnMut(X)) -> usize {
        let needs_now = pass != Pass::Queued || self.local.next_deadline() < Nanos::MAX;
        let now = if needs_now { self.shared.clock.now() } else { Nanos(0) };
        self.run_tasks_at(now, pass, extension)
    }

    /// As [`run_tasks`](Self::run_tasks), for a caller that has just looked at the clock.
    pub fn run_tasks_at(&mut self, now: Nanos, pass: Pass, extension: &mut dyn FnMut(X)) -> usize {
        self.local.queue_due(now);
        let mut left = match pass {
            Pass::Queued => self.local.queued(),
            Pass::Within(_) => usize::MAX,
        };
        let deadline = match pass {
            Pass::Queued => None,
            Pass::Within(budget) => Some(now.plus(budget)),
        };
        let at_once = self.shared.inbox.is_bounded(); // For the bound to be exact.
        let mut run = 0;
        let mut since_clock = 0;
        while left > 0 {
            let Some(command) = self.local.pop() else {
                break;
            };
            left -= 1;
            self.taken.add(command.weight());
            let lasting = command.adds_lasting_load();
            if at_once || lasting || self.taken.total() >= TAKEN_PER_GIVE_BACK {
                self.give_back();
            }
            run += usize::from(self.perform_guarded(command, extension));
            since_clock += 1;
            if since_clock == TASKS_PER_CLOCK_READ {
                since_clock = 0;
                let now = self.shared.clock.now();
                if deadline.is_some_and(|deadline| now >= deadline) || self.is_overdue(now) {
                    break;
                }
            }
        }
        self.was_active = run > 0;
        self.shared.counters.tasks(run as u64);
        self.count_timers();
        run
    }

    /// Looks whether a shutdown is under way and whether it is through.
    pub fn check_shutdown(&mut self) -> Turn {
        self.check_shutdown_with(false)
    }

    /// As [`check_shutdown`](Self::check_shutdown), for a loop that may have something in flight: that
    /// is waited for, until the shutdown's timeout.
    pub fn check_shutdown_with(&mut self, in_flight: bool) -> Turn {
        let state = self.shared.life.state();
        if state < State::ShuttingDown {
            return Turn::Again;
        }
        self.give_back();
        self.cancel_timers();
        let active = self.was_active || self.run_hooks();
        let now = self.shared.clock.now();
        if active {
            self.last_activity = Some(now);
        }
        let has_work = self.local.has_work();
        let verdict = match self.shared.plan() {
            Some(plan) if state == State::ShuttingDown => {
                if in_flight && !has_work && !plan.is_overdue(now) {
                    Verdict::QuietUntil(plan.end())
                } else {
                    plan.verdict(now, self.last_activity, has_work)
                }
            }
            // Shut down at once: what was accepted runs, and no time is given for more. Hooks that
            // have not had a pass without tasks run in the teardown.
            _ if has_work => Verdict::Work,
            _ => Verdict::End,
        };
        self.quiet_until = Nanos::MAX;
        match verdict {
            Verdict::End => return Turn::Done,
            Verdict::Work => {}
            Verdict::QuietUntil(at) => self.quiet_until = at,
        }
        Turn::Again
    }

    /// The time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// Whether a command is queued.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.local.has_work()
    }

    /// Whether a shutdown was begun.
    #[inline]
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.life.has_reached(State::ShuttingDown)
    }

    #[inline]
    pub(crate) fn give_back(&mut self) {
        if self.taken != Depth::NONE {
            self.shared.inbox.leave(std::mem::replace(&mut self.taken, Depth::NONE));
        }
    }

    fn is_overdue(&self, now: Nanos) -> bool {
        self.shared.life.state() == State::ShuttingDown
            && self.shared.plan().is_some_and(|plan| plan.is_overdue(now))
    }

    /// Performs a command; whether it ran a user's task. Whatever that does, the loop lives on.
    #[inline]
    pub(super) fn perform_guarded(
        &self,
        mut command: Command<X>,
        extension: &mut dyn FnMut(X),
    ) -> bool {
        if let Command::Run(task) = &mut command {
            let origin = task.origin();
            return self.run_user_code(UserCode::Task, origin, || task.run());
        }
        match command {
            Command::Run(_) => unreachable!("has run"),
            Command::System(System::Due(Due::Timer(timer))) => {
                self.run_user_code(UserCode::Timer, timer.origin(), || self.fire(timer))
            }
            Command::System(system) => {
                let _begun = self.shared.vitals.pulse.begin(UserCode::Command, self.command);
                guard_drop(|| self.perform(system, extension));
                false
            }
        }
    }

    /// `code` says whether it did anything; if it panicked, it did.
    #[inline]
    fn run_user_code(&self, what: UserCode, origin: Origin, code: impl FnOnce() -> bool) -> bool {
        let _begun = self.shared.vitals.pulse.begin(what, origin);
        catch(what, origin, code).unwrap_or(true)
    }

    /// Fires a timer, and schedules it anew if it repeats.
    fn fire(&self, timer: TimerRef) -> bool {
        let fired = timer.fire(&|| self.shared.clock.now());
        if let Fired::Again(next) = fired {
            self.local.schedule(next, timer);
        }
        fired != Fired::Cancelled
    }

    /// The commands that are not the user's code.
    fn perform(&self, command: System<X>, extension: &mut dyn FnMut(X)) {
        match command {
            System::Notify(notify) | System::NotifyNested(notify) => notify.notify(),
            System::Schedule(deadline, timer) => self.local.schedule(deadline, timer),
            System::Due(Due::Timer(timer)) => {
                self.fire(timer);
            }
            System::ClearTimer(timer) => {
                if self.local.note_cancelled_timer(place_of(&timer)) {
                    self.local.clear_cancelled();
                }
            }
            System::Due(Due::Extension(command)) => extension(command),
            System::AddHook(hook) => self.local.hooks.borrow_mut().add(*hook),
            System::RemoveHook(id) => {
                let removed = self.local.hooks.borrow_mut().remove(id);
                drop(removed);
            }
            System::Wake => {}
            System::Extension(command) | System::Lasting(command) => extension(command),
        }
    }
}

impl<X: Send + 'static> fmt::Debug for LoopCore<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopCore").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
