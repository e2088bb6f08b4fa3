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

use std::any::Any;
use std::hint::spin_loop;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_executor::engine::{LoopCore, Turn, Work, report};
use waterwheel_executor::{Error, Fault, Nanos, Origin, Park, TokenPark, UserCode};

use crate::driver::Waited;
use crate::event_loop::budget::TaskBudget;
use crate::event_loop::builder::LoopOptions;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::{Here, LocalLoop};
use crate::event_loop::spin_guard::{BackOff, SpinGuard, Verdict, WaitOutcome};
use crate::event_loop::strategy::{Outlook, SelectStrategy, Strategy};
use crate::event_loop::waker::LoopWaker;
use crate::metrics::{Cause, Counters, TurnTimes};

/// A time that has come: the driver looks for events and does not block.
const NOW: Option<Nanos> = Some(Nanos(0));

/// While it spins before a sleep, a loop asks its queue this often before it asks the kernel once.
const SPINS_PER_POLL: u32 = 64;

/// An event loop's work. Lives on the loop's thread.
pub(crate) struct Wheel {
    local: LocalLoop,
    counters: Arc<Counters>,
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
    _here: Option<Here>,
}

/// How the first phase ended.
#[derive(Default)]
struct Selected {
    /// The driver was asked. If not, nothing is known of it.
    asked: bool,
    /// It was meant to block.
    slept: bool,
    /// Its waker has ended that.
    woken: bool,
    /// It could not wait.
    error: Option<io::Error>,
    /// It was to sleep until a timer, or the end of a quiet period ...
    deadline: Nanos,
    /// ... and as long as the one who drives the loop by hand has said.
    limit: Nanos,
    at: Nanos,
}

/// What the task phase did.
struct Ran {
    tasks: usize,
    polled: u64,
    at: Nanos,
}

impl Wheel {
    pub(crate) fn new(
        local: LocalLoop,
        options: &LoopOptions,
        (pause, waker): (TokenPark, Arc<LoopWaker>),
        here: Option<Here>,
    ) -> Self {
        let counters = local.counters().clone();
        counters.begin(local.now());
        Self {
            counters,
            strategy: options.strategy.clone(),
            strategy_origin: Origin::labelled("select strategy"),
            budget: options.budget,
            spin: Some(options.spin).filter(|spin| !spin.is_zero()),
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
    fn select(&mut self, core: &mut LoopCore<LoopCommand>, selected: &mut Selected) {
        if let Some(until) = self.paused_until {
            return self.sleep_through(until, core, selected);
        }
        let strategy = self.strategy.as_deref().map_or(Strategy::Wait, |it| self.ask(it, core));
        match strategy {
            Strategy::Continue => core.skip_wait(),
            Strategy::BusyWait => self.look(core, selected),
            Strategy::Wait => self.wait(core, selected),
        }
        selected.at = core.now();
    }

    fn ask(&self, strategy: &dyn SelectStrategy, core: &LoopCore<LoopCommand>) -> Strategy {
        let outlook = Outlook {
            has_tasks: core.has_work() || self.local.has_work(),
            registrations: self.local.registrations(),
        };
        let choose = || strategy.choose(&outlook);
        let chosen =
            self.local.sender().run_user_code(UserCode::Strategy, self.strategy_origin, choose);
        chosen.unwrap_or(Strategy::Wait)
    }

    /// Blocks in the driver if there is nothing to do, and only then.
    #[inline]
    fn wait(&mut self, core: &mut LoopCore<LoopCommand>, selected: &mut Selected) {
        if let Some(spin) = self.spin
            && let Some(found) = self.spin_for_work(spin, core)
        {
            core.skip_wait();
            (selected.asked, selected.error) = (true, found.err());
            return;
        }
        if !self.idle && self.local.has_work() {
            return self.look(core, selected);
        }
        (selected.deadline, selected.limit) = (core.next_deadline(), self.local.wait_limit());
        let until = selected.deadline.min(selected.limit);
        // What the loop has to do besides is its own thread's affair: it need not be asked again.
        let mut park = DriverPark { local: &self.local, selected };
        let slept = match self.idle {
            true => core.sleep_idle(until, || false, &mut park),
            false => core.sleep_until(until, || false, &mut park),
        };
        if !slept {
            (selected.asked, selected.error) = (true, self.local.wait(NOW).err());
        }
    }

    /// Looks for events and does not block.
    fn look(&self, core: &mut LoopCore<LoopCommand>, selected: &mut Selected) {
        core.skip_wait();
        (selected.asked, selected.error) = (true, self.local.wait(NOW).err());
    }

    /// Looks for work for a while: `None` if there is none.
    fn spin_for_work(
        &self,
        spin: Duration,
        core: &LoopCore<LoopCommand>,
    ) -> Option<io::Result<Waited>> {
        let end = core.now().plus(spin).min(core.next_deadline()).min(self.local.wait_limit());
        loop {
            for _ in 0..SPINS_PER_POLL {
                if core.has_work() || self.local.has_work() {
                    return Some(self.local.wait(NOW));
                }
                spin_loop();
            }
            match self.local.wait(NOW) {
                Ok(Waited { ready: 0, woken: false }) => {}
                found => return Some(found),
            }
            if core.now() >= end {
                return None;
            }
        }
    }

    /// Sleeps on the token while the driver is left alone. Tasks, timers and a shutdown end it.
    #[cold]
    fn sleep_through(
        &mut self,
        until: Nanos,
        core: &mut LoopCore<LoopCommand>,
        selected: &mut Selected,
    ) {
        let limit = self.local.wait_limit().min(until);
        self.waker.set_paused(true);
        let local = &self.local;
        core.wait_until(Some(limit), || local.has_work(), &mut self.pause);
        self.waker.set_paused(false);
        selected.at = core.now();
        if selected.at >= until {
            self.paused_until = None;
        }
    }

    /// Phase 2: hands out the events of this round; how many, and when that was done.
    fn process_ready(&self, selected: &Selected) -> (u64, Nanos) {
        if self.paused_until.is_some() {
            return (0, selected.at);
        }
        let events = self.local.dispatch_events();
        self.local.finish_ended();
        self.local.settle_channels();
        (events, if events > 0 { self.local.now() } else { selected.at })
    }

    /// Phase 3: tasks and timers as long as the budget lasts, then futures, then tail tasks.
    #[inline]
    fn run_tasks(
        &mut self,
        core: &mut LoopCore<LoopCommand>,
        selected: &Selected,
        (events, io_done): (u64, Nanos),
    ) -> Ran {
        if !core.has_tasks_at(io_done) && !self.local.has_work() {
            core.skip_tasks();
            self.idle = self.is_undisturbed;
            return Ran { tasks: 0, polled: 0, at: io_done };
        }
        self.run_what_there_is(core, selected, (events, io_done))
    }

    fn run_what_there_is(
        &mut self,
        core: &mut LoopCore<LoopCommand>,
        selected: &Selected,
        (events, io_done): (u64, Nanos),
    ) -> Ran {
        self.idle = false;
        let io = (events > 0).then(|| io_done.since(selected.at));
        let local = &self.local;
        local.channels().begin_turn();
        let on_command = &mut |command: LoopCommand| command.perform(local);
        let tasks = core.run_tasks_at(io_done, self.budget.pass(io), on_command);
        let polled = local.poll_futures();
        local.run_tail();
        local.finish_ended();
        local.settle_channels();
        core.count_timers();
        Ran { tasks, polled, at: core.now() }
    }

    /// Phase 4: a driver that returns early for nothing, or cannot wait at all, gets a new selector,
    /// and is left alone for longer and longer until it behaves.
    fn check_spin(&mut self, selected: &Selected, events: u64, ran: &Ran) -> Cause {
        let cause = cause(selected, events);
        if self.local.take_rebuild_request() && cause != Cause::Failed {
            self.local.rebuild("asked for");
        }
        let outcome = match cause {
            Cause::Failed => {
                if let Some(error) = &selected.error {
                    report(Fault::Driver(format!("the wait failed: {error}")));
                }
                self.rebuild_and_pause("the wait failed", ran.at);
                return cause;
            }
            Cause::Premature if ran.tasks == 0 && ran.polled == 0 => WaitOutcome::Premature,
            // In a pause, say: that it ends does not mean that the driver has recovered.
            _ if !selected.asked => return cause,
            _ => WaitOutcome::Useful,
        };
        match self.spin_guard.after(outcome) {
            Verdict::Fine if outcome == WaitOutcome::Useful => self.back_off.succeed(),
            Verdict::Fine => {}
            Verdict::Odd => self.counters.premature_series(),
            Verdict::Rebuild => self.rebuild_and_pause("the selector spins", ran.at),
        }
        cause
    }

    #[cold]
    fn rebuild_and_pause(&mut self, reason: &str, now: Nanos) {
        self.idle = false;
        self.local.rebuild(reason);
        self.paused_until = Some(now.plus(self.back_off.fail()));
    }

    /// Phase 5: a drain that is over becomes a shutdown, which first lets go of everything that is
    /// registered.
    #[inline]
    fn check_shutdown(&mut self, core: &mut LoopCore<LoopCommand>) -> Turn {
        if !core.is_shutting_down() && !self.local.drain().is_on() {
            return Turn::Again;
        }
        self.go_on_ending(core)
    }

    #[inline(never)]
    fn go_on_ending(&mut self, core: &mut LoopCore<LoopCommand>) -> Turn {
        self.idle = false;
        self.local.check_drain();
        if !core.is_shutting_down() {
            return Turn::Again;
        }
        self.local.begin_closing();
        self.local.finish_ended();
        self.local.settle_channels();
        core.check_shutdown_with(self.local.is_populated())
    }
}

/// What ended the wait.
fn cause(selected: &Selected, events: u64) -> Cause {
    match selected {
        Selected { error: Some(_), .. } => Cause::Failed,
        Selected { slept: false, .. } => Cause::None,
        // What is ready and says nothing, a hang-up that nobody asked about, is no event.
        _ if events > 0 => Cause::Io,
        Selected { woken: true, .. } => Cause::Task,
        Selected { at, deadline, .. } if at >= deadline => Cause::Timer,
        Selected { at, limit, .. } if at >= limit => Cause::None,
        _ => Cause::Premature,
    }
}

impl Work<LoopCommand> for Wheel {
    fn turn(&mut self, core: &mut LoopCore<LoopCommand>) -> Turn {
        let mut selected = Selected::default();
        self.select(core, &mut selected);
        let (events, io_done) = self.process_ready(&selected);
        let ran = self.run_tasks(core, &selected, (events, io_done));
        let cause = self.check_spin(&selected, events, &ran);
        let times = TurnTimes { waited: selected.at, io_done, tasks_done: ran.at };
        self.counters.turn(cause, times, events);
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

impl Drop for Wheel {
    fn drop(&mut self) {
        self.local.close();
    }
}

/// Parks in the driver, and keeps what it said.
struct DriverPark<'a> {
    local: &'a LocalLoop,
    selected: &'a mut Selected,
}

impl Park for DriverPark<'_> {
    #[inline]
    fn park(&mut self, until: Option<Nanos>) {
        (self.selected.asked, self.selected.slept) = (true, true);
        match self.local.wait(until) {
            Ok(waited) => self.selected.woken = waited.woken,
            Err(error) => self.selected.error = Some(error),
        }
    }
}
