//! E08: the queue bound, rejection policies and back-off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::engine::CommandAccess;
use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    BackOff, BuildError, Clock, EventExecutor, MAX_QUEUE_BOUND, MIN_QUEUE_BOUND, OnFull, Origin,
    QueueFull, Reject, RejectReason, RejectionPolicy, TokenPark, UserCode,
};

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, FaultLog, Gate, Log, TIMEOUT, panic_quietly, shut_down};

const BOUND: u32 = MIN_QUEUE_BOUND;

/// Returns an executor with the smallest queue and this rejection policy.
fn bounded(policy: impl RejectionPolicy + 'static) -> EventExecutor {
    let builder = EventExecutor::builder().queue_bound(BOUND);
    builder.rejection(policy).build().unwrap()
}

fn fill(executor: &EventExecutor, ran: &Counter) {
    for _ in 0..BOUND {
        executor.execute(ran.task()).unwrap();
    }
}

#[test]
fn e08_producers_never_wait_for_the_loop() {
    let executor = EventExecutor::builder().build().unwrap();
    let gate = Gate::hold(&executor);
    let ran = Counter::new();
    for _ in 0..100_000 {
        executor.execute(ran.task()).unwrap();
    }
    assert_eq!(ran.ran(), 0, "the loop stands still");
    gate.open();
    shut_down(&executor);
    assert_eq!(ran.ran(), 100_000);
}

#[test]
fn e08_a_bound_out_of_range_is_an_error() {
    let build = |bound| EventExecutor::builder().queue_bound(bound).build();
    assert_eq!(MIN_QUEUE_BOUND, 16);
    for bound in [0, 15, MAX_QUEUE_BOUND + 1] {
        let error = build(bound).unwrap_err();
        assert_eq!(error, BuildError::QueueBound { bound });
        assert!(error.to_string().contains(&format!("{bound} ")), "{error}");
    }
    assert!(build(16).is_ok() && build(MAX_QUEUE_BOUND).is_ok());
}

#[test]
fn e08_a_full_queue_rejects_by_default() {
    let executor = EventExecutor::builder().queue_bound(BOUND).build().unwrap();
    let gate = Gate::hold(&executor);
    let ran = Counter::new();
    fill(&executor, &ran);
    let rejected = executor.execute(|| ()).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::QueueFull { bound } if *bound == BOUND));
    assert!(executor.submit(|| ()).is_err() && executor.lazy_execute(|| ()).is_err());
    gate.open();
    shut_down(&executor);
    assert_eq!(ran.ran(), BOUND as usize);
}

#[test]
fn e08_there_is_room_again_after_tasks_have_run() {
    let executor = bounded(Reject);
    let ran = Counter::new();
    for _ in 0..3 {
        let gate = Gate::hold(&executor);
        fill(&executor, &ran);
        assert!(executor.execute(|| ()).is_err());
        gate.open();
        while executor.submit(|| ()).is_err() {
            std::thread::yield_now();
        }
    }
    shut_down(&executor);
    assert_eq!(ran.ran(), 3 * BOUND as usize);
}

#[test]
fn e08_the_bound_counts_user_tasks_only() {
    let executor = bounded(Reject);
    let gate = Gate::hold(&executor);
    let log = Log::new();
    let (hook_log, listener_log) = (log.clone(), log.clone());
    // Hooks and listeners do not count against the bound ...
    for _ in 0..2 * BOUND {
        executor.add_shutdown_hook(|| ()).unwrap();
    }
    fill(&executor, &Counter::new());
    // ... and are accepted when the queue is full.
    executor.add_shutdown_hook(move || hook_log.add("hook")).unwrap();
    let (promise, mut future) = executor.new_promise();
    future.add_listener(move |_| listener_log.add("listener"));
    promise.set_success(());
    assert!(executor.execute(|| ()).is_err(), "still full");
    gate.open();
    shut_down(&executor);
    assert_eq!(log.take(), ["listener", "hook"]);
}

#[test]
fn e08_shutdown_is_admitted_to_a_full_queue() {
    let executor = bounded(Reject);
    let gate = Gate::hold(&executor);
    let ran = Counter::new();
    fill(&executor, &ran);
    let ended = executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    gate.open();
    ended.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(ran.ran(), BOUND as usize);
}

/// A rejection policy made of a closure.
struct FnPolicy<F>(F);

impl<F: Fn(&QueueFull) -> OnFull + Send + Sync> RejectionPolicy for FnPolicy<F> {
    fn on_full(&self, full: &QueueFull) -> OnFull {
        (self.0)(full)
    }
}

#[test]
fn e08_a_custom_rejection_policy_decides() {
    let asked = Log::new();
    let policy_log = asked.clone();
    let executor = bounded(FnPolicy(move |full: &QueueFull| {
        policy_log.add(*full);
        match full.attempts {
            1..3 => OnFull::RetryAfter(Duration::ZERO),
            _ => OnFull::Reject,
        }
    }));
    let gate = Gate::hold(&executor);
    fill(&executor, &Counter::new());
    assert!(executor.execute(|| ()).is_err());
    gate.open();
    shut_down(&executor);
    let asked = asked.take();
    let attempts: Vec<_> = asked.iter().map(|full| full.attempts).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(asked.iter().all(|full| full.bound == BOUND && !full.in_event_loop));
}

#[test]
fn e08_back_off_retries_until_there_is_room() {
    // The first refusal opens the gate, so a retry finds room eventually.
    let (gate_in, gate_out) = mpsc::channel::<Gate>();
    let gate_out = std::sync::Mutex::new(gate_out);
    let back_off = BackOff::new(u32::MAX, Duration::from_millis(1));
    let executor = bounded(FnPolicy(move |full: &QueueFull| {
        drop(crate::support::lock(&gate_out).try_recv());
        back_off.on_full(full)
    }));
    let ran = Counter::new();
    let gate = Gate::hold(&executor);
    fill(&executor, &ran);
    gate_in.send(gate).unwrap();
    executor.execute(ran.task()).unwrap();
    shut_down(&executor);
    assert_eq!(ran.ran(), BOUND as usize + 1);
}

#[test]
fn e08_back_off_gives_up_after_its_retries() {
    let executor = bounded(BackOff::new(3, Duration::from_micros(1)));
    let _gate = Gate::hold(&executor);
    fill(&executor, &Counter::new());
    let rejected = executor.execute(|| ()).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::QueueFull { .. }));
}

#[test]
fn e08_back_off_wakes_a_sleeping_loop() {
    let builder = EventExecutor::builder().queue_bound(BOUND);
    let back_off = BackOff::new(2000, Duration::from_millis(1));
    let observed = ObservedExecutor::new(builder.rejection(back_off));
    let ran = Counter::new();
    observed.wait_asleep();
    for _ in 0..BOUND {
        observed.executor.lazy_execute(ran.task()).unwrap();
    }
    observed.executor.lazy_execute(ran.task()).unwrap();
    shut_down(&observed.executor);
    assert_eq!(ran.ran(), BOUND as usize + 1);
}

#[test]
fn e08_on_the_loop_a_retry_is_a_rejection() {
    let asked = Log::new();
    let policy_log = asked.clone();
    let executor = bounded(FnPolicy(move |full: &QueueFull| {
        policy_log.add(full.in_event_loop);
        match full.attempts {
            1..100 => OnFull::RetryAfter(Duration::ZERO),
            _ => OnFull::Reject,
        }
    }));
    let inner = executor.clone();
    let on_loop = executor.submit(move || {
        fill(&inner, &Counter::new());
        inner.execute(|| ()).is_err()
    });
    assert!(on_loop.unwrap().join().unwrap());
    assert_eq!(asked.take(), [true]);
}

#[test]
fn e08_a_shutdown_ends_the_retries() {
    let (asked, is_asked) = mpsc::channel();
    let executor = bounded(FnPolicy(move |_: &QueueFull| {
        let _ = asked.send(());
        OnFull::RetryAfter(Duration::from_millis(1))
    }));
    let gate = Gate::hold(&executor);
    fill(&executor, &Counter::new());
    let submitter = executor.clone();
    let retrying = std::thread::spawn(move || submitter.execute(|| ()).map_err(|r| r.into_task()));
    is_asked.recv_timeout(TIMEOUT).unwrap();
    drop(executor.shutdown());
    assert!(retrying.join().unwrap().is_err(), "handed back");
    gate.open();
    executor.await_termination(TIMEOUT).unwrap();
}

#[test]
fn e08_a_policy_that_panics_loses_no_task() {
    let faults = FaultLog::new();
    let builder = EventExecutor::builder().queue_bound(BOUND);
    let builder = builder.rejection(FnPolicy(|_: &QueueFull| panic_quietly("no opinion")));
    let executor = builder.reporter(faults.clone()).build().unwrap();
    let _gate = Gate::hold(&executor);
    fill(&executor, &Counter::new());
    let rejected = executor.submit(|| 7).unwrap_err();
    assert_eq!(rejected.into_task()(), 7);
    let (what, _, message) = faults.take_panics().remove(0);
    assert_eq!(what, UserCode::RejectionPolicy);
    assert_eq!(message, "no opinion");
}

#[test]
fn e08_a_task_whose_constructor_panics_frees_its_queue_slot() {
    let executor = EventExecutor::builder().queue_bound(BOUND).build().unwrap();
    let gate = Gate::hold(&executor);
    for _ in 0..2 * BOUND {
        let make = |()| -> fn() { panic_quietly("on purpose") };
        let submit = || executor.execute_with(Origin::here(), (), make).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(submit)).is_err(), "the panic is the caller's");
    }
    let ran = Counter::new();
    fill(&executor, &ran);
    gate.open();
    shut_down(&executor);
    assert_eq!(ran.ran(), BOUND as usize);
}

/// A loop with commands of its own.
struct CommandLoop(TokenPark, Log<u8>);

impl LoopWork<u8> for CommandLoop {
    fn turn(&mut self, core: &mut LoopCore<u8>) -> TurnOutcome {
        core.wait(&mut self.0);
        core.run_tasks(PassLimit::Queued, &mut |command| self.1.add(command));
        core.check_shutdown()
    }

    fn on_command(&mut self, command: u8) {
        self.1.add(command);
    }
}

#[test]
fn e16_a_command_whose_constructor_panics_does_not_block_shutdown() {
    let (park, log) = (TokenPark::new(Clock::Monotonic), Log::new());
    let (unpark, commands) = (park.unparker(), log.clone());
    let seed = Box::new(move || Box::new(CommandLoop(park, commands)) as Box<dyn LoopWork<u8>>);
    let executor = EventExecutor::builder().build_loop::<u8>(unpark, seed).unwrap();
    let send = || executor.send_with(7, |_| -> u8 { panic_quietly("on purpose") }).is_ok();
    assert!(catch_unwind(AssertUnwindSafe(send)).is_err(), "the panic is the caller's");
    assert_eq!(executor.stats().queue_depth, 0);
    executor.send_with(3, |three| three + 1).unwrap();
    shut_down(&executor);
    assert_eq!(log.take(), [4]);
}
