//! Long races between threads, run on an optimised build: E04, E07, E10, E21 under load.

mod support;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use support::{Counter, FnSupplier, TIMEOUT, panic_quietly, shut_down, spawn};
use waterwheel_executor::{EventExecutor, LoopBody, RejectReason, SharedFuture};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// Runs `f` on `count` threads at once and returns the value of each.
fn on_threads<T: Send + 'static>(
    count: usize,
    f: impl Fn(usize) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let together = Arc::new(Barrier::new(count));
    let threads: Vec<_> = (0..count)
        .map(|n| {
            let (f, together) = (f.clone(), together.clone());
            std::thread::spawn(move || {
                together.wait();
                f(n)
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

/// Runs rounds in which threads call `execute` while the executor shuts down.
fn race_submissions_with_shutdown(begin: fn(&EventExecutor) -> SharedFuture<()>) {
    const ROUNDS: usize = 1000;
    const THREADS: usize = 3;
    for round in 0..ROUNDS {
        let (executor, ran, back) = (executor(), Counter::new(), Counter::new());
        let (spam, runs, comes_back) = (executor.clone(), ran.clone(), back.clone());
        // The last thread shuts down: in later rounds after more tasks, and sometimes before any.
        let submitted = on_threads(THREADS, move |n| {
            if n == THREADS - 1 {
                (0..round % 50).for_each(|_| std::thread::yield_now());
                drop(begin(&spam));
                return 0;
            }
            // Bounded, because a graceful shutdown waits until the queue has been empty once.
            let (mut submitted, mut refused) = (0, 0);
            while refused < 10 && submitted < 2000 {
                submitted += 1;
                if let Err(rejected) = spam.execute(runs.task()) {
                    assert!(matches!(rejected.reason(), RejectReason::ShutDown));
                    let _task = rejected.into_task();
                    comes_back.task()();
                    refused += 1;
                }
            }
            submitted
        });
        executor.await_termination(TIMEOUT).expect("the executor terminates");
        let submitted: usize = submitted.iter().sum();
        assert_eq!(ran.ran() + back.ran(), submitted, "round {round}");
        assert_eq!(executor.stats().tasks, ran.ran() as u64, "round {round}");
        assert_eq!(executor.stats().queue_depth, 0, "round {round}");
    }
}

#[test]
#[ignore = "run by the stress stage"]
fn e07_every_task_runs_or_is_returned_at_a_graceful_shutdown() {
    race_submissions_with_shutdown(|executor| {
        executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap()
    });
}

#[test]
#[ignore = "run by the stress stage"]
fn e07_every_task_runs_or_is_returned_at_an_immediate_shutdown() {
    race_submissions_with_shutdown(EventExecutor::shutdown);
}

#[test]
#[ignore = "run by the stress stage"]
fn e07_every_task_runs_or_is_returned_at_a_shutdown_with_no_timeout() {
    race_submissions_with_shutdown(|executor| {
        executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO).unwrap()
    });
}

#[test]
#[ignore = "run by the stress stage"]
fn e07_each_threads_tasks_run_in_its_order_under_load() {
    const THREADS: usize = 4;
    const TASKS: usize = 250_000;
    let executor = executor();
    let next: Arc<[AtomicUsize; THREADS]> = Arc::default();
    let misplaced = Counter::new();
    let wrong = misplaced.clone();
    let (submitter, seen) = (executor.clone(), next.clone());
    on_threads(THREADS, move |thread| {
        for n in 0..TASKS {
            let (seen, inner, misplaced) = (seen.clone(), submitter.clone(), wrong.clone());
            let on_loop = move || {
                // Every fourth task also submits a task through the loop's own queue.
                if n % 4 == 0 {
                    inner.execute(|| ()).unwrap();
                }
                if seen[thread].swap(n + 1, Ordering::Relaxed) != n {
                    misplaced.task()();
                }
            };
            submitter.execute(on_loop).unwrap();
        }
    });
    shut_down(&executor);
    assert_eq!(misplaced.ran(), 0, "tasks out of order");
    assert!(next.iter().all(|seen| seen.load(Ordering::Relaxed) == TASKS));
    assert_eq!(executor.stats().tasks, (THREADS * TASKS * 5 / 4) as u64);
}

#[test]
#[ignore = "run by the stress stage"]
fn e10_a_million_tasks_per_producer_wake_the_loop_at_most_once_per_sleep() {
    const TASKS: u64 = 1_000_000;
    for producers in [1, 2, 4] {
        let executor = executor();
        let submitter = executor.clone();
        on_threads(producers, move |_| {
            (0..TASKS).for_each(|_| submitter.execute(|| ()).unwrap());
        });
        shut_down(&executor);
        let stats = executor.stats();
        assert!(stats.wake_ups <= stats.sleeps, "{producers} producers: {stats:?}");
        assert_eq!(stats.tasks, producers as u64 * TASKS);
    }
}

#[test]
#[ignore = "run by the stress stage"]
fn e10_tasks_submitted_one_at_a_time_wake_the_loop_at_most_once_per_sleep() {
    let executor = executor();
    let submitter = executor.clone();
    on_threads(2, move |_| {
        for n in 0..50_000 {
            assert_eq!(submitter.submit(move || n).unwrap().join().unwrap(), n);
        }
    });
    shut_down(&executor);
    let stats = executor.stats();
    assert!(stats.wake_ups <= stats.sleeps, "{stats:?}");
    assert!(stats.sleeps > 100, "it did sleep in between: {stats:?}");
}

#[test]
#[ignore = "run by the stress stage"]
fn e10_an_idle_loop_takes_no_turn_in_three_seconds() {
    let executor = executor();
    executor.submit(|| ()).unwrap().join().unwrap();
    let (_never, nothing) = mpsc::channel::<()>();
    let settled = nothing.recv_timeout(Duration::from_millis(200));
    let before = executor.stats();
    let waited = nothing.recv_timeout(Duration::from_secs(3));
    assert!(settled.is_err() && waited.is_err());
    assert_eq!(executor.stats(), before);
}

/// A thread supplier that fails three calls out of four, in three different ways.
fn unreliable_supplier(
    started: &Counter,
) -> FnSupplier<impl Fn(LoopBody) -> io::Result<Handle> + use<>> {
    let (calls, started) = (AtomicUsize::new(0), started.clone());
    FnSupplier(move |body: LoopBody| match scramble(calls.fetch_add(1, Ordering::SeqCst)) % 4 {
        0 => {
            started.task()();
            spawn(body).map(Some)
        }
        1 => Err(io::Error::other("no thread")),
        2 => panic_quietly("no thread at all"),
        _ => Ok(None),
    })
}

type Handle = Option<std::thread::JoinHandle<()>>;

/// Returns a number of a sequence that differs between calls and is the same in every test run.
fn scramble(n: usize) -> usize {
    static SALT: AtomicUsize = AtomicUsize::new(0);
    let salted = n.wrapping_add(SALT.fetch_add(1, Ordering::SeqCst));
    salted.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

#[test]
#[ignore = "run by the stress stage"]
fn e04_threads_race_for_the_first_submission_with_an_unreliable_supplier() {
    const THREADS: usize = 4;
    const TASKS: usize = 10;
    for round in 0..1000 {
        let (started, ran, back) = (Counter::new(), Counter::new(), Counter::new());
        let supplier = Arc::new(unreliable_supplier(&started));
        let executor = EventExecutor::builder().thread_supplier(supplier).build().unwrap();
        let (submitter, runs, comes_back) = (executor.clone(), ran.clone(), back.clone());
        on_threads(THREADS, move |_| {
            for _ in 0..TASKS {
                if let Err(rejected) = submitter.execute(runs.task()) {
                    assert!(matches!(rejected.reason(), RejectReason::NotStarted(_)), "{rejected}");
                    comes_back.task()();
                }
            }
        });
        // Starts the executor if it has not started, so that there is always one thread to count.
        while executor.execute(|| ()).is_err() {}
        shut_down(&executor);
        assert_eq!(ran.ran() + back.ran(), THREADS * TASKS, "round {round}");
        assert_eq!(started.ran(), 1, "round {round}");
    }
}

#[test]
#[ignore = "run by the stress stage"]
fn e04_starts_and_shutdowns_race_with_an_unreliable_supplier() {
    for round in 0..1000 {
        let (started, ran, back) = (Counter::new(), Counter::new(), Counter::new());
        let supplier = Arc::new(unreliable_supplier(&started));
        let executor = EventExecutor::builder().thread_supplier(supplier).build().unwrap();
        let (user, runs, comes_back) = (executor.clone(), ran.clone(), back.clone());
        let quiet = Duration::from_micros(round % 2);
        on_threads(3, move |n| match n {
            0 if round % 3 == 0 => drop(user.shutdown()),
            0 => drop(user.shutdown_gracefully(quiet, TIMEOUT).unwrap()),
            _ => (0..10).for_each(|_| match user.execute(runs.task()) {
                Ok(()) => {}
                Err(_) => comes_back.task()(),
            }),
        });
        executor.await_termination(TIMEOUT).expect("the executor terminates");
        assert_eq!(ran.ran() + back.ran(), 20, "round {round}");
        assert!(started.ran() <= 1, "round {round}");
    }
}

#[test]
#[ignore = "run by the stress stage"]
fn e21_last_handles_dropped_at_once_lose_no_task() {
    for round in 0..1000 {
        let (executor, ran) = (executor(), Counter::new());
        let ended = executor.termination();
        let handles: Vec<_> = (0..3).map(|_| executor.clone()).collect();
        drop(executor);
        let threads: Vec<_> = handles
            .into_iter()
            .map(|handle| {
                let ran = ran.clone();
                std::thread::spawn(move || {
                    (0..10).for_each(|_| handle.execute(ran.task()).unwrap());
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        ended.wait_timeout(TIMEOUT).unwrap();
        assert_eq!(ran.ran(), 30, "round {round}");
    }
}
