//! The owned half of an executor: the phases of a turn, one method each (`docs/LOOP.md`).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::command::{Command, SystemCommand, WheelEntry};
use super::current::{self, AnyLocalHalf, CurrentLoop, EnteredLoop};
use super::local_half::LocalHalf;
use super::loop_local::LoopLocals;
use super::shared_half::SharedHalf;
use super::{PassLimit, TurnOutcome};
use crate::clock::Nanos;
use crate::lifecycle::ExecutorState;
use crate::lifecycle::shutdown::ShutdownStep;
use crate::queue::admission::QueueDepth;
use crate::raw::origin::Origin;
use crate::report::UserCode;
use crate::report::guard::{catch, guard_drop};
use crate::sync::{Ordering, fence};
use crate::timer::entry::{Fired, TimerRef, wheel_position_of};
use crate::wake::park::Park;

/// How many tasks a pass runs between two clock reads. Reading the clock costs about as much as a task.
const TASKS_PER_CLOCK_READ: u32 = 64;

/// How many commands are taken before their admissions are returned. Queue depths seen from outside are too
/// high by at most this many.
const ADMISSIONS_PER_RETURN: usize = 64;

/// The owned half of an executor: it lives on the loop's thread, and no other thread can reach it. See the
/// module's documentation.
pub struct LoopCore<X: Send + 'static> {
    pub(crate) shared: Arc<SharedHalf<X>>,
    pub(crate) local: Rc<LocalHalf<X>>,
    /// `None` for a pooled loop, which has no thread of its own: the values need not be `Send`.
    pub(super) loop_locals: Option<Rc<LoopLocals>>,
    /// The time at which the last user task or hook of the shutdown ended.
    pub(super) last_activity: Option<Nanos>,
    /// True if the last pass ran a user task.
    pub(crate) was_active: bool,
    /// The time at which a shutdown in progress is checked again; [`Nanos::MAX`] without a shutdown.
    pub(super) quiet_until: Nanos,
    /// Admissions of taken commands that are not returned yet. One atomic operation returns many, and the word
    /// that producers write with every submission is not touched meanwhile.
    pub(super) unreturned: QueueDepth,
    /// The origin that is published while the loop performs a command. Made once, because making it looks up a
    /// table.
    pub(super) command_origin: Origin,
}

impl<X: Send + 'static> LoopCore<X> {
    pub(crate) fn new(shared: Arc<SharedHalf<X>>) -> Self {
        let local = Rc::new(LocalHalf::new(shared.clone()));
        Self { loop_locals: Some(Rc::default()), ..Self::from_halves(shared, local) }
    }

    /// Creates the owned half of a loop that may turn on a different thread each time.
    pub(crate) fn without_thread(shared: Arc<SharedHalf<X>>) -> Self {
        let local = Rc::new(LocalHalf::new(shared.clone()));
        Self::from_halves(shared, local)
    }

    pub(super) fn from_halves(shared: Arc<SharedHalf<X>>, local: Rc<LocalHalf<X>>) -> Self {
        Self {
            local,
            shared,
            loop_locals: None,
            last_activity: None,
            was_active: false,
            quiet_until: Nanos::MAX,
            unreturned: QueueDepth::NONE,
            command_origin: Origin::labelled("the queue"),
        }
    }

    /// Makes the calling thread this loop's thread until the guard is dropped.
    pub(crate) fn enter(&self) -> EnteredLoop {
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

    /// Sleeps until there is something to do. Returns at once if there is.
    pub fn wait(&mut self, park: &mut dyn Park) {
        self.wait_until(None, || false, park);
    }

    /// Sleeps as [`wait`](Self::wait) does, but not beyond `limit`, and not while `has_more_work` returns true.
    /// `has_more_work` is called again after the sleep was announced, so other threads may change its answer.
    /// Returns whether the loop slept.
    #[inline]
    pub fn wait_until(
        &mut self,
        limit: Option<Nanos>,
        has_more_work: impl Fn() -> bool,
        park: &mut (impl Park + ?Sized),
    ) -> bool {
        if self.local.has_work() || has_more_work() {
            self.shared.counters.count_turn();
            return false;
        }
        let until = self.next_deadline().min(limit.unwrap_or(Nanos::MAX));
        let has_more_work = || {
            // Pairs with the fence of a thread that changes the answer and then reads the announcement.
            fence(Ordering::SeqCst);
            has_more_work()
        };
        self.sleep(until, has_more_work, |until| park.park(until)).is_some()
    }

    /// Sleeps in `park`, for a caller that has just found [nothing to run](Self::has_tasks_at) and knows the
    /// [next deadline](Self::next_deadline): `until` is not beyond it. Returns `None` without calling `park` if
    /// work has arrived since.
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
        self.shared.counters.count_turn();
        self.return_admissions();
        self.shared.counters.count_sleep();
        let until = until.finite();
        let has_more_work = || self.local.has_ready() || has_more_work();
        self.shared.inbox.sleep(until, has_more_work, || park(until))
    }

    /// Counts a turn without a wait: for a loop that looks for its work elsewhere.
    pub fn skip_wait(&mut self) {
        self.shared.counters.count_turn();
        self.return_admissions();
    }

    /// True if a task phase at this time would have something to run.
    #[inline]
    #[must_use]
    pub fn has_tasks_at(&self, now: Nanos) -> bool {
        self.local.has_work() || self.local.is_due(now)
    }

    /// Skips the task phase: for a loop that has found nothing to run.
    #[inline]
    pub fn skip_tasks(&mut self) {
        self.was_active = false;
        self.count_timers();
    }

    /// Publishes how many timers are pending. A task phase does this; a loop that sets or cancels timers after
    /// its task phase calls this again, because the published number stays for as long as it sleeps.
    #[inline]
    pub fn count_timers(&self) {
        self.shared.counters.set_timers(self.local.pending_timers());
    }

    /// Returns the time by which the loop has to be awake, for a timer or for the end of a quiet period;
    /// [`Nanos::MAX`] if there is neither.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        self.local.next_deadline().min(self.quiet_until)
    }

    /// Runs tasks and other commands in the order of their acceptance. Returns how many user tasks ran.
    ///
    /// `extension` is called with the commands of the layer above.
    pub fn run_tasks(&mut self, pass: PassLimit, extension: &mut dyn FnMut(X)) -> usize {
        let needs_now = pass != PassLimit::Queued || self.local.next_deadline() < Nanos::MAX;
        let now = if needs_now { self.shared.clock.now() } else { Nanos(0) };
        self.run_tasks_at(now, pass, extension)
    }

    /// Runs tasks as [`run_tasks`](Self::run_tasks) does, for a caller that has just read the clock.
    pub fn run_tasks_at(
        &mut self,
        now: Nanos,
        pass: PassLimit,
        extension: &mut dyn FnMut(X),
    ) -> usize {
        self.local.queue_due(now);
        let mut left = match pass {
            PassLimit::Queued => self.local.queued_commands(),
            PassLimit::Within(_) => usize::MAX,
        };
        let deadline = match pass {
            PassLimit::Queued => None,
            PassLimit::Within(budget) => Some(now.plus(budget)),
        };
        let at_once = self.shared.inbox.is_bounded(); // Keeps the bound exact.
        let mut run = 0;
        let mut since_clock = 0;
        while left > 0 {
            let Some(command) = self.local.pop() else {
                break;
            };
            left -= 1;
            self.unreturned.add(command.depth());
            let lasting = command.is_lasting();
            if at_once || lasting || self.unreturned.total() >= ADMISSIONS_PER_RETURN {
                self.return_admissions();
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
        self.shared.counters.add_tasks(run as u64);
        self.count_timers();
        run
    }

    /// Checks whether a shutdown is under way and whether it is complete.
    pub fn check_shutdown(&mut self) -> TurnOutcome {
        self.check_shutdown_with(false)
    }

    /// Checks for a shutdown as [`check_shutdown`](Self::check_shutdown) does, for a loop that may have
    /// operations in flight: the shutdown waits for those, until its timeout.
    pub fn check_shutdown_with(&mut self, in_flight: bool) -> TurnOutcome {
        let state = self.shared.life.state();
        if state < ExecutorState::ShuttingDown {
            return TurnOutcome::Again;
        }
        self.return_admissions();
        self.cancel_timers();
        let active = self.was_active || self.run_hooks();
        let now = self.shared.clock.now();
        if active {
            self.last_activity = Some(now);
        }
        let has_work = self.local.has_work();
        let step = match self.shared.plan() {
            Some(plan) if state == ExecutorState::ShuttingDown => {
                if in_flight && !has_work && !plan.is_overdue(now) {
                    ShutdownStep::QuietUntil(plan.end())
                } else {
                    plan.next_step(now, self.last_activity, has_work)
                }
            }
            // An immediate shutdown: accepted commands run, and there is no quiet period. Hooks that did not
            // get a pass without tasks run in the teardown.
            _ if has_work => ShutdownStep::Work,
            _ => ShutdownStep::End,
        };
        self.quiet_until = Nanos::MAX;
        match step {
            ShutdownStep::End => return TurnOutcome::Done,
            ShutdownStep::Work => {}
            ShutdownStep::QuietUntil(at) => self.quiet_until = at,
        }
        TurnOutcome::Again
    }

    /// Returns the present time of the loop's clock.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    /// True if a command is queued.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.local.has_work()
    }

    /// True once a shutdown has begun.
    #[inline]
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.life.has_reached(ExecutorState::ShuttingDown)
    }

    #[inline]
    pub(crate) fn return_admissions(&mut self) {
        if self.unreturned != QueueDepth::NONE {
            self.shared.inbox.release(std::mem::replace(&mut self.unreturned, QueueDepth::NONE));
        }
    }

    fn is_overdue(&self, now: Nanos) -> bool {
        self.shared.life.state() == ExecutorState::ShuttingDown
            && self.shared.plan().is_some_and(|plan| plan.is_overdue(now))
    }

    /// Performs a command. Returns whether it ran a user task. A panic of the task is caught and reported.
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
            Command::Run(_) => unreachable!("tasks are handled above"),
            Command::System(SystemCommand::Due(WheelEntry::Timer(timer))) => {
                self.run_user_code(UserCode::Timer, timer.origin(), || self.fire(timer))
            }
            Command::System(system) => {
                let _begun =
                    self.shared.status.activity.begin(UserCode::Command, self.command_origin);
                guard_drop(|| self.perform(system, extension));
                false
            }
        }
    }

    /// Runs user code that returns whether it did anything. A panic counts as having done something.
    #[inline]
    fn run_user_code(&self, what: UserCode, origin: Origin, code: impl FnOnce() -> bool) -> bool {
        let _begun = self.shared.status.activity.begin(what, origin);
        catch(what, origin, code).unwrap_or(true)
    }

    /// Fires a timer, and schedules it again if it repeats.
    fn fire(&self, timer: TimerRef) -> bool {
        let fired = timer.fire(&|| self.shared.clock.now());
        if let Fired::Again(next) = fired {
            self.local.schedule(next, timer);
        }
        fired != Fired::Cancelled
    }

    /// Performs a command that is not user code.
    fn perform(&self, command: SystemCommand<X>, extension: &mut dyn FnMut(X)) {
        match command {
            SystemCommand::Notify(notify) | SystemCommand::NotifyNested(notify) => notify.notify(),
            SystemCommand::Schedule(deadline, timer) => self.local.schedule(deadline, timer),
            SystemCommand::Due(WheelEntry::Timer(timer)) => {
                self.fire(timer);
            }
            SystemCommand::ClearTimer(timer) => {
                if self.local.record_cancelled_timer(wheel_position_of(&timer)) {
                    self.local.remove_cancelled();
                }
            }
            SystemCommand::Due(WheelEntry::Extension(command)) => extension(command),
            SystemCommand::AddHook(hook) => self.local.hooks.borrow_mut().add(*hook),
            SystemCommand::RemoveHook(id) => {
                let removed = self.local.hooks.borrow_mut().remove(id);
                drop(removed);
            }
            SystemCommand::Wake => {}
            SystemCommand::Extension(command) | SystemCommand::Lasting(command) => {
                extension(command)
            }
        }
    }
}

impl<X: Send + 'static> fmt::Debug for LoopCore<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopCore").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
