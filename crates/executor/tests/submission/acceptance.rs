//! E07, E09: order of tasks, rejection, lazy submission.

use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{EventExecutor, RejectReason};

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, Log, TIMEOUT, shut_down};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

#[test]
fn e07_execute_never_runs_inline() {
    let executor = executor();
    let here = std::thread::current().id();
    let there = executor.submit(|| std::thread::current().id()).unwrap();
    assert_ne!(there.join().unwrap(), here);

    let (log, inner) = (Log::new(), executor.clone());
    let nested = log.clone();
    let task = move || {
        let later = nested.clone();
        inner.execute(move || later.add("nested")).unwrap();
        nested.add("outer");
    };
    executor.execute(task).unwrap();
    shut_down(&executor);
    assert_eq!(log.take(), ["outer", "nested"]);
}

#[test]
fn e07_tasks_run_in_the_order_of_their_acceptance() {
    let (executor, log) = (executor(), Log::new());
    for n in 0..1000 {
        let log = log.clone();
        executor.execute(move || log.add(n)).unwrap();
    }
    shut_down(&executor);
    assert_eq!(log.take(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn e07_the_order_holds_between_submissions_on_and_off_the_loop() {
    const ROUNDS: usize = 200;
    let (executor, log) = (executor(), Log::new());
    let (ask, asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let (inner, inner_log) = (executor.clone(), log.clone());
    let on_loop = move || {
        for round in asked {
            let (on, lazy) = (inner_log.clone(), inner_log.clone());
            inner.execute(move || on.add((round, "on"))).unwrap();
            inner.lazy_execute(move || lazy.add((round, "lazy"))).unwrap();
            answer.send(()).unwrap();
        }
    };
    executor.execute(on_loop).unwrap();
    for round in 0..ROUNDS {
        let log = log.clone();
        executor.execute(move || log.add((round, "off"))).unwrap();
        ask.send(round).unwrap();
        answered.recv_timeout(TIMEOUT).unwrap();
    }
    drop(ask);
    shut_down(&executor);
    let accepted = |round| ["off", "on", "lazy"].map(|what| (round, what));
    assert_eq!(log.take(), (0..ROUNDS).flat_map(accepted).collect::<Vec<_>>());
}

#[test]
fn e07_a_rejected_task_is_returned_to_the_caller() {
    let executor = executor();
    shut_down(&executor);
    let mine = Box::new(7);
    let rejected = executor.execute(move || assert_eq!(*mine, 7)).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
    assert!(rejected.to_string().contains("shut down"), "{rejected}");
    rejected.into_task()();

    let rejected = executor.submit(|| "the value").unwrap_err();
    assert_eq!(rejected.into_task()(), "the value");
    let rejected = executor.lazy_execute(|| ()).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
    let rejected = executor.add_shutdown_hook(|| ()).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
}

#[test]
fn e07_every_task_runs_or_is_returned_while_threads_submit_during_shutdown() {
    for round in 0..50 {
        let (executor, ran) = (executor(), Counter::new());
        let producers: Vec<_> = (0..3)
            .map(|_| {
                let (executor, ran) = (executor.clone(), ran.clone());
                let accepted = move |_: &u32| executor.execute(ran.task()).is_ok();
                std::thread::spawn(move || (0..1000).take_while(accepted).count())
            })
            .collect();
        drop(executor.submit(|| ()));
        let ended = match round % 2 {
            0 => executor.shutdown(),
            _ => executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap(),
        };
        ended.wait_timeout(TIMEOUT).unwrap();
        let accepted: usize = producers.into_iter().map(|p| p.join().unwrap()).sum();
        assert_eq!(ran.ran(), accepted, "round {round}");
    }
}

#[test]
fn e09_lazy_execute_queues_without_waking_the_loop() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    let log = Log::new();
    let (lazy, eager) = (log.clone(), log.clone());
    observed.wait_asleep();
    let (unparks, parks) = (observed.unparks(), observed.parks());
    observed.executor.lazy_execute(move || lazy.add("lazy")).unwrap();
    assert_eq!((observed.unparks(), observed.parks()), (unparks, parks), "nobody was woken");
    assert_eq!(observed.executor.stats().queue_depth, 1);
    observed.executor.execute(move || eager.add("eager")).unwrap();
    shut_down(&observed.executor);
    assert_eq!(log.take(), ["lazy", "eager"], "queued in its place all the same");
}

#[test]
fn e09_a_lazy_first_task_starts_the_thread() {
    let executor = executor();
    let (ran, has_run) = mpsc::channel();
    executor.lazy_execute(move || ran.send(()).unwrap()).unwrap();
    // A lazy task does not wake the loop: the started loop itself must look at the queue once.
    has_run.recv_timeout(TIMEOUT).unwrap();
}

#[test]
fn e09_a_labelled_lazy_task_does_not_wake_the_loop() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    observed.wait_asleep();
    let unparks = observed.unparks();
    let (ran, has_run) = mpsc::channel();
    let labelled = observed.executor.labelled("lazy");
    labelled.lazy_execute(move || ran.send(()).unwrap()).unwrap();
    assert_eq!(observed.unparks(), unparks);
    assert!(has_run.try_recv().is_err());
    shut_down(&observed.executor);
    assert!(has_run.try_recv().is_ok(), "a shutdown runs it");
}
