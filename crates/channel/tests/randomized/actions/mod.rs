//! C05: whoever gets to run does anything to any channel, at any moment, and nothing is lost.
//!
//! A run is made from its seed: a few pairs of local channels on a loop driven by hand. Their handlers,
//! the destructors and the weights of their messages, completions, listeners, timers, futures and kept
//! contexts do something drawn at random whenever they run: edit pipelines, write, flush, close, leave
//! the loop and come back, fire events, fail, panic. Then everybody behaves and everything is closed,
//! and what must hold of any run is checked:
//!
//! 1. nobody panicked who was not told to;
//! 2. every channel is closed, has nothing pending and has left the loop, which is idle;
//! 3. every future is done, and every completion was told;
//! 4. every handler and message was dropped.
//!
//! It is the other half of `pipeline_properties`, which knows what is to happen in which order, and so
//! has to be tamer. A failure names its seed; `run` with that seed alone repeats it.

mod actions;
mod actors;
mod checks;
mod shared_state;

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{ChannelFuture, EventLoopGroup, ManualEventLoop};
use waterwheel_executor::{Clock, EventExecutor, ManualExecutor};
use waterwheel_testkit::manual::Manual;

use self::actions::{act_with_handle, new_pair};
use self::checks::{Violations, check_all_is_over, check_nothing_is_left};
use self::shared_state::{PLANNED_PANIC, RunState};

/// About three seconds of a debug build for each test.
const SEEDS: Range<u64> = 0..100;

/// How many turns a run has for its actions; from the outside, something is done every third.
const TURNS: usize = 400;

/// By when a run is over that has an end.
const MAX_TURNS: usize = 3_000;

/// How far time goes with a turn: timers are up to half a millisecond ahead.
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

/// What belongs to the game besides meddling.
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
    let run_state = made.expect("the loop is not over");
    let entered = run_state.enter();

    stage.act(&violations, |run_state| (0..2).for_each(|_| new_pair(run_state)), &run_state);
    for turn in 0..TURNS {
        if turn % 3 == 0 {
            stage.act(&violations, |_| act_with_handle(), &run_state);
        }
        stage.turn();
    }

    run_state.quiet();
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

/// The loop, the executor of the offloaded handlers, and their time, all by hand.
struct ManualRun {
    event_loop: ManualEventLoop,
    workers: ManualExecutor,
    time: Manual,
}

impl ManualRun {
    fn new(violations: &Arc<Violations>) -> Self {
        let time = Manual::readiness();
        let builder = EventLoopGroup::builder(time.clone()).reporter(violations.clone());
        let event_loop = builder.build_manual().expect("a loop");
        let builder = EventExecutor::builder().reporter(violations.clone());
        let workers = builder.build_manual(Clock::Virtual(time.clock())).expect("an executor");
        Self { event_loop, workers, time }
    }

    /// Does something on the loop from the outside, where a panic comes back to the caller.
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
        self.event_loop.on_loop(close).expect("the loop is not over")
    }

    /// Turns until nothing happens any more, timers included.
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
