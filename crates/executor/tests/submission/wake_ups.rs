//! E10: who wakes the loop, and how often.

use std::sync::{Arc, Barrier, mpsc};

use waterwheel_executor::EventExecutor;

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, Gate, SOON, end, lock};

fn watched() -> ObservedExecutor {
    ObservedExecutor::new(EventExecutor::builder())
}

#[test]
fn e10_a_sleep_is_ended_by_one_wake_up_however_many_tasks_come() {
    let watched = watched();
    watched.asleep();
    let held = lock(&watched.hold);
    let unparks = watched.unparks();
    for _ in 0..100 {
        watched.executor.execute(|| ()).unwrap();
    }
    assert_eq!(watched.unparks() - unparks, 1);
    drop(held);
    end(&watched.executor);
}

#[test]
fn e10_a_sleep_is_ended_by_one_wake_up_however_many_threads_submit() {
    let watched = watched();
    for _ in 0..20 {
        watched.asleep();
        let held = lock(&watched.hold);
        let unparks = watched.unparks();
        let together = Arc::new(Barrier::new(3));
        let producers: Vec<_> = (0..3)
            .map(|_| {
                let (executor, together) = (watched.executor.clone(), together.clone());
                std::thread::spawn(move || {
                    together.wait();
                    executor.execute(|| ()).unwrap();
                })
            })
            .collect();
        producers.into_iter().for_each(|p| p.join().unwrap());
        assert_eq!(watched.unparks() - unparks, 1);
        drop(held);
    }
}

#[test]
fn e10_an_awake_loop_is_never_woken() {
    let watched = watched();
    let gate = Gate::hold(&watched.executor);
    let unparks = watched.unparks();
    for _ in 0..100 {
        watched.executor.execute(|| ()).unwrap();
        watched.executor.add_shutdown_hook(|| ()).unwrap();
    }
    assert_eq!(watched.unparks(), unparks);
    gate.open();
    end(&watched.executor);
}

#[test]
fn e10_the_loops_own_submissions_wake_nobody() {
    let watched = watched();
    let gate = Gate::hold(&watched.executor);
    let (inner, unparks, ran) = (watched.executor.clone(), watched.unparks(), Counter::new());
    let count = ran.clone();
    let submits = move || (0..100).for_each(|_| inner.execute(count.task()).unwrap());
    watched.executor.execute(submits).unwrap();
    let last = watched.executor.submit(|| ()).unwrap();
    gate.open();
    last.join().unwrap();
    assert_eq!(watched.unparks(), unparks);
    end(&watched.executor);
    assert_eq!(ran.ran(), 100);
}

#[test]
fn e10_an_idle_loop_sleeps_without_a_deadline() {
    let watched = watched();
    for _ in 0..3 {
        assert_eq!(watched.asleep().until, None);
    }
}

#[test]
fn e10_a_loop_with_work_does_not_sleep() {
    let watched = watched();
    let gate = Gate::hold(&watched.executor);
    let before = watched.executor.stats().sleeps;
    let (inner, count) = (watched.executor.clone(), watched.executor.clone());
    let (tell, told) = mpsc::channel();
    // Queued in the next pass, to run in the one after: no pass leaves the queue empty.
    let in_two_passes = move || tell.send(count.stats().sleeps).unwrap();
    let in_one_pass = move || inner.execute(in_two_passes).unwrap();
    watched.executor.execute(in_one_pass).unwrap();
    gate.open();
    assert_eq!(told.recv_timeout(SOON).unwrap(), before);
}

#[test]
fn e10_a_completed_promise_without_listeners_wakes_nobody() {
    let watched = watched();
    watched.asleep();
    let unparks = watched.unparks();
    let (promise, future) = watched.executor.new_promise();
    promise.set_success(7);
    assert_eq!(future.join().unwrap(), 7);
    assert_eq!(watched.unparks(), unparks);
}

#[test]
fn e10_a_refused_task_wakes_nobody() {
    let watched = watched();
    watched.asleep();
    end(&watched.executor);
    let unparks = watched.unparks();
    assert!(watched.executor.execute(|| ()).is_err());
    assert_eq!(watched.unparks(), unparks);
}

#[test]
fn e10_the_statistics_count_what_happened() {
    let watched = watched();
    let idle = watched.executor.stats();
    assert_eq!((idle.turns, idle.sleeps, idle.wake_ups, idle.tasks), (0, 0, 0, 0));
    for n in 1..=10 {
        watched.asleep();
        let stats = watched.executor.stats();
        assert_eq!(stats.wake_ups, watched.unparks() as u64);
        assert!(stats.sleeps >= watched.parks() as u64 && stats.turns >= stats.sleeps);
        assert_eq!((stats.tasks, stats.queue_depth), (n, 0));
    }
}

#[test]
fn e10_wake_ups_do_not_exceed_sleeps_under_load() {
    for producers in [1, 2, 4] {
        let watched = watched();
        let threads: Vec<_> = (0..producers)
            .map(|_| {
                let executor = watched.executor.clone();
                std::thread::spawn(move || {
                    (0..10_000).for_each(|_| executor.execute(|| ()).unwrap());
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        end(&watched.executor);
        let stats = watched.executor.stats();
        assert!(stats.wake_ups <= stats.sleeps, "{producers}: {stats:?}");
        assert_eq!(stats.tasks, producers * 10_000);
    }
}
