//! E19: the manual executor: `run_now`, `run_for`, `block_on`.

use std::future::poll_fn;
use std::sync::mpsc::{self, Sender};
use std::task::{Poll, Waker};
use std::time::Duration;

use waterwheel_executor::{
    BuildError, Clock, EventExecutor, ExecutorState, GlobalExecutor, ManualExecutor, UserCode,
    VirtualClock, WouldDeadlock,
};

use crate::support::{Counter, FaultLog, Log, TIMEOUT, panic_quietly, with_timeout};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn e19_a_manual_executor_runs_its_tasks_on_the_callers_thread_in_run_now() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let ran = Counter::new();
    assert_eq!(manual.run_now(), 0, "nothing to do, and it does not wait for it");
    executor.execute(ran.task()).unwrap();
    let submitter = executor.clone();
    let on_thread = std::thread::spawn(move || {
        let id = || std::thread::current().id();
        submitter.submit(id).unwrap()
    });
    let id = on_thread.join().unwrap();
    assert_eq!((ran.ran(), executor.in_event_loop()), (0, false));
    assert_eq!(manual.run_now(), 2);
    assert_eq!(ran.ran(), 1);
    assert_eq!(id.join().unwrap(), std::thread::current().id());
}

#[test]
fn e19_run_now_leaves_tasks_submitted_meanwhile_for_the_next_call() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    fn again(executor: &EventExecutor) {
        let inner = executor.clone();
        let _ = executor.execute(move || again(&inner));
    }
    again(&executor);
    again(&executor);
    for _ in 0..3 {
        assert_eq!(manual.run_now(), 2);
    }
}

#[test]
fn e19_run_for_moves_a_virtual_clock_by_exactly_that_much() {
    let clock = VirtualClock::new();
    let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
    let executor = manual.executor().clone();
    let (inner, ran) = (executor.clone(), Counter::new());
    let last = ran.task();
    let chain = move || {
        let next = inner.clone();
        inner.execute(move || next.execute(last).unwrap()).unwrap();
    };
    executor.execute(chain).unwrap();
    let begun = clock.now();
    assert_eq!(manual.run_for(HOUR), 3, "the chain is run to its end");
    assert_eq!(clock.now().since(begun), HOUR);
    assert_eq!((manual.run_for(SECOND), ran.ran()), (0, 1));
    assert_eq!(clock.now().since(begun), HOUR + SECOND);
}

#[test]
fn e19_run_for_on_the_real_clock_takes_that_long() {
    let (time, mut manual) = (Duration::from_millis(20), ManualExecutor::default());
    let begun = Clock::Monotonic.now();
    assert_eq!(manual.run_for(time), 0);
    assert!(Clock::Monotonic.now().since(begun) >= time);
}

#[test]
fn e19_run_for_runs_arriving_tasks_and_returns_when_the_executor_terminates() {
    let ran = with_timeout(|| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let other = std::thread::spawn(move || {
            for n in 0..100 {
                assert_eq!(executor.submit(move || n).unwrap().join().unwrap(), n);
            }
            drop(executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
        });
        let ran = manual.run_for(HOUR);
        other.join().unwrap();
        assert!(manual.executor().is_terminated());
        ran
    });
    assert_eq!(ran, 100);
}

#[test]
fn e19_run_for_returns_even_if_a_task_submits_itself_again_and_again() {
    fn again(executor: &EventExecutor) {
        let inner = executor.clone();
        let task = move || {
            // Gives up after a million turns, so that a failure of this test does not hang.
            if inner.stats().turns < 1_000_000 {
                again(&inner);
            }
        };
        let _ = executor.execute(task);
    }
    let virtual_clock = ManualExecutor::with_virtual_clock(VirtualClock::new());
    for mut manual in [ManualExecutor::new(), virtual_clock] {
        again(manual.executor());
        let ran = manual.run_for(Duration::from_millis(1));
        assert!(ran > 0 && ran < 1_000_000, "{ran} tasks in a millisecond");
    }
}

#[test]
fn e19_block_on_runs_tasks_until_the_future_is_ready() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let value = manual.block_on(async {
        let first = executor.submit(|| 40).unwrap().await.unwrap();
        let inner = executor.clone();
        let second = executor.submit(move || inner.submit(|| 2).unwrap()).unwrap();
        first + second.await.unwrap().await.unwrap()
    });
    assert_eq!(value.unwrap(), 42);
    assert!(!executor.in_event_loop());
}

/// A future that sends its waker to another thread and is ready once that thread has called it.
async fn woken_by(waker_to: Sender<Waker>) {
    let mut asked = false;
    let once = poll_fn(move |context| match std::mem::replace(&mut asked, true) {
        false => {
            let _ = waker_to.send(context.waker().clone());
            Poll::Pending
        }
        true => Poll::Ready(()),
    });
    once.await;
}

/// Starts a thread that calls the wakers it receives a little later, when the waiting thread sleeps.
fn wakes_later() -> Sender<Waker> {
    let (to, wakers) = mpsc::channel::<Waker>();
    std::thread::spawn(move || {
        for waker in wakers {
            (0..1000).for_each(|_| std::thread::yield_now());
            waker.wake();
        }
    });
    to
}

#[test]
fn e19_block_on_is_woken_from_another_thread() {
    with_timeout(|| {
        let (mut manual, wake) = (ManualExecutor::new(), wakes_later());
        for _ in 0..10 {
            manual.block_on(woken_by(wake.clone())).unwrap();
        }
    });
}

#[test]
fn e19_block_on_is_woken_with_a_virtual_clock_too() {
    with_timeout(|| {
        let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
        manual.block_on(woken_by(wakes_later())).unwrap();
    });
}

#[test]
fn e19_block_on_works_on_a_terminated_executor() {
    with_timeout(|| {
        let mut manual = ManualExecutor::new();
        drop(manual.executor().shutdown());
        manual.run_now();
        assert!(manual.executor().is_terminated());
        assert_eq!(manual.block_on(async { 7 }).unwrap(), 7);
        manual.block_on(woken_by(wakes_later())).unwrap();
    });
}

#[test]
fn e19_block_on_continues_when_the_executor_terminates_meanwhile() {
    with_timeout(|| {
        let (mut manual, wake) = (ManualExecutor::new(), wakes_later());
        let executor = manual.executor().clone();
        let outlives = async {
            drop(executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
            executor.termination().await.unwrap();
            woken_by(wake).await;
        };
        manual.block_on(outlives).unwrap();
        assert_eq!(manual.run_now(), 0);
    });
}

#[test]
fn e19_block_on_is_refused_on_a_thread_that_runs_a_loop() {
    let executor = EventExecutor::builder().name("host").build().unwrap();
    let refused = executor.submit(|| ManualExecutor::new().block_on(async { 7 }));
    let expected = WouldDeadlock { executor: "host".to_owned() };
    assert_eq!(refused.unwrap().join().unwrap(), Err(expected));
    let (mut outer, mut inner) = (ManualExecutor::new(), ManualExecutor::new());
    let nested = outer.block_on(async { inner.block_on(async { 7 }) }).unwrap();
    assert!(nested.is_err());
    assert_eq!(inner.block_on(async { 7 }), Ok(7), "and welcome afterwards");
}

#[test]
fn e19_a_dropped_manual_executor_runs_accepted_tasks() {
    let manual = ManualExecutor::new();
    let (executor, log) = (manual.executor().clone(), Log::new());
    let (task, hook) = (log.clone(), log.clone());
    executor.add_shutdown_hook(move || hook.add("hook")).unwrap();
    executor.execute(move || task.add("task")).unwrap();
    drop(manual);
    let mut log = log.take();
    log.sort_unstable();
    assert_eq!(log, ["hook", "task"]);
    assert_eq!(executor.state(), ExecutorState::Terminated);
    assert!(executor.execute(|| ()).is_err());
    executor.termination().join().unwrap();
}

#[test]
fn e19_a_manual_executor_survives_a_panicking_task() {
    let mut manual = ManualExecutor::new();
    manual.executor().execute(|| panic_quietly("by hand")).unwrap();
    let value = manual.executor().submit(|| 7).unwrap();
    assert_eq!(manual.run_now(), 2);
    assert_eq!(value.join().unwrap(), 7);
}

#[test]
fn e19_block_on_sleeps_on_a_terminated_executor() {
    let turns = with_timeout(|| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let ended = executor
            .shutdown_gracefully(Duration::from_millis(5), Duration::from_millis(10))
            .unwrap();
        let (promise, future) = GlobalExecutor::get().new_promise();
        let other = std::thread::spawn(move || {
            ended.wait_timeout(TIMEOUT).expect("it ends in block_on");
            let (_never, nothing) = mpsc::channel::<()>();
            let _ = nothing.recv_timeout(Duration::from_millis(300));
            promise.set_success(())
        });
        manual.block_on(future).unwrap().unwrap();
        assert!(other.join().unwrap());
        assert_eq!(executor.state(), ExecutorState::Terminated);
        executor.stats().turns
    });
    assert!(turns < 50, "it turned {turns} times");
}

#[test]
fn e20_a_manual_executors_thread_is_the_one_that_created_it() {
    let thread = std::thread::Builder::new().name("maker".to_owned()).spawn(|| {
        let manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let here = executor.thread_properties().expect("known from the start");
        assert_eq!(here.name.as_deref(), Some("maker"));
        assert_eq!(here.id, std::thread::current().id());
        assert!(here.is_alive);
        drop(manual);
        let gone = executor.thread_properties().expect("still known");
        assert!(!gone.is_alive && gone.id == here.id && gone.started_at == here.started_at);
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn e19_a_manual_executor_is_built_with_a_reporter_and_a_virtual_clock() {
    let (faults, clock) = (FaultLog::new(), VirtualClock::new());
    let mut manual = EventExecutor::builder()
        .name("driven")
        .reporter(faults.clone())
        .build_manual(Clock::Virtual(clock.clone()))
        .unwrap();
    let executor = manual.executor().clone();
    assert_eq!(executor.name(), "driven");
    let labelled = executor.labelled("late");
    let timer = executor
        .schedule(HOUR, move || labelled.execute(|| panic_quietly("after an hour")).is_ok());
    assert_eq!(manual.run_for(HOUR), 2);
    assert_eq!(Duration::from_nanos(clock.now().0), HOUR);
    let expected = (UserCode::Task, "late".to_owned(), "after an hour".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
    let timer = timer.unwrap();
    timer.wait_timeout(TIMEOUT).unwrap();
    assert!(timer.join().unwrap());
    assert_eq!(executor.submit(|| 7).map(|_| ()).map_err(|_| ()), Ok(()), "it lives on");
}

#[test]
fn e19_building_a_manual_executor_checks_its_properties() {
    let built = EventExecutor::builder().queue_bound(15).build_manual(Clock::Monotonic);
    assert_eq!(built.map(|_| ()).unwrap_err(), BuildError::QueueBound { bound: 15 });
}
