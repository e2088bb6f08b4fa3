//! E19: timers of the manual executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_executor::{
    Clock, EventExecutor, ManualExecutor, Nanos, PromiseFuture, VirtualClock,
};

use crate::support::{Counter, Log, TIMEOUT, with_timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn manual() -> (VirtualClock, ManualExecutor, EventExecutor) {
    let clock = VirtualClock::new();
    let manual = ManualExecutor::with_virtual_clock(clock.clone());
    let executor = manual.executor().clone();
    (clock, manual, executor)
}

fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(TIMEOUT).expect("completed in time");
    future.join().unwrap()
}

#[test]
fn e19_a_virtual_clock_jumps_from_timer_to_timer() {
    let (clock, mut manual, executor) = manual();
    let (log, seen) = (Log::new(), clock.clone());
    let noted = log.clone();
    let tick = move || noted.add(seen.now().0 / 1_000_000_000);
    drop(executor.schedule_at_fixed_rate(SECOND, SECOND, tick).unwrap());
    assert_eq!(manual.run_for(HOUR), 3600);
    assert_eq!(log.take(), (1..=3600).collect::<Vec<_>>());
    assert_eq!(Duration::from_nanos(clock.now().0), HOUR);
}

#[test]
fn e19_run_now_runs_timers_that_are_due_and_never_moves_the_clock() {
    let (clock, mut manual, executor) = manual();
    let timer = executor.schedule(ms(10), || ()).unwrap();
    let before = clock.now();
    assert_eq!((manual.run_now(), manual.run_now()), (0, 0));
    assert_eq!(clock.now(), before);
    clock.advance(ms(10));
    assert_eq!(manual.run_now(), 1);
    get(timer);
}

#[test]
fn e19_run_now_runs_a_timer_that_was_due_before_the_loop_saw_it() {
    let (clock, mut manual, executor) = manual();
    let (at_once, overdue) = (Counter::new(), Counter::new());
    drop(executor.schedule(ms(1), overdue.task()).unwrap());
    clock.advance(ms(1));
    drop(executor.schedule(Duration::ZERO, at_once.task()).unwrap());
    assert_eq!(manual.run_now(), 2);
    assert_eq!((overdue.ran(), at_once.ran()), (1, 1));
}

#[test]
fn e19_run_for_leaves_no_timer_that_is_due_at_its_end() {
    let (_, mut manual, executor) = manual();
    let ran = Counter::new();
    drop(executor.schedule(Duration::ZERO, ran.task()).unwrap());
    manual.run_for(Duration::ZERO);
    assert_eq!(ran.ran(), 1, "due when it was called");
    let (inner, followed_up) = (executor.clone(), ran.task());
    let follows_up = move || drop(inner.schedule(Duration::ZERO, followed_up).unwrap());
    drop(executor.schedule(ms(10), follows_up).unwrap());
    manual.run_for(ms(10));
    assert_eq!(ran.ran(), 2, "what a timer schedules at once belongs to the same instant");
}

#[test]
fn e19_run_for_an_unlimited_time_returns_when_nothing_is_left() {
    with_timeout(|| {
        let (_, mut manual, executor) = manual();
        drop(executor.schedule(HOUR, || ()).unwrap());
        assert_eq!(manual.run_for(Duration::MAX), 1);
    });
}

#[test]
fn e19_an_idle_virtual_clock_does_not_jump_to_a_timer_of_unlimited_delay() {
    with_timeout(|| {
        let (clock, mut manual, executor) = manual();
        let never = executor.schedule(Duration::MAX, || ()).unwrap();
        let (promise, future) = executor.new_promise();
        let other = std::thread::spawn(move || {
            (0..1000).for_each(|_| std::thread::yield_now());
            promise.set_success(7)
        });
        assert_eq!(manual.block_on(future).unwrap().unwrap(), 7);
        assert!(other.join().unwrap());
        assert!(!never.is_done() && clock.now().0 == 0, "time ended at {:?}", clock.now());
        assert_eq!(manual.run_for(Duration::MAX), 0, "not even if one waits forever");
        assert!(never.cancel());
    });
}

#[test]
fn e19_run_for_on_the_real_clock_sleeps_until_timers_are_due() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let before = Clock::Monotonic.now();
    let timer = executor.schedule(ms(5), || Clock::Monotonic.now()).unwrap();
    let ticks = Counter::new();
    let counted = ticks.clone();
    drop(executor.schedule_at_fixed_rate(ms(1), ms(1), move || counted.task()()).unwrap());
    manual.run_for(ms(50));
    assert!(get(timer).since(before) >= ms(5));
    let passed = Clock::Monotonic.now().since(before).as_millis();
    assert!(ticks.ran() >= 1 && ticks.ran() as u128 <= passed, "{} in {passed} ms", ticks.ran());
}

#[test]
fn e19_block_on_a_timer_moves_a_virtual_clock_to_its_deadline() {
    let (clock, mut manual, executor) = manual();
    let inner = executor.clone();
    let two_hours = async move {
        let first = inner.schedule(HOUR, || 1).unwrap().await.unwrap();
        first + inner.schedule(HOUR, || 1).unwrap().await.unwrap()
    };
    assert_eq!(within_virtual_time(&mut manual, two_hours), 2);
    assert_eq!(Duration::from_nanos(clock.now().0), HOUR * 2);
}

fn within_virtual_time<F: Future>(manual: &mut ManualExecutor, future: F) -> F::Output {
    let before = Clock::Monotonic.now();
    let output = manual.block_on(future).unwrap();
    assert!(Clock::Monotonic.now().since(before) < TIMEOUT, "hours pass in no time");
    output
}

#[test]
fn e19_block_on_on_the_real_clock_runs_timers_from_other_threads() {
    with_timeout(|| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let (promise, future) = executor.new_promise();
        let other = std::thread::spawn(move || {
            let completes = move || promise.set_success(7);
            executor.schedule(ms(1), completes).unwrap()
        });
        assert_eq!(manual.block_on(future).unwrap().unwrap(), 7);
        assert!(manual.block_on(other.join().unwrap()).unwrap().unwrap());
    });
}

#[test]
fn e19_a_dropped_manual_executor_cancels_its_timers() {
    let (_, mut manual, executor) = manual();
    let known = executor.schedule(HOUR, || ()).unwrap();
    manual.run_now();
    let unheard_of = executor.schedule(HOUR, || ()).unwrap();
    drop(manual);
    assert!(known.is_cancelled() && unheard_of.is_cancelled());
    assert!(executor.schedule(HOUR, || ()).is_err());
}

#[test]
fn e19_a_virtual_clock_does_not_jump_past_a_task_that_a_listener_submits() {
    with_timeout(|| {
        let clock = VirtualClock::new();
        let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
        let executor = manual.executor().clone();
        let far = executor.schedule(HOUR, || ()).unwrap();
        manual.run_now();
        let (promise, mut future) = executor.new_promise::<()>();
        let (noted, ran_at) = executor.new_promise::<Nanos>();
        let runs = Arc::new(AtomicUsize::new(0));
        let (inner, seen, counted) = (executor.clone(), clock.clone(), runs.clone());
        future.add_listener(move |_| {
            let task = move || {
                counted.fetch_add(1, Ordering::SeqCst);
                noted.set_success(seen.now());
            };
            inner.execute(task).unwrap();
        });
        assert!(std::thread::spawn(move || promise.set_success(())).join().unwrap());
        assert_eq!(manual.block_on(ran_at).unwrap().unwrap(), Nanos(0));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(!far.is_done());
    });
}
