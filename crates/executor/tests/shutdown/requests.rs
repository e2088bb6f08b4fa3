//! E15: `shutdown_gracefully` and `shutdown`.

use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{
    Clock, DEFAULT_QUIET_PERIOD, DEFAULT_SHUTDOWN_TIMEOUT, ErrorKind, EventExecutor, ExecutorState,
    InvalidShutdown, ManualExecutor, VirtualClock, WaitError,
};

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, Gate, Log, ScriptedSupplier, SupplierAnswer, TIMEOUT, with_timeout};

const ZERO: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(3600);

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// Returns an executor on a virtual clock that only `run_for` moves.
fn manual() -> (ManualExecutor, EventExecutor, VirtualClock) {
    let clock = VirtualClock::new();
    let manual = ManualExecutor::with_virtual_clock(clock.clone());
    let executor = manual.executor().clone();
    (manual, executor, clock)
}

/// Asserts that the executor terminates after exactly `time`.
#[track_caller]
fn assert_terminates_after(manual: &mut ManualExecutor, time: Duration) {
    let executor = manual.executor().clone();
    let nearly = time.checked_sub(Duration::from_nanos(1)).unwrap();
    manual.run_for(nearly);
    assert_eq!(executor.state(), ExecutorState::ShuttingDown, "a moment before");
    manual.run_for(Duration::from_nanos(1));
    assert_eq!(executor.state(), ExecutorState::Terminated);
}

#[test]
fn e15_a_timeout_below_the_quiet_period_is_an_error() {
    let executor = executor();
    let (quiet, timeout) = (secs(2), secs(1));
    let invalid = executor.shutdown_gracefully(quiet, timeout).unwrap_err();
    assert_eq!(invalid, InvalidShutdown { quiet, timeout });
    let told = invalid.to_string();
    assert!(told.contains("2s") && told.contains("1s"), "{told}");
    assert_eq!(executor.state(), ExecutorState::NotStarted);
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
    assert!(executor.shutdown_gracefully(secs(2), secs(1)).is_err());
    assert_eq!(executor.state(), ExecutorState::Started, "not even begun");
}

#[test]
fn e15_the_defaults_are_2_and_15_seconds() {
    assert_eq!(DEFAULT_QUIET_PERIOD, secs(2));
    assert_eq!(DEFAULT_SHUTDOWN_TIMEOUT, secs(15));
}

#[test]
fn e15_later_calls_return_the_same_future_and_the_first_parameters_win() {
    let (mut manual, executor, _) = manual();
    let first = executor.shutdown_gracefully(secs(10), secs(20)).unwrap();
    manual.run_for(secs(1));
    let second = executor.shutdown_gracefully(ZERO, ZERO).unwrap();
    let third = executor.shutdown_gracefully(HOUR, HOUR).unwrap();
    assert_terminates_after(&mut manual, secs(9));
    assert!(first.is_done() && second.is_done() && third.is_done());
    let late = executor.shutdown_gracefully(HOUR, HOUR).unwrap();
    assert!(late.is_done() && executor.shutdown().is_done());
}

#[test]
fn e15_a_shutdown_begun_from_several_threads_ends_once() {
    let executor = executor();
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let executor = executor.clone();
            std::thread::spawn(move || match n % 2 {
                0 => executor.shutdown_gracefully(ZERO, TIMEOUT).unwrap().join(),
                _ => executor.shutdown().join(),
            })
        })
        .collect();
    with_timeout(|| threads.into_iter().for_each(|t| t.join().unwrap().unwrap()));
    assert!(executor.is_terminated());
}

#[test]
fn e15_a_never_started_executor_terminates() {
    let supplier = ScriptedSupplier::new([]);
    let build = || EventExecutor::builder().thread_supplier(supplier.clone()).build().unwrap();
    let ends = [
        build().shutdown_gracefully(ZERO, ZERO).unwrap(),
        build().shutdown_gracefully(ZERO, HOUR).unwrap(),
        build().shutdown(),
    ];
    assert!(ends.iter().all(|ended| ended.is_done()), "on the spot");
    assert_eq!(supplier.calls(), 0, "no thread was needed");
    let quiet = Duration::from_millis(5);
    let ended = build().shutdown_gracefully(quiet, TIMEOUT).unwrap();
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e15_a_never_started_executor_accepts_tasks_in_its_quiet_period() {
    let executor = executor();
    let ended = executor.shutdown_gracefully(HOUR, HOUR).unwrap();
    assert_eq!(executor.state(), ExecutorState::ShuttingDown);
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
    drop(executor.shutdown());
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e15_a_never_started_executor_terminates_even_without_a_thread() {
    for answer in [SupplierAnswer::Refuse, SupplierAnswer::Panic, SupplierAnswer::Drop] {
        let supplier = ScriptedSupplier::new([answer]);
        let builder = EventExecutor::builder().thread_supplier(supplier);
        let executor = builder.build().unwrap();
        let ended = executor.shutdown_gracefully(HOUR, HOUR).unwrap();
        let cause = ended.join().unwrap_err();
        assert!(matches!(cause.kind(), ErrorKind::LoopDied { .. }), "{cause}");
        assert!(executor.is_terminated(), "{answer:?}");
    }
}

#[test]
fn e15_without_activity_the_quiet_period_counts_from_the_start_of_the_shutdown() {
    let (mut manual, executor, _) = manual();
    executor.execute(|| ()).unwrap();
    manual.run_for(secs(5));
    drop(executor.shutdown_gracefully(secs(10), HOUR));
    assert_terminates_after(&mut manual, secs(10));
}

#[test]
fn e15_each_task_restarts_the_quiet_period() {
    let (mut manual, executor, clock) = manual();
    drop(executor.shutdown_gracefully(secs(10), HOUR));
    for _ in 0..3 {
        manual.run_for(secs(6));
        let clock = clock.clone();
        executor.execute(move || clock.advance(secs(1))).unwrap();
    }
    // Counted from the end of the last task, not from its start.
    manual.run_now();
    assert_terminates_after(&mut manual, secs(10));
}

#[test]
fn e15_each_hook_restarts_the_quiet_period() {
    let (mut manual, executor, _) = manual();
    drop(executor.shutdown_gracefully(secs(10), HOUR));
    manual.run_for(secs(6));
    executor.add_shutdown_hook(|| ()).unwrap();
    assert_terminates_after(&mut manual, secs(10));
}

#[test]
fn e15_markers_do_not_restart_the_quiet_period() {
    let (mut manual, executor, _) = manual();
    drop(executor.shutdown_gracefully(secs(10), HOUR));
    manual.run_for(secs(6));
    // A listener completed from another thread, a removed hook, another shutdown call.
    let (promise, mut future) = executor.new_promise();
    let (told, is_told) = mpsc::channel();
    future.add_listener(move |_| told.send(()).unwrap());
    std::thread::spawn(move || promise.set_success(())).join().unwrap();
    let hook = executor.add_shutdown_hook(|| ()).unwrap();
    executor.remove_shutdown_hook(hook);
    drop(executor.shutdown_gracefully(secs(10), HOUR));
    assert_terminates_after(&mut manual, secs(4));
    assert!(is_told.try_recv().is_ok());
}

#[test]
fn e15_a_cancelled_task_does_not_restart_the_quiet_period() {
    let (mut manual, executor, _) = manual();
    drop(executor.shutdown_gracefully(secs(10), HOUR));
    manual.run_for(secs(6));
    let cancelled = executor.submit(|| unreachable!("cancelled")).unwrap();
    assert!(cancelled.cancel());
    assert_terminates_after(&mut manual, secs(4));
}

#[test]
fn e15_a_quiet_period_of_zero_ends_when_the_queue_is_empty() {
    let (mut manual, executor, clock) = manual();
    let (ran, inner) = (Counter::new(), executor.clone());
    let follow_up = ran.task();
    executor.execute(move || inner.execute(follow_up).unwrap()).unwrap();
    drop(executor.shutdown_gracefully(ZERO, HOUR));
    manual.run_now();
    assert_eq!(executor.state(), ExecutorState::ShuttingDown, "the queue is not empty");
    executor.execute(ran.task()).unwrap();
    manual.run_now();
    assert_eq!((executor.state(), ran.ran()), (ExecutorState::Terminated, 2));
    assert_eq!(clock.now(), VirtualClock::new().now(), "no time passed");
}

#[test]
fn e15_the_timeout_bounds_the_whole_shutdown() {
    let (mut manual, executor, clock) = manual();
    let log = Log::new();
    fn each_second(executor: &EventExecutor, clock: &VirtualClock, log: &Log<ExecutorState>) {
        let (inner, later, seen) = (executor.clone(), clock.clone(), log.clone());
        let task = move || {
            seen.add(inner.state());
            later.advance(secs(1));
            each_second(&inner, &later, &seen);
        };
        if executor.execute(task).is_err() {
            log.add(executor.state());
        }
    }
    each_second(&executor, &clock, &log);
    drop(executor.shutdown_gracefully(secs(2), secs(10)));
    turn_until_terminated(&mut manual, 100);
    let mut expected = vec![ExecutorState::ShuttingDown; 10];
    expected.extend([ExecutorState::Shutdown, ExecutorState::Shutdown]); // The last task runs; the one it submits is refused.
    assert_eq!(log.take(), expected);
}

/// Runs turns until the executor has terminated.
fn turn_until_terminated(manual: &mut ManualExecutor, turns: usize) {
    let executor = manual.executor().clone();
    let ended = (0..turns).any(|_| {
        manual.run_now();
        executor.is_terminated()
    });
    assert!(ended, "not within {turns} turns");
}

#[test]
fn e15_the_timeout_is_checked_every_64_tasks() {
    let (mut manual, executor, clock) = manual();
    let log = Log::new();
    executor.execute(move || clock.advance(secs(2))).unwrap();
    for _ in 1..200 {
        let (inner, log) = (executor.clone(), log.clone());
        executor.execute(move || log.add(inner.state())).unwrap();
    }
    drop(executor.shutdown_gracefully(secs(1), secs(1)));
    manual.run_now();
    let states = log.take();
    assert_eq!(states.len(), 199, "what was accepted has run");
    let in_time = states.iter().take_while(|s| **s == ExecutorState::ShuttingDown);
    assert_eq!(in_time.count(), 63, "with the one that took so long");
    assert!(states[63..].iter().all(|state| *state == ExecutorState::Shutdown));
}

#[test]
fn e15_waiting_for_the_quiet_period_blocks_and_does_not_poll() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    observed.wait_asleep();
    let (parks, quiet) = (observed.parks(), Duration::from_millis(100));
    let begun = Clock::Monotonic.now();
    let ended = observed.executor.shutdown_gracefully(quiet, TIMEOUT).unwrap();
    let until = observed.next_park().until.expect("it sleeps with a deadline");
    assert!(until >= begun.plus(quiet));
    ended.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(observed.parks() - parks, 1, "one sleep, to the end");
    assert!(Clock::Monotonic.now().since(begun) >= quiet);
}

#[test]
fn e15_a_task_in_the_quiet_period_is_run_at_once() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    observed.wait_asleep();
    drop(observed.executor.shutdown_gracefully(HOUR, HOUR));
    observed.next_park();
    let value = observed.executor.submit(|| 7).unwrap();
    value.wait_timeout(TIMEOUT).unwrap();
    drop(observed.executor.shutdown());
    observed.executor.await_termination(TIMEOUT).unwrap();
}

#[test]
fn e15_shutdown_refuses_new_tasks_at_once_and_runs_what_is_queued() {
    let (executor, ran) = (executor(), Counter::new());
    let gate = Gate::hold(&executor);
    (0..10).for_each(|_| executor.execute(ran.task()).unwrap());
    let ended = executor.shutdown();
    assert_eq!(executor.state(), ExecutorState::Shutdown);
    let refused = executor.submit(|| 7).unwrap_err();
    assert_eq!(refused.into_task()(), 7);
    assert_eq!(ran.ran(), 0);
    gate.open();
    ended.wait_timeout(TIMEOUT).unwrap();
    assert_eq!((ran.ran(), executor.state()), (10, ExecutorState::Terminated));
}

#[test]
fn e15_shutdown_refuses_what_queued_tasks_submit() {
    let (mut manual, executor, _) = manual();
    let inner = executor.clone();
    let refused = executor.submit(move || inner.execute(|| ()).is_err()).unwrap();
    drop(executor.shutdown());
    turn_until_terminated(&mut manual, 3);
    assert!(refused.join().unwrap());
}

#[test]
fn e15_shutdown_ends_an_idle_executor() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    observed.wait_asleep();
    observed.executor.shutdown().wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e15_an_immediate_shutdown_cuts_a_graceful_one_short() {
    let (executor, ran) = (executor(), Counter::new());
    executor.execute(ran.task()).unwrap();
    let graceful = executor.shutdown_gracefully(HOUR, HOUR).unwrap();
    executor.execute(ran.task()).unwrap();
    let immediate = executor.shutdown();
    assert!(executor.execute(ran.task()).is_err());
    immediate.wait_timeout(TIMEOUT).unwrap();
    assert!(graceful.is_done());
    assert_eq!(ran.ran(), 2);
}

#[test]
fn e15_both_kinds_of_shutdown_can_be_begun_on_the_loop() {
    type Begin = fn(&EventExecutor);
    let graceful: Begin = |e| drop(e.shutdown_gracefully(ZERO, TIMEOUT).unwrap());
    let immediate: Begin = |e| drop(e.shutdown());
    for begin in [graceful, immediate] {
        let (executor, ran) = (executor(), Counter::new());
        let gate = Gate::hold(&executor);
        let inner = executor.clone();
        executor.execute(move || begin(&inner)).unwrap();
        executor.execute(ran.task()).unwrap();
        gate.open();
        executor.await_termination(TIMEOUT).unwrap();
        assert_eq!(ran.ran(), 1);
    }
}

#[test]
fn e15_a_loop_refuses_to_wait_for_its_own_termination() {
    let executor = EventExecutor::builder().name("self").build().unwrap();
    let inner = executor.clone();
    let waits = executor.submit(move || {
        [inner.join(), inner.await_termination(TIMEOUT)].map(|waited| waited.unwrap_err())
    });
    for refused in waits.unwrap().join().unwrap() {
        assert!(matches!(&refused, WaitError::WouldDeadlock(why) if why.executor == "self"));
    }
}

#[test]
fn e15_a_loop_refuses_to_wait_for_its_own_termination_future() {
    let executor = executor();
    let inner = executor.clone();
    let waits = executor.submit(move || {
        let wait = inner.termination().wait_timeout(secs(1));
        let begin_and_wait = inner.shutdown().wait_timeout(secs(1));
        [wait, begin_and_wait]
    });
    for refused in waits.unwrap().join().unwrap() {
        assert!(matches!(refused, Err(WaitError::WouldDeadlock(_))), "{refused:?}");
    }
}
