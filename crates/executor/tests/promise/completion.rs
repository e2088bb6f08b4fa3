//! Completing, cancelling and dropping promises and futures (P01, P02, P05, P08).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use waterwheel_executor::{
    Canceller, Error, ErrorKind, EventExecutor, GlobalExecutor, ManualExecutor, PromiseFuture,
};

use crate::support::futures::{LIMIT, get};

/// How many times a race is repeated.
const ROUNDS: u32 = 2_000;

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// Runs both closures at the same time, on two threads.
fn race<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    let here = AtomicU32::new(0);
    let meet = || {
        here.fetch_add(1, Ordering::SeqCst);
        while here.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let a = scope.spawn(|| {
            meet();
            a()
        });
        meet();
        let b = b();
        (a.join().unwrap(), b)
    })
}

#[test]
fn p01_success_failure_and_cancel_each_arrive() {
    let executor = executor();
    let (promise, future) = executor.new_promise();
    assert!(!future.is_done());
    assert!(promise.set_success(1));
    assert!(future.is_done() && !future.is_cancelled());
    assert_eq!(get(future).unwrap(), 1);

    let (promise, future) = executor.new_promise::<u8>();
    assert!(promise.set_failure(Error::new("no luck")));
    assert!(future.is_done() && !future.is_cancelled());
    assert_eq!(get(future).unwrap_err().to_string(), "no luck");

    let (promise, future) = executor.new_promise::<u8>();
    assert!(future.cancel());
    assert!(promise.is_cancelled() && future.is_done() && future.is_cancelled());
    assert!(get(future).unwrap_err().is_cancelled());

    assert_eq!(get(executor.succeeded(2)).unwrap(), 2);
    let failed = get(executor.failed::<u8>(Error::new("from the start")));
    assert_eq!(failed.unwrap_err().to_string(), "from the start");
}

#[test]
fn p01_a_second_completion_is_refused_and_handed_back() {
    let executor = executor();
    let (mut promise, future) = executor.new_promise();
    assert_eq!(promise.try_success(1), Ok(()));
    assert_eq!(promise.try_success(2), Err(2));
    let back = promise.try_failure(Error::new("late")).unwrap_err();
    assert_eq!(back.to_string(), "late");
    assert!(!future.cancel(), "too late to cancel");
    assert!(!promise.set_success(3));
    assert_eq!(get(future).unwrap(), 1);

    let (mut promise, future) = executor.new_promise();
    promise.try_failure(Error::new("first")).unwrap();
    assert_eq!(promise.try_success(1), Err(1));
    assert!(!promise.complete(Ok(2)));
    assert_eq!(get(future).unwrap_err().to_string(), "first");

    let (mut promise, future) = executor.new_promise();
    assert!(future.cancel());
    assert!(!future.cancel(), "cancelled once");
    assert_eq!(promise.try_success(1), Err(1));
    assert!(!promise.set_failure(Error::new("late")));
    assert!(get(future).unwrap_err().is_cancelled());
}

#[test]
fn p01_the_value_is_taken_once() {
    let (promise, mut future) = executor().new_promise();
    assert!(future.try_take().is_none());
    promise.set_success(7);
    assert_eq!(future.try_take().unwrap().unwrap(), 7);
    let again = future.try_take().unwrap().unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::AlreadyTaken { .. }), "{again}");
    let (told, outcome) = mpsc::channel();
    future.add_listener(move |outcome| told.send(outcome.clone()).unwrap());
    let late = outcome.recv_timeout(LIMIT).unwrap().unwrap_err();
    assert!(matches!(late.kind(), ErrorKind::AlreadyTaken { .. }), "{late}");
}

#[test]
fn p01_completion_and_cancel_race_to_one_winner() {
    let executor = executor();
    for round in 0..ROUNDS {
        let (mut promise, future) = executor.new_promise();
        let canceller = future.canceller();
        let (completed, cancelled) =
            race(move || promise.try_success(round).is_ok(), || canceller.cancel());
        assert_ne!(completed, cancelled, "round {round}: one winner");
        match get(future) {
            Ok(value) => assert!(completed && value == round),
            Err(error) => assert!(cancelled && error.is_cancelled()),
        }
    }
}

#[test]
fn p01_of_two_cancellers_one_wins() {
    let executor = executor();
    for _ in 0..ROUNDS {
        let (promise, future) = executor.new_promise::<u8>();
        let (one, other) = (future.canceller(), future.canceller());
        let (one, other) = race(move || one.cancel(), move || other.cancel());
        assert!(one ^ other);
        drop(promise);
        assert!(get(future).unwrap_err().is_cancelled());
    }
}

#[test]
fn p02_a_cancel_before_uncancellable_wins() {
    let (mut promise, future) = executor().new_promise::<u8>();
    assert!(future.cancel());
    assert!(!promise.set_uncancellable());
    assert!(!promise.set_success(1));
    assert!(get(future).unwrap_err().is_cancelled());
}

#[test]
fn p02_a_cancel_after_uncancellable_loses() {
    let (mut promise, future) = executor().new_promise();
    assert!(promise.set_uncancellable());
    assert!(promise.set_uncancellable(), "still so");
    assert!(!future.cancel() && !future.canceller().cancel());
    assert!(!promise.is_cancelled());
    assert!(promise.set_success(1));
    assert_eq!(get(future).unwrap(), 1);
}

#[test]
fn p02_a_completed_promise_counts_as_uncancellable() {
    let (mut promise, future) = executor().new_promise();
    promise.try_success(1).unwrap();
    assert!(promise.set_uncancellable());
    assert_eq!(get(future).unwrap(), 1);
}

#[test]
fn p02_cancel_and_uncancellable_race_to_one_winner() {
    let executor = executor();
    for round in 0..ROUNDS {
        let (mut promise, future) = executor.new_promise();
        let canceller = future.canceller();
        let start = move || {
            let started = promise.set_uncancellable();
            (started, promise.set_success(round))
        };
        let ((started, completed), cancelled) = race(start, || canceller.cancel());
        assert_ne!(started, cancelled, "round {round}: one winner");
        assert_eq!(started, completed, "what was started completes");
        assert_eq!(get(future).is_ok(), started);
    }
}

#[test]
fn p02_a_cancelled_task_never_runs_and_a_running_one_cannot_be_cancelled() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let queued = executor.submit(|| panic!("ran although cancelled")).unwrap();
    let queued: PromiseFuture<u8> = queued;
    assert!(queued.cancel());

    let (hand_over, handed) = mpsc::channel::<Canceller>();
    let running = executor.submit(move || handed.recv().unwrap().cancel()).unwrap();
    hand_over.send(running.canceller()).unwrap();
    manual.run_now();
    assert!(get(queued).unwrap_err().is_cancelled());
    assert!(!get(running).unwrap(), "it had started");
}

#[test]
fn p02_on_cancel_is_called_once_and_on_the_cancelling_thread() {
    let executor = executor();
    let (told, calls) = mpsc::channel();
    let note = |what: &'static str| {
        let told = told.clone();
        move || told.send((what, thread::current().id())).unwrap()
    };

    let (mut promise, future) = executor.new_promise::<u8>();
    promise.on_cancel(note("replaced"));
    promise.on_cancel(note("before"));
    assert!(future.cancel() && !future.cancel());
    promise.on_cancel(note("after"));

    let (mut promise, future) = executor.new_promise::<u8>();
    promise.on_cancel(note("completed"));
    promise.set_success(1);
    assert!(!future.cancel());

    let here = thread::current().id();
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [("before", here), ("after", here)]);
}

#[test]
fn p02_on_cancel_is_never_missed() {
    let executor = executor();
    for round in 0..ROUNDS {
        let (mut promise, future) = executor.new_promise::<u8>();
        let canceller = future.canceller();
        let calls = Arc::new(AtomicU32::new(0));
        let counted = calls.clone();
        let watch = move || {
            promise.on_cancel(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            });
            promise
        };
        let (promise, cancelled) = race(watch, || canceller.cancel());
        assert!(cancelled);
        assert_eq!(calls.load(Ordering::SeqCst), 1, "round {round}");
        drop(promise);
    }
}

/// Returns the source line at which an error says its promise was created.
fn created(error: &Error) -> (&str, u32) {
    match error.kind() {
        ErrorKind::PromiseDropped { created } | ErrorKind::AlreadyTaken { created } => {
            (created.file(), created.line())
        }
        other => panic!("names no place: {other}"),
    }
}

/// Takes the value of a completed future twice and returns the source line named by the second, failing take.
fn created_at<T: Send + 'static>(mut future: PromiseFuture<T>) -> (String, u32) {
    future.wait_timeout(LIMIT).unwrap();
    let _ = future.try_take().expect("no listeners, so it is there");
    let error = future.try_take().unwrap().map(drop).unwrap_err();
    let (file, line) = created(&error);
    (file.to_owned(), line)
}

#[test]
fn p05_a_dropped_promise_fails_its_future_and_names_its_creation() {
    let executor = executor();
    let (line, (promise, future)) = (line!(), executor.new_promise::<u8>());
    drop(promise);
    let error = get(future).unwrap_err();
    assert_eq!(created(&error), (file!(), line));
    let place = format!("{}:{line}:", file!());
    assert!(error.to_string().contains(&place), "{error}");

    let (line, (promise, future)) = (line!(), executor.new_progressive_promise::<u8>());
    drop(promise);
    assert_eq!(created(&get(future.into_future()).unwrap_err()), (file!(), line));

    let (line, (promise, future)) = (line!(), GlobalExecutor::get().new_promise::<u8>());
    drop(promise);
    assert_eq!(created(&get(future).unwrap_err()), (file!(), line));
}

#[test]
fn p05_a_promise_dropped_by_a_panic_fails_its_future() {
    let executor = executor();
    let (line, (promise, future)) = (line!(), executor.new_promise::<u8>());
    let task = move || {
        let _lost = promise;
        panic!("on purpose");
    };
    executor.execute(task).unwrap();
    assert_eq!(created(&get(future).unwrap_err()), (file!(), line));
}

#[test]
fn p05_every_way_to_create_a_promise_names_the_callers_line() {
    let executor = executor();
    let done = || executor.succeeded(1);
    let here = |line| (file!().to_owned(), line);

    let (line, future) = (line!(), executor.succeeded(1));
    assert_eq!(created_at(future), here(line), "succeeded");
    let (line, future) = (line!(), executor.failed::<u8>(Error::new("x")));
    assert_eq!(created_at(future), here(line), "failed");
    let (line, future) = (line!(), executor.submit(|| 1));
    assert_eq!(created_at(future.unwrap()), here(line), "submit");
    let (line, future) = (line!(), executor.labelled("label").submit(|| 1));
    assert_eq!(created_at(future.unwrap()), here(line), "labelled submit");
    let (line, future) = (line!(), done().map(|n| n + 1));
    assert_eq!(created_at(future), here(line), "map");
    let again = done();
    let (line, future) = (line!(), done().then(|_| again));
    assert_eq!(created_at(future), here(line), "then");
    let (line, future) = (line!(), executor.all([done(), done()]));
    assert_eq!(created_at(future), here(line), "all");
    let (line, future) = (line!(), executor.first([done(), done()]));
    assert_eq!(created_at(future), here(line), "first");
}

#[test]
fn p05_a_promise_of_the_global_executor_names_the_callers_line() {
    let (line, future) = (line!(), GlobalExecutor::get().submit(|| 1));
    assert_eq!(created_at(future.unwrap()), (file!().to_owned(), line));
}

#[test]
fn p05_after_a_cancel_the_drop_does_nothing() {
    let mut manual = ManualExecutor::new();
    let (promise, mut future) = manual.executor().new_promise::<u8>();
    let (told, outcomes) = mpsc::channel();
    future.add_listener(move |outcome| told.send(outcome.clone()).unwrap());
    assert!(future.cancel());
    drop(promise);
    manual.run_now();
    let outcomes: Vec<_> = outcomes.try_iter().collect();
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes[0].as_ref().unwrap_err().is_cancelled());
    assert!(get(future).unwrap_err().is_cancelled());
}

#[test]
fn p05_after_completion_the_drop_does_nothing() {
    let (mut promise, future) = executor().new_promise();
    promise.try_success(1).unwrap();
    drop(promise);
    assert_eq!(get(future).unwrap(), 1);
}

#[test]
fn p08_dropping_a_future_cancels_nothing() {
    let (mut promise, future) = executor().new_promise();
    let canceller = future.canceller();
    drop(future);
    assert!(!promise.is_cancelled());
    assert!(promise.set_uncancellable());
    assert!(promise.set_success(1));
    assert!(!canceller.cancel(), "gone");
}

#[test]
fn p08_a_detached_task_runs() {
    let executor = executor();
    let (told, ran) = mpsc::channel();
    drop(executor.submit(move || told.send(7).unwrap()).unwrap());
    assert_eq!(ran.recv_timeout(LIMIT), Ok(7));
}

#[test]
fn p08_the_listeners_of_a_detached_future_run() {
    let executor = executor();
    let (promise, mut future) = executor.new_promise();
    let (told, outcome) = mpsc::channel();
    future.add_listener(move |outcome| told.send(*outcome.as_ref().unwrap()).unwrap());
    drop(future);
    assert!(promise.set_success(7));
    assert_eq!(outcome.recv_timeout(LIMIT), Ok(7));
}

#[test]
fn p08_is_detached_is_true_when_no_future_or_listener_is_left() {
    let executor = executor();
    let (mut promise, future) = executor.new_promise::<u8>();
    promise.on_cancel(|| {}); // Is called at a cancel only.
    let canceller = future.canceller();
    assert!(!promise.is_detached());
    drop(future);
    assert!(promise.is_detached(), "who could cancel it does not learn what became of it");
    drop(canceller);

    let (promise, mut future) = executor.new_promise::<u8>();
    future.add_listener(|_| {});
    drop(future);
    assert!(!promise.is_detached(), "a listener is told");

    let (promise, future) = executor.new_promise::<u8>();
    let shared = future.shared();
    let other = shared.clone();
    drop(shared);
    assert!(!promise.is_detached());
    drop(other);
    assert!(promise.is_detached());
}

#[test]
fn p08_dropping_a_shared_or_derived_future_cancels_nothing() {
    let executor = executor();
    let (promise, future) = executor.new_promise::<u8>();
    let shared = future.shared();
    drop((shared.clone(), shared));
    assert!(promise.set_success(1));

    let (promise, future) = executor.new_promise::<u8>();
    let (told, mapped) = mpsc::channel();
    drop(future.map(move |n| told.send(n).unwrap()));
    assert!(promise.set_success(2));
    assert_eq!(mapped.recv_timeout(LIMIT), Ok(2), "the work goes on");
}

#[test]
fn p08_a_detached_value_is_dropped() {
    let alive = Arc::new(());
    let (promise, future) = executor().new_promise();
    drop(future);
    assert!(promise.set_success(alive.clone()));
    assert_eq!(Arc::strong_count(&alive), 1);
}
