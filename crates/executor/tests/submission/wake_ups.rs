//! E10: which submissions wake a sleeping loop, and how often.

use std::sync::{Arc, Barrier, mpsc};

use waterwheel_executor::EventExecutor;

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, Gate, TIMEOUT, lock, shut_down};

fn observed() -> ObservedExecutor {
    ObservedExecutor::new(EventExecutor::builder())
}

#[test]
fn e10_a_sleep_is_ended_by_one_wake_up_however_many_tasks_come() {
    let observed = observed();
    observed.wait_asleep();
    let held = lock(&observed.hold);
    let unparks = observed.unparks();
    for _ in 0..100 {
        observed.executor.execute(|| ()).unwrap();
    }
    assert_eq!(observed.unparks() - unparks, 1);
    drop(held);
    shut_down(&observed.executor);
}

#[test]
fn e10_a_sleep_is_ended_by_one_wake_up_however_many_threads_submit() {
    let observed = observed();
    for _ in 0..20 {
        observed.wait_asleep();
        let held = lock(&observed.hold);
        let unparks = observed.unparks();
        let together = Arc::new(Barrier::new(3));
        let producers: Vec<_> = (0..3)
            .map(|_| {
                let (executor, together) = (observed.executor.clone(), together.clone());
                std::thread::spawn(move || {
                    together.wait();
                    executor.execute(|| ()).unwrap();
                })
            })
            .collect();
        producers.into_iter().for_each(|p| p.join().unwrap());
        assert_eq!(observed.unparks() - unparks, 1);
        drop(held);
    }
}

#[test]
fn e10_an_awake_loop_is_never_woken() {
    let observed = observed();
    let gate = Gate::hold(&observed.executor);
    let unparks = observed.unparks();
    for _ in 0..100 {
        observed.executor.execute(|| ()).unwrap();
        observed.executor.add_shutdown_hook(|| ()).unwrap();
    }
    assert_eq!(observed.unparks(), unparks);
    gate.open();
    shut_down(&observed.executor);
}

#[test]
fn e10_a_loops_own_submissions_do_not_wake_it() {
    let observed = observed();
    let gate = Gate::hold(&observed.executor);
    let (inner, unparks, ran) = (observed.executor.clone(), observed.unparks(), Counter::new());
    let count = ran.clone();
    let submits = move || (0..100).for_each(|_| inner.execute(count.task()).unwrap());
    observed.executor.execute(submits).unwrap();
    let last = observed.executor.submit(|| ()).unwrap();
    gate.open();
    last.join().unwrap();
    assert_eq!(observed.unparks(), unparks);
    shut_down(&observed.executor);
    assert_eq!(ran.ran(), 100);
}

#[test]
fn e10_an_idle_loop_sleeps_without_a_deadline() {
    let observed = observed();
    for _ in 0..3 {
        assert_eq!(observed.wait_asleep().until, None);
    }
}

#[test]
fn e10_a_loop_with_work_does_not_sleep() {
    let observed = observed();
    let gate = Gate::hold(&observed.executor);
    let before = observed.executor.stats().sleeps;
    let (inner, count) = (observed.executor.clone(), observed.executor.clone());
    let (tell, told) = mpsc::channel();
    // Each task queues the next one for the pass after, so no pass leaves the queue empty.
    let in_two_passes = move || tell.send(count.stats().sleeps).unwrap();
    let in_one_pass = move || inner.execute(in_two_passes).unwrap();
    observed.executor.execute(in_one_pass).unwrap();
    gate.open();
    assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), before);
}

#[test]
fn e10_completing_a_promise_without_listeners_does_not_wake_the_loop() {
    let observed = observed();
    observed.wait_asleep();
    let unparks = observed.unparks();
    let (promise, future) = observed.executor.new_promise();
    promise.set_success(7);
    assert_eq!(future.join().unwrap(), 7);
    assert_eq!(observed.unparks(), unparks);
}

#[test]
fn e10_a_refused_task_does_not_wake_the_loop() {
    let observed = observed();
    observed.wait_asleep();
    shut_down(&observed.executor);
    let unparks = observed.unparks();
    assert!(observed.executor.execute(|| ()).is_err());
    assert_eq!(observed.unparks(), unparks);
}

#[test]
fn e10_the_statistics_count_what_happened() {
    let observed = observed();
    let idle = observed.executor.stats();
    assert_eq!((idle.turns, idle.sleeps, idle.wake_ups, idle.tasks), (0, 0, 0, 0));
    for n in 1..=10 {
        observed.wait_asleep();
        let stats = observed.executor.stats();
        assert_eq!(stats.wake_ups, observed.unparks() as u64);
        assert!(stats.sleeps >= observed.parks() as u64 && stats.turns >= stats.sleeps);
        assert_eq!((stats.tasks, stats.queue_depth), (n, 0));
    }
}

#[test]
fn e10_wake_ups_do_not_exceed_sleeps_under_load() {
    for producers in [1, 2, 4] {
        let observed = observed();
        let threads: Vec<_> = (0..producers)
            .map(|_| {
                let executor = observed.executor.clone();
                std::thread::spawn(move || {
                    (0..10_000).for_each(|_| executor.execute(|| ()).unwrap());
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        shut_down(&observed.executor);
        let stats = observed.executor.stats();
        assert!(stats.wake_ups <= stats.sleeps, "{producers}: {stats:?}");
        assert_eq!(stats.tasks, producers * 10_000);
    }
}
