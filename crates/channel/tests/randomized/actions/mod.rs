//! C05: user code performs random actions on any channel at any moment, and nothing is lost.
//!
//! A run is determined by its seed: a few pairs of connected channels on a manually driven loop. Their handlers,
//! the destructors and size hints of their messages, encoders, completions, listeners, timers, futures and kept
//! contexts perform a random action whenever they run: edit pipelines, write, encode, hold writes back, flush, pause
//! reads, close, deregister and register, fire events, fail, panic. Then the actions stop, everything is closed, and the invariants are checked:
//!
//! 1. every panic was planned;
//! 2. every channel is closed, has no pending bytes and is deregistered, and the loop is idle;
//! 3. every future is done, and every completion was completed;
//! 4. every handler and message was dropped.
//!
//! `pipeline_model` is the counterpart: it knows the order in which events must arrive, and therefore has
//! fewer actions. A failure names its seed; `run` with that seed alone repeats it.

mod actors;
mod checks;
mod random_actions;
mod shared_state;

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{ChannelFuture, EventLoopGroup, ManualEventLoop};
use waterwheel_executor::{Clock, EventExecutor, ManualExecutor};
use waterwheel_testkit::manual::Manual;

use self::checks::{Violations, check_all_is_over, check_nothing_is_left};
use self::random_actions::{act_with_handle, new_pair};
use self::shared_state::{PLANNED_PANIC, RunState};

/// The seeds of each test: about five seconds in a debug build.
const SEEDS: Range<u64> = 0..80;

/// Number of turns in which a run acts; the test itself acts every third turn.
const TURNS: usize = 400;

/// Maximum number of turns until everything is closed at the end of a run.
const MAX_TURNS: usize = 3_000;

/// Virtual time of a turn: timers are up to half a millisecond ahead.
const TURN: Duration = Duration::from_micros(50);

#[test]
fn c05_random_actions_lose_nothing_and_complete_nothing_twice() {
    SEEDS.for_each(|seed| run(seed, RunOptions { panics: false, offloads: false }));
}

#[test]
fn c05_rule_11_random_panics_leave_nothing_behind() {
    SEEDS.for_each(|seed| run(seed, RunOptions { panics: true, offloads: false }));
}

#[test]
fn c05_random_actions_with_offloaded_handlers_lose_nothing_and_complete_nothing_twice() {
    SEEDS.for_each(|seed| run(seed, RunOptions { panics: false, offloads: true }));
}

/// Options of a run besides the random actions.
#[derive(Clone, Copy, Debug)]
struct RunOptions {
    panics: bool,
    offloads: bool,
}

fn run(seed: u64, options: RunOptions) {
    let violations = Arc::new(Violations::default());
    let mut stage = ManualRun::new(&violations);
    let workers = options.offloads.then(|| stage.workers.executor().clone());
    let made = stage.event_loop.on_loop(|here| RunState::new(seed, here, workers, options.panics));
    let run_state = made.expect("the loop has not ended");
    let entered = run_state.enter();

    stage.act(&violations, |run_state| (0..2).for_each(|_| new_pair(run_state)), &run_state);
    for turn in 0..TURNS {
        if turn % 3 == 0 {
            stage.act(&violations, |_| act_with_handle(), &run_state);
        }
        stage.turn();
    }

    run_state.quiet();
    stage.act(&violations, |run_state| drop(run_state.guards.take()), &run_state);
    let closed = stage.close_all(&run_state);
    stage.run_to_the_end(&run_state);
    check_all_is_over(&violations, &run_state, &stage.event_loop, &closed);

    run_state.contexts.take();
    run_state.futures.take();
    let channels = run_state.channels.take();
    drop((closed, stage, channels));
    check_nothing_is_left(&violations, &run_state);
    drop(entered);
    let violations = violations.take();
    assert!(violations.is_empty(), "seed {seed} of {options:?}: {violations:#?}");
}

/// The loop, the executor of the offloaded handlers, and their clock, all driven manually.
struct ManualRun {
    event_loop: ManualEventLoop,
    workers: ManualExecutor,
    time: Manual,
}

impl ManualRun {
    fn new(violations: &Arc<Violations>) -> Self {
        let time = Manual::readiness();
        let builder = EventLoopGroup::builder(time.clone()).reporter(violations.clone());
        let event_loop = builder.build_manual().expect("the loop can be built");
        let builder = EventExecutor::builder().reporter(violations.clone());
        let workers =
            builder.build_manual(Clock::Virtual(time.clock())).expect("the executor can be built");
        Self { event_loop, workers, time }
    }

    /// Acts on the loop from the test, where a panic unwinds to the caller.
    fn act(&mut self, violations: &Violations, f: impl FnOnce(&RunState), run_state: &RunState) {
        let on_loop = || self.event_loop.on_loop(|_| f(run_state));
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(on_loop)) {
            let constant = panic.downcast_ref::<&str>().copied().unwrap_or("no text");
            let message = panic.downcast_ref::<String>().map_or(constant, String::as_str);
            if !message.contains(PLANNED_PANIC) {
                violations.add(format!("a panic came out of the loop: {message}"));
            }
        }
    }

    fn turn(&mut self) {
        self.time.advance(TURN);
        self.event_loop.turn(Some(Duration::ZERO));
        self.workers.run_now();
    }

    fn close_all(&mut self, run_state: &RunState) -> Vec<ChannelFuture> {
        let channels = run_state.channels.borrow().clone();
        let close = |_: &_| channels.iter().map(|channel| channel.close()).collect();
        self.event_loop.on_loop(close).expect("the loop has not ended")
    }

    /// Turns the loop until it is idle, timers included.
    fn run_to_the_end(&mut self, run_state: &RunState) {
        for _ in 0..MAX_TURNS {
            self.turn();
            let registered = self.event_loop.event_loop().metrics().channels;
            let done = run_state.futures.borrow().iter().all(|future| future.is_done());
            if self.event_loop.is_idle() && registered == 0 && done {
                return;
            }
        }
    }
}
