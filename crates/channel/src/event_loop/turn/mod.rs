//! One turn of an event loop (`docs/LOOP.md`).
//!
//! ```text
//!        ┌───────────────────────────────── one turn ──────────────────────────────────┐
//!        │  select            process_ready   run_tasks        check_spin   check_shutdown
//!   ────►│  strategy:         events, each    tasks, timers,   premature?   close all,  │──► Again ─┐
//!        │  wait, poll,       to its          futures, tail    failed?      hooks,      │           │
//!        │  or neither        registration    tasks            → rebuild    quiet?      │           │
//!        └─────────────────────────────────────────────────────────────────────────────┘◄──────────┘
//!                                                                          └──► Done ──► teardown
//! ```
//!
//! Errors are values here: a failed wait skips neither the tasks nor the shutdown check.

pub(crate) mod select_strategy;
pub(crate) mod spin_guard;
pub(crate) mod task_budget;

use std::any::Any;
use std::hint::spin_loop;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_executor::engine::{LoopCore, LoopWork, TurnOutcome, report};
use waterwheel_executor::{Error, Fault, Nanos, Origin, TokenPark, UserCode};

use crate::base::metrics::{LoopCounters, TurnTimes, WakeCause};
use crate::driver::WaitSummary;
use crate::event_loop::builder::LoopOptions;
use crate::event_loop::channel_layer::HostedChannels;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::{CurrentLoopGuard, LocalLoop};
use crate::event_loop::turn::select_strategy::{SelectMode, SelectStrategy, StrategyInput};
use crate::event_loop::turn::spin_guard::{DriverBackOff, SpinAction, SpinGuard, WaitOutcome};
use crate::event_loop::turn::task_budget::TaskBudget;
use crate::event_loop::waker::LoopWaker;

/// A deadline in the past: the driver polls for events and does not block.
const NOW: Option<Nanos> = Some(Nanos(0));

/// While it spins before a sleep, a loop checks its queue this many times for each poll of the kernel. A check of the
/// queue pauses for 40 to 140 cycles, depending on the processor, and a poll takes about 800 cycles: so an event
/// waits about as long for its poll as a task may wait for the poll to return.
const SPINS_PER_POLL: u32 = 8;

/// Runs the turns of an event loop. Lives on the loop's thread.
pub(crate) struct LoopRunner {
    local: LocalLoop,
    counters: Arc<LoopCounters>,
    /// True if the loop asks a strategy, spins before each sleep, or has paused its driver. One branch per turn
    /// covers all three cases.
    has_special_wait: bool,
    strategy: Option<Arc<dyn SelectStrategy>>,
    strategy_origin: Origin,
    budget: TaskBudget,
    spin_time: Option<Duration>,
    spin_guard: SpinGuard,
    back_off: DriverBackOff,
    /// The driver is paused until this time; the loop sleeps on its park token meanwhile.
    paused_until: Option<Nanos>,
    pause_park: TokenPark,
    waker: Arc<LoopWaker>,
    /// True if the last turn left nothing to do and no other code has run on this thread since.
    is_idle: bool,
    /// True if only the loop runs between the task phase of a turn and the wait of the next: it has a thread of its
    /// own, and there is no strategy to ask.
    is_undisturbed: bool,
    /// Makes this the current loop of its thread. `None` for a manual loop, which is made current turn by turn.
    _current_guard: Option<CurrentLoopGuard>,
}

/// How the first phase ended.
enum SelectOutcome {
    /// The driver was not called, so nothing is known about it.
    Skipped,
    /// The driver was polled for events and did not block.
    Polled,
    /// The driver was called to block, and did not fail.
    Blocked { woken: bool },
    /// The wait failed.
    Failed(io::Error),
}

impl SelectOutcome {
    fn from_poll(waited: io::Result<WaitSummary>) -> Self {
        waited.map_or_else(SelectOutcome::Failed, |_| SelectOutcome::Polled)
    }

    #[inline]
    fn from_wait(waited: io::Result<WaitSummary>) -> Self {
        match waited {
            Ok(WaitSummary { woken, .. }) => SelectOutcome::Blocked { woken },
            Err(error) => SelectOutcome::Failed(error),
        }
    }
}

/// The work that the task phase did, and when it ended.
struct TaskPhaseOutcome {
    tasks: usize,
    polled: u64,
    ended_at: Nanos,
}

impl LoopRunner {
    pub(crate) fn new(
        local: LocalLoop,
        options: &LoopOptions,
        (pause_park, waker): (TokenPark, Arc<LoopWaker>),
        here: Option<CurrentLoopGuard>,
    ) -> Self {
        let counters = local.counters().clone();
        counters.set_start(local.now());
        let spin_time = Some(options.spin).filter(|spin_time| !spin_time.is_zero());
        Self {
            counters,
            has_special_wait: spin_time.is_some() || options.strategy.is_some(),
            strategy: options.strategy.clone(),
            strategy_origin: Origin::labelled("select strategy"),
            budget: options.budget,
            spin_time,
            spin_guard: SpinGuard::new(options.rebuild_after),
            back_off: DriverBackOff::default(),
            paused_until: None,
            pause_park,
            waker,
            is_idle: false,
            is_undisturbed: here.is_some() && options.strategy.is_none(),
            local,
            _current_guard: here,
        }
    }

    /// Phase 1: waits for work, or polls for it.
    #[inline]
    fn select(&mut self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        if self.has_special_wait { self.select_special(core) } else { self.wait(core) }
    }

    #[inline(never)]
    fn select_special(&mut self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        if let Some(until) = self.paused_until {
            return self.sleep_through_pause(until, core);
        }
        let strategy =
            self.strategy.as_deref().map_or(SelectMode::Wait, |it| self.ask_strategy(it, core));
        match strategy {
            SelectMode::Continue => {
                core.skip_wait();
                SelectOutcome::Skipped
            }
            SelectMode::BusyWait => self.poll_driver(core),
            SelectMode::Wait => {
                match self.spin_time.and_then(|spin_time| self.spin_for_work(spin_time, core)) {
                    Some(found) => {
                        core.skip_wait();
                        SelectOutcome::from_poll(found)
                    }
                    None => self.wait(core),
                }
            }
        }
    }

    fn ask_strategy(
        &self,
        strategy: &dyn SelectStrategy,
        core: &LoopCore<LoopCommand>,
    ) -> SelectMode {
        let outlook = StrategyInput {
            has_tasks: core.has_work() || self.local.has_work(),
            registrations: self.local.registration_count(),
        };
        let choose = || strategy.choose(&outlook);
        let chosen =
            self.local.sender().run_user_code(UserCode::Strategy, self.strategy_origin, choose);
        chosen.unwrap_or(SelectMode::Wait)
    }

    /// Blocks in the driver if there is nothing to do; otherwise polls it.
    #[inline(always)]
    fn wait(&self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        // Only this thread adds to the loop's own lists: they need no second check after the sleep is announced.
        if !self.is_idle && (core.has_work() || self.local.has_work()) {
            return self.poll_driver(core);
        }
        let until = core.next_deadline().min(self.local.wait_limit());
        match core.sleep_idle(until, |until| self.local.wait(until)) {
            Some(waited) => SelectOutcome::from_wait(waited),
            None => SelectOutcome::from_poll(self.local.wait(NOW)),
        }
    }

    /// Polls the driver for events and does not block.
    fn poll_driver(&self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        core.skip_wait();
        SelectOutcome::from_poll(self.local.wait(NOW))
    }

    /// Polls for work during the spin time. Returns `None` if no work arrived.
    fn spin_for_work(
        &self,
        spin_time: Duration,
        core: &LoopCore<LoopCommand>,
    ) -> Option<io::Result<WaitSummary>> {
        let end = core.now().plus(spin_time).min(core.next_deadline()).min(self.local.wait_limit());
        loop {
            for _ in 0..SPINS_PER_POLL {
                if core.has_work() || self.local.has_work() {
                    return Some(self.local.wait(NOW));
                }
                spin_loop();
            }
            match self.local.wait(NOW) {
                Ok(WaitSummary { ready: 0, woken: false }) => {}
                found => return Some(found),
            }
            if core.now() >= end {
                return None;
            }
        }
    }

    /// Sleeps on the park token while the driver is paused. Tasks, timers and a shutdown end the sleep.
    #[cold]
    fn sleep_through_pause(
        &mut self,
        until: Nanos,
        core: &mut LoopCore<LoopCommand>,
    ) -> SelectOutcome {
        let limit = self.local.wait_limit().min(until);
        self.waker.set_paused(true);
        let local = &self.local;
        core.wait_until(Some(limit), || local.has_work(), &mut self.pause_park);
        self.waker.set_paused(false);
        if core.now() >= until {
            self.paused_until = None;
            self.has_special_wait = self.spin_time.is_some() || self.strategy.is_some();
        }
        SelectOutcome::Skipped
    }

    /// Phase 2: dispatches the events of this round; returns their number.
    #[inline]
    fn process_ready(&self) -> u64 {
        if self.paused_until.is_some() { 0 } else { self.local.dispatch_events() }
    }

    /// Phase 3: work that events have deferred, tasks and timers within the budget, then futures, then tail tasks.
    /// Two checks cover the usual case, a turn without any of these.
    #[inline]
    fn run_tasks(
        &mut self,
        core: &mut LoopCore<LoopCommand>,
        waited: Nanos,
        (events, io_done): (u64, Nanos),
    ) -> TaskPhaseOutcome {
        if !core.has_tasks_at(io_done) && !self.local.has_work() {
            core.skip_tasks();
            self.is_idle = self.is_undisturbed;
            return TaskPhaseOutcome { tasks: 0, polled: 0, ended_at: io_done };
        }
        self.run_pending_work(core, waited, (events, io_done))
    }

    #[inline(never)]
    fn run_pending_work(
        &mut self,
        core: &mut LoopCore<LoopCommand>,
        waited: Nanos,
        (events, io_done): (u64, Nanos),
    ) -> TaskPhaseOutcome {
        self.is_idle = false;
        let io = (events > 0).then(|| io_done.since(waited));
        let local = &self.local;
        local.notify_ended_registrations();
        local.run_deferred_channel_work();
        local.hosted_channels().begin_task_phase();
        let on_command = &mut |command: LoopCommand| command.perform(local);
        let tasks = core.run_tasks_at(io_done, self.budget.pass_limit(io), on_command);
        let polled = local.poll_futures();
        local.run_tail_tasks();
        local.notify_ended_registrations();
        local.run_deferred_channel_work();
        core.count_timers();
        if local.take_rebuild_request() {
            local.rebuild("rebuild requested");
        }
        TaskPhaseOutcome { tasks, polled, ended_at: core.now() }
    }

    /// Returns the cause that ended the wait of a turn without events.
    #[inline(never)]
    fn cause_without_events(
        &self,
        core: &LoopCore<LoopCommand>,
        selected: &SelectOutcome,
        waited: Nanos,
    ) -> WakeCause {
        match selected {
            SelectOutcome::Failed(_) => WakeCause::Failed,
            SelectOutcome::Skipped | SelectOutcome::Polled => WakeCause::None,
            SelectOutcome::Blocked { woken: true } => WakeCause::Task,
            _ if waited >= core.next_deadline() => WakeCause::Timer,
            _ if waited >= self.local.wait_limit() => WakeCause::None,
            _ => WakeCause::Premature,
        }
    }

    /// Phase 4: a driver whose waits fail, or return early with nothing to do, gets a new selector and is paused,
    /// with a back-off that doubles until a wait is useful.
    #[inline(never)]
    fn check_spin(&mut self, selected: &SelectOutcome, cause: WakeCause, ran: &TaskPhaseOutcome) {
        let outcome = match selected {
            SelectOutcome::Failed(error) => {
                report(Fault::Driver(format!("the wait failed: {error}")));
                return self.rebuild_and_pause("the wait failed", ran.ended_at);
            }
            // The end of a pause, for instance, does not show that the driver has recovered.
            SelectOutcome::Skipped => return,
            _ if cause == WakeCause::Premature && ran.tasks == 0 && ran.polled == 0 => {
                WaitOutcome::Premature
            }
            _ => WaitOutcome::Useful,
        };
        match self.spin_guard.record(outcome) {
            SpinAction::None if outcome == WaitOutcome::Useful => self.back_off.record_success(),
            SpinAction::None => {}
            SpinAction::CountSeries => self.counters.add_premature_series(),
            SpinAction::Rebuild => self.rebuild_and_pause("the selector spins", ran.ended_at),
        }
    }

    #[cold]
    fn rebuild_and_pause(&mut self, reason: &str, now: Nanos) {
        self.is_idle = false;
        self.local.rebuild(reason);
        self.paused_until = Some(now.plus(self.back_off.record_failure()));
        self.has_special_wait = true;
    }

    /// Phase 5: begins the shutdown of a loop that has drained, and continues a shutdown, which first detaches all
    /// registrations.
    #[inline]
    fn check_shutdown(&mut self, core: &mut LoopCore<LoopCommand>) -> TurnOutcome {
        if !core.is_shutting_down() && !self.local.current_drain().is_active() {
            return TurnOutcome::Again;
        }
        self.continue_shutdown(core)
    }

    #[inline(never)]
    fn continue_shutdown(&mut self, core: &mut LoopCore<LoopCommand>) -> TurnOutcome {
        self.is_idle = false;
        self.local.check_drain();
        if !core.is_shutting_down() {
            return TurnOutcome::Again;
        }
        self.local.begin_closing();
        self.local.notify_ended_registrations();
        self.local.run_deferred_channel_work();
        core.check_shutdown_with(self.local.has_registrations_or_channels())
    }
}

impl LoopWork<LoopCommand> for LoopRunner {
    fn turn(&mut self, core: &mut LoopCore<LoopCommand>) -> TurnOutcome {
        let selected = self.select(core);
        let waited = core.now();
        self.local.begin_turn(waited);
        let events = self.process_ready();
        let (io_done, cause) = match (&selected, events) {
            (_, 0) => (waited, self.cause_without_events(core, &selected, waited)),
            (SelectOutcome::Blocked { .. }, _) => (core.now(), WakeCause::Io),
            (SelectOutcome::Failed(_), _) => (core.now(), WakeCause::Failed),
            _ => (core.now(), WakeCause::None),
        };
        let ran = self.run_tasks(core, waited, (events, io_done));
        if cause != WakeCause::Io
            || self.spin_guard.has_early_returns()
            || self.back_off.has_failures()
        {
            self.check_spin(&selected, cause, &ran);
        }
        self.counters.record_turn(
            cause,
            TurnTimes { waited, io_done, tasks_done: ran.ended_at },
            events,
        );
        self.check_shutdown(core)
    }

    fn on_command(&mut self, command: LoopCommand) {
        command.perform(&self.local);
    }

    fn on_panic(&mut self, payload: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        self.is_idle = false; // The panic may have left work.
        self.local.recover_from_panic(payload)
    }

    fn on_death(&mut self, cause: &Error) {
        self.local.set_death_cause(cause.clone());
    }
}

impl Drop for LoopRunner {
    fn drop(&mut self) {
        self.local.close();
    }
}
