//! One turn of the wheel (`docs/LOOP.md`).
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
//! Errors are values in here: a wait that fails skips neither the tasks nor the shutdown check.

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

use crate::driver::WaitSummary;
use crate::event_loop::builder::LoopOptions;
use crate::event_loop::channel_layer::HostedChannels;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::{CurrentLoopGuard, LocalLoop};
use crate::event_loop::turn::select_strategy::{SelectMode, SelectStrategy, StrategyInput};
use crate::event_loop::turn::spin_guard::{BackOff, SpinAction, SpinGuard, WaitOutcome};
use crate::event_loop::turn::task_budget::TaskBudget;
use crate::event_loop::waker::LoopWaker;
use crate::metrics::{Counters, TurnTimes, WakeCause};

/// A time that has come: the driver looks for events and does not block.
const NOW: Option<Nanos> = Some(Nanos(0));

/// While it spins before a sleep, a loop asks its queue this often before it asks the kernel once. A look at the queue
/// pauses for 40 to 140 cycles, as the processor likes, and the kernel takes some 800 to answer: so an event waits about
/// as long for its look as a task may wait for the kernel's answer.
const SPINS_PER_POLL: u32 = 8;

/// An event loop's work. Lives on the loop's thread.
pub(crate) struct LoopRunner {
    local: LocalLoop,
    counters: Arc<Counters>,
    /// True if there is a strategy to ask, a spin before each sleep, or a pause to sleep through. One look answers for
    /// all three.
    waits_specially: bool,
    strategy: Option<Arc<dyn SelectStrategy>>,
    strategy_origin: Origin,
    budget: TaskBudget,
    spin: Option<Duration>,
    spin_guard: SpinGuard,
    back_off: BackOff,
    /// The driver is left alone until then; the loop sleeps on its token meanwhile.
    paused_until: Option<Nanos>,
    pause: TokenPark,
    waker: Arc<LoopWaker>,
    /// The last turn has left nothing to do, and nobody was there since who could have.
    idle: bool,
    /// Between the task phase of a turn and the wait of the next nobody runs but the loop: it has its
    /// thread to itself, and there is no strategy to be asked.
    is_undisturbed: bool,
    /// The thread is this loop's, unless it is driven by hand: then it is entered turn by turn.
    _here: Option<CurrentLoopGuard>,
}

/// How the first phase ended.
enum SelectOutcome {
    /// The driver was not asked: nothing is known of it.
    Skipped,
    /// The driver was asked for events, and did not block.
    Polled,
    /// The driver was to block, and did not fail.
    Blocked { woken: bool },
    /// The driver could not wait.
    Failed(io::Error),
}

impl SelectOutcome {
    fn polled(waited: io::Result<WaitSummary>) -> Self {
        waited.map_or_else(SelectOutcome::Failed, |_| SelectOutcome::Polled)
    }

    #[inline]
    fn slept(waited: io::Result<WaitSummary>) -> Self {
        match waited {
            Ok(WaitSummary { woken, .. }) => SelectOutcome::Blocked { woken },
            Err(error) => SelectOutcome::Failed(error),
        }
    }
}

/// What the task phase did.
struct TaskPhaseOutcome {
    tasks: usize,
    polled: u64,
    at: Nanos,
}

impl LoopRunner {
    pub(crate) fn new(
        local: LocalLoop,
        options: &LoopOptions,
        (pause, waker): (TokenPark, Arc<LoopWaker>),
        here: Option<CurrentLoopGuard>,
    ) -> Self {
        let counters = local.counters().clone();
        counters.begin(local.now());
        let spin = Some(options.spin).filter(|spin| !spin.is_zero());
        Self {
            counters,
            waits_specially: spin.is_some() || options.strategy.is_some(),
            strategy: options.strategy.clone(),
            strategy_origin: Origin::labelled("select strategy"),
            budget: options.budget,
            spin,
            spin_guard: SpinGuard::new(options.rebuild_after),
            back_off: BackOff::default(),
            paused_until: None,
            pause,
            waker,
            idle: false,
            is_undisturbed: here.is_some() && options.strategy.is_none(),
            local,
            _here: here,
        }
    }

    /// Phase 1: waits for something to do, or looks whether there is.
    #[inline]
    fn select(&mut self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        if self.waits_specially { self.select_specially(core) } else { self.wait(core) }
    }

    #[inline(never)]
    fn select_specially(&mut self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        if let Some(until) = self.paused_until {
            return self.sleep_through(until, core);
        }
        let strategy = self.strategy.as_deref().map_or(SelectMode::Wait, |it| self.ask(it, core));
        match strategy {
            SelectMode::Continue => {
                core.skip_wait();
                SelectOutcome::Skipped
            }
            SelectMode::BusyWait => self.look(core),
            SelectMode::Wait => match self.spin.and_then(|spin| self.spin_for_work(spin, core)) {
                Some(found) => {
                    core.skip_wait();
                    SelectOutcome::polled(found)
                }
                None => self.wait(core),
            },
        }
    }

    fn ask(&self, strategy: &dyn SelectStrategy, core: &LoopCore<LoopCommand>) -> SelectMode {
        let outlook = StrategyInput {
            has_tasks: core.has_work() || self.local.has_work(),
            registrations: self.local.registrations(),
        };
        let choose = || strategy.choose(&outlook);
        let chosen =
            self.local.sender().run_user_code(UserCode::Strategy, self.strategy_origin, choose);
        chosen.unwrap_or(SelectMode::Wait)
    }

    /// Blocks in the driver if there is nothing to do, and only then.
    #[inline(always)]
    fn wait(&self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        // What is on the loop's own lists only its own thread puts there: it is not looked for again once the sleep
        // is announced.
        if !self.idle && (core.has_work() || self.local.has_work()) {
            return self.look(core);
        }
        let until = core.next_deadline().min(self.local.wait_limit());
        match core.sleep_idle(until, |until| self.local.wait(until)) {
            Some(waited) => SelectOutcome::slept(waited),
            None => SelectOutcome::polled(self.local.wait(NOW)),
        }
    }

    /// Looks for events and does not block.
    fn look(&self, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        core.skip_wait();
        SelectOutcome::polled(self.local.wait(NOW))
    }

    /// Looks for work for a while: `None` if there is none.
    fn spin_for_work(
        &self,
        spin: Duration,
        core: &LoopCore<LoopCommand>,
    ) -> Option<io::Result<WaitSummary>> {
        let end = core.now().plus(spin).min(core.next_deadline()).min(self.local.wait_limit());
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

    /// Sleeps on the token while the driver is left alone. Tasks, timers and a shutdown end it.
    #[cold]
    fn sleep_through(&mut self, until: Nanos, core: &mut LoopCore<LoopCommand>) -> SelectOutcome {
        let limit = self.local.wait_limit().min(until);
        self.waker.set_paused(true);
        let local = &self.local;
        core.wait_until(Some(limit), || local.has_work(), &mut self.pause);
        self.waker.set_paused(false);
        if core.now() >= until {
            self.paused_until = None;
            self.waits_specially = self.spin.is_some() || self.strategy.is_some();
        }
        SelectOutcome::Skipped
    }

    /// Phase 2: hands out the events of this round; returns how many.
    #[inline]
    fn process_ready(&self) -> u64 {
        if self.paused_until.is_some() { 0 } else { self.local.dispatch_events() }
    }

    /// Phase 3: what events have left behind, tasks and timers as long as the budget lasts, then futures, then tail
    /// tasks. Mostly there is nothing of all that, and two looks say so.
    #[inline]
    fn run_tasks(
        &mut self,
        core: &mut LoopCore<LoopCommand>,
        waited: Nanos,
        (events, io_done): (u64, Nanos),
    ) -> TaskPhaseOutcome {
        if !core.has_tasks_at(io_done) && !self.local.has_work() {
            core.skip_tasks();
            self.idle = self.is_undisturbed;
            return TaskPhaseOutcome { tasks: 0, polled: 0, at: io_done };
        }
        self.run_what_there_is(core, waited, (events, io_done))
    }

    #[inline(never)]
    fn run_what_there_is(
        &mut self,
        core: &mut LoopCore<LoopCommand>,
        waited: Nanos,
        (events, io_done): (u64, Nanos),
    ) -> TaskPhaseOutcome {
        self.idle = false;
        let io = (events > 0).then(|| io_done.since(waited));
        let local = &self.local;
        local.finish_ended();
        local.settle_channels();
        local.hosted_channels().begin_turn();
        let on_command = &mut |command: LoopCommand| command.perform(local);
        let tasks = core.run_tasks_at(io_done, self.budget.pass(io), on_command);
        let polled = local.poll_futures();
        local.run_tail();
        local.finish_ended();
        local.settle_channels();
        core.count_timers();
        if local.take_rebuild_request() {
            local.rebuild("asked for");
        }
        TaskPhaseOutcome { tasks, polled, at: core.now() }
    }

    /// Returns what ended the wait, if no event did.
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

    /// Phase 4: a driver that returns early for nothing, or cannot wait at all, gets a new selector,
    /// and is left alone for longer and longer until it behaves.
    #[inline(never)]
    fn check_spin(&mut self, selected: &SelectOutcome, cause: WakeCause, ran: &TaskPhaseOutcome) {
        let outcome = match selected {
            SelectOutcome::Failed(error) => {
                report(Fault::Driver(format!("the wait failed: {error}")));
                return self.rebuild_and_pause("the wait failed", ran.at);
            }
            // In a pause, say: that it ends does not mean that the driver has recovered.
            SelectOutcome::Skipped => return,
            _ if cause == WakeCause::Premature && ran.tasks == 0 && ran.polled == 0 => {
                WaitOutcome::Premature
            }
            _ => WaitOutcome::Useful,
        };
        match self.spin_guard.after(outcome) {
            SpinAction::None if outcome == WaitOutcome::Useful => self.back_off.succeed(),
            SpinAction::None => {}
            SpinAction::CountSeries => self.counters.premature_series(),
            SpinAction::Rebuild => self.rebuild_and_pause("the selector spins", ran.at),
        }
    }

    #[cold]
    fn rebuild_and_pause(&mut self, reason: &str, now: Nanos) {
        self.idle = false;
        self.local.rebuild(reason);
        self.paused_until = Some(now.plus(self.back_off.fail()));
        self.waits_specially = true;
    }

    /// Phase 5: a drain that is over becomes a shutdown, which first lets go of everything that is
    /// registered.
    #[inline]
    fn check_shutdown(&mut self, core: &mut LoopCore<LoopCommand>) -> TurnOutcome {
        if !core.is_shutting_down() && !self.local.drain().is_on() {
            return TurnOutcome::Again;
        }
        self.go_on_ending(core)
    }

    #[inline(never)]
    fn go_on_ending(&mut self, core: &mut LoopCore<LoopCommand>) -> TurnOutcome {
        self.idle = false;
        self.local.check_drain();
        if !core.is_shutting_down() {
            return TurnOutcome::Again;
        }
        self.local.begin_closing();
        self.local.finish_ended();
        self.local.settle_channels();
        core.check_shutdown_with(self.local.is_populated())
    }
}

impl LoopWork<LoopCommand> for LoopRunner {
    fn turn(&mut self, core: &mut LoopCore<LoopCommand>) -> TurnOutcome {
        let selected = self.select(core);
        let waited = core.now();
        let events = self.process_ready();
        let (io_done, cause) = match (&selected, events) {
            (_, 0) => (waited, self.cause_without_events(core, &selected, waited)),
            (SelectOutcome::Blocked { .. }, _) => (core.now(), WakeCause::Io),
            (SelectOutcome::Failed(_), _) => (core.now(), WakeCause::Failed),
            _ => (core.now(), WakeCause::None),
        };
        let ran = self.run_tasks(core, waited, (events, io_done));
        if cause != WakeCause::Io || !self.spin_guard.is_calm() || !self.back_off.is_calm() {
            self.check_spin(&selected, cause, &ran);
        }
        self.counters.turn(cause, TurnTimes { waited, io_done, tasks_done: ran.at }, events);
        self.check_shutdown(core)
    }

    fn on_command(&mut self, command: LoopCommand) {
        command.perform(&self.local);
    }

    fn on_panic(&mut self, payload: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        self.idle = false; // Something may be left to do.
        self.local.survive(payload)
    }

    fn on_death(&mut self, cause: &Error) {
        self.local.die(cause.clone());
    }
}

impl Drop for LoopRunner {
    fn drop(&mut self) {
        self.local.close();
    }
}
