//! Futures made of futures, and promises that tell how far they are (P07).

use std::sync::{Arc, Mutex, mpsc};

use waterwheel_executor::{
    Error, ErrorKind, EventExecutor, Fault, GlobalExecutor, InvalidProgress, ManualExecutor,
    Progress, ProgressivePromise, PromiseFuture, Report, Reporter,
};

#[path = "support/waiting.rs"]
mod waiting;
use waiting::{LIMIT, get, on_loop};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// The source line and the message of a panic that became an error.
fn panic_of(error: &Error) -> (u32, &str) {
    match error.kind() {
        ErrorKind::Panicked { origin, message } => (origin.location().unwrap().line(), message),
        other => panic!("another error: {other}"),
    }
}

#[test]
fn p07_map_runs_on_the_executor() {
    let executor = executor();
    let own = executor.clone();
    let mapped = executor.succeeded(20).map(move |n| (n + 1, own.in_event_loop()));
    assert_eq!(mapped.executor(), executor.id());
    assert_eq!(get(mapped).unwrap(), (21, true));
    let (promise, future) = executor.new_promise();
    let mapped = future.map(|n: u8| n + 1).map(|n| n.to_string());
    promise.set_success(6);
    assert_eq!(get(mapped).unwrap(), "7");
}

#[test]
fn p07_a_failure_passes_map_and_then_by() {
    let executor = executor();
    let mapped = executor.failed::<u8>(Error::new("lost")).map(|_| panic!("called"));
    assert_eq!(get::<()>(mapped).unwrap_err().to_string(), "lost");
    let own = executor.clone();
    let then = executor.failed::<u8>(Error::new("lost")).then(move |n| {
        own.execute(|| panic!("called")).unwrap();
        own.succeeded(n)
    });
    assert_eq!(get(then).unwrap_err().to_string(), "lost");
    let own = executor.clone();
    let then = executor.succeeded(1).then(move |_| own.failed::<u8>(Error::new("second")));
    assert_eq!(get(then).unwrap_err().to_string(), "second");
    let (promise, future) = executor.new_promise::<u8>();
    drop(promise);
    let error = get(future.map(|n| n)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::PromiseDropped { .. }), "{error}");
}

#[test]
fn p07_a_panic_in_map_or_then_becomes_a_failure_with_its_origin() {
    let executor = executor();
    let panics = |_: u8| -> u8 { panic!("in map") };
    let (line, mapped) = (line!(), executor.succeeded(1).map(panics));
    assert_eq!(panic_of(&get(mapped).unwrap_err()), (line, "in map"));
    let panics = |_: u8| -> PromiseFuture<u8> { panic!("in then") };
    let (line, then) = (line!(), executor.succeeded(1).then(panics));
    assert_eq!(panic_of(&get(then).unwrap_err()), (line, "in then"));
    on_loop(&executor, || ()); // The loop lives on.
}

#[test]
fn p07_then_follows_the_second_future() {
    let (own, foreign) = (executor(), executor());
    let (second, second_future) = foreign.new_promise();
    let then = own.succeeded(1).then(move |_| second_future);
    assert_eq!(then.executor(), own.id());
    on_loop(&own, || ());
    assert!(!then.is_done(), "the second is not");
    let here = own.clone();
    let then = then.map(move |n| (n, here.in_event_loop()));
    second.set_success(2);
    assert_eq!(get(then).unwrap(), (2, true));
}

#[test]
fn p07_cancelling_a_derived_future_cancels_its_source() {
    let executor = executor();
    let (promise, future) = executor.new_promise::<u8>();
    let mapped = future.map(|n| n + 1).map(|_| panic!("called"));
    assert!(mapped.cancel());
    assert!(promise.is_cancelled());
    assert!(get::<()>(mapped).unwrap_err().is_cancelled());

    let (first, future) = executor.new_promise::<u8>();
    let then = future.then(|_| -> PromiseFuture<u8> { panic!("called") });
    assert!(then.cancel());
    assert!(first.is_cancelled());
    assert!(get(then).unwrap_err().is_cancelled());

    let (second, second_future) = executor.new_promise::<u8>();
    let then = executor.succeeded(1).then(move |_| second_future);
    on_loop(&executor, || ()); // Now the second is under way.
    assert!(then.cancel());
    assert!(second.is_cancelled());
}

#[test]
fn p07_cancelling_a_source_fails_what_was_derived() {
    let executor = executor();
    let (_promise, future) = executor.new_promise::<u8>();
    let canceller = future.canceller();
    let own = executor.clone();
    let derived = future.map(|n| n + 1).then(move |n| own.succeeded(n));
    assert!(canceller.cancel());
    assert!(get(derived).unwrap_err().is_cancelled());
}

#[test]
fn p07_a_source_that_cannot_be_cancelled_goes_on_alone() {
    let executor = executor();
    let (mut promise, future) = executor.new_promise::<u8>();
    assert!(promise.set_uncancellable());
    let mapped = future.map(|_| panic!("called"));
    assert!(mapped.cancel(), "what is derived can be");
    assert!(promise.set_success(1), "and the source does not mind");
    on_loop(&executor, || ());
    assert!(get::<()>(mapped).unwrap_err().is_cancelled());
}

#[test]
fn p07_all_gives_the_values_in_the_order_of_the_futures() {
    let (own, foreign) = (executor(), executor());
    let (late, late_future) = foreign.new_promise();
    let (later, later_future) = own.new_promise();
    let all = own.all([late_future, later_future, foreign.succeeded(3)]);
    assert_eq!(all.executor(), own.id());
    on_loop(&foreign, || ());
    assert!(!all.is_done());
    later.set_success(2);
    late.set_success(1);
    assert_eq!(get(all).unwrap(), [1, 2, 3]);
    assert_eq!(get(own.all::<u8>([])).unwrap(), [], "none are all there");
}

#[test]
fn p07_all_fails_with_the_first_failure_and_leaves_the_rest_alone() {
    let executor = executor();
    let (pending, pending_future) = executor.new_promise::<u8>();
    let (failing, failing_future) = executor.new_promise();
    let all = executor.all([executor.succeeded(1), pending_future, failing_future]);
    failing.set_failure(Error::new("first of all"));
    assert_eq!(get(all).unwrap_err().to_string(), "first of all");
    assert!(!pending.is_cancelled());
    assert!(pending.set_failure(Error::new("second")));
    on_loop(&executor, || ());
}

#[test]
fn p07_first_takes_the_first_outcome_of_either_kind() {
    let executor = executor();
    let (slow, slow_future) = executor.new_promise();
    let (fast, fast_future) = executor.new_promise();
    let first = executor.first([slow_future, fast_future]);
    fast.set_success("fast");
    assert_eq!(get(first).unwrap(), "fast");
    assert!(!slow.is_cancelled(), "left alone");
    assert!(slow.set_success("slow"));

    let (pending, pending_future) = executor.new_promise::<u8>();
    let first = executor.first([pending_future, executor.failed(Error::new("no"))]);
    assert_eq!(get(first).unwrap_err().to_string(), "no");
    drop(pending);

    let none = get(executor.first::<u8>([])).unwrap_err();
    assert!(matches!(none.kind(), ErrorKind::NothingToWaitFor), "{none}");
}

#[test]
fn p07_cancelling_all_or_first_cancels_each() {
    let executor = executor();
    type Each = [PromiseFuture<u8>; 2];
    let all = |each: Each| executor.all(each).map(drop);
    let first = |each: Each| executor.first(each).map(drop);
    for combine in [&all as &dyn Fn(Each) -> PromiseFuture<()>, &first] {
        let (one, one_future) = executor.new_promise();
        let (other, other_future) = executor.new_promise();
        let combined = combine([one_future, other_future]);
        assert!(combined.cancel());
        assert!(one.is_cancelled() && other.is_cancelled());
        assert!(get(combined).unwrap_err().is_cancelled());
    }
}

/// What listeners told, in order, until the last of them is gone.
fn heard<R>(told: &mpsc::Receiver<R>) -> Vec<R> {
    let mut heard = Vec::new();
    loop {
        match told.recv_timeout(LIMIT) {
            Ok(word) => heard.push(word),
            Err(mpsc::RecvTimeoutError::Disconnected) => return heard,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a listener is neither called nor gone"),
        }
    }
}

#[test]
fn p07_progress_is_heard_in_order_and_before_the_outcome() {
    let executor = executor();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let (tell, told) = mpsc::channel();
    for listener in [1, 2] {
        let (tell, own) = (tell.clone(), executor.clone());
        future.add_progress_listener(move |progress| {
            assert!(own.in_event_loop());
            tell.send((listener, progress.done, progress.total)).unwrap();
        });
    }
    future.add_listener(move |_| tell.send((3, 0, None)).unwrap());
    promise.set_progress(1, None).unwrap();
    promise.set_progress(2, Some(4)).unwrap();
    promise.set_progress(2, Some(2)).unwrap();
    assert!(promise.set_success(7));
    assert_eq!(get(future.into_future()).unwrap(), 7);
    let expected = [
        (1, 1, None),
        (2, 1, None),
        (1, 2, Some(4)),
        (2, 2, Some(4)),
        (1, 2, Some(2)),
        (2, 2, Some(2)),
        (3, 0, None),
    ];
    assert_eq!(heard(&told), expected);
}

#[test]
fn p07_progress_from_another_thread_is_not_overtaken_by_the_outcome() {
    let executor = executor();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let (tell, told) = mpsc::channel();
    let outcome = tell.clone();
    future.add_progress_listener(move |progress| tell.send(progress.done).unwrap());
    future.add_listener(move |_| outcome.send(99).unwrap());
    let (hand_over, handed) = mpsc::channel();
    let completed = executor.submit(move || {
        let promise: ProgressivePromise<u8> = handed.recv().unwrap();
        promise.set_success(7) // The progress is queued behind this very task.
    });
    promise.set_progress(1, None).unwrap();
    hand_over.send(promise).unwrap();
    assert!(get(completed.unwrap()).unwrap());
    assert_eq!(get(future.into_future()).unwrap(), 7);
    assert_eq!(heard(&told), [1, 99]);
}

#[test]
fn p07_progress_made_inside_a_progress_listener_comes_before_the_outcome() {
    let mut manual = ManualExecutor::new();
    let (promise, mut future) = manual.executor().new_progressive_promise();
    let (tell, told) = mpsc::channel();
    let outcome = tell.clone();
    let held = Arc::new(Mutex::new(Some(promise)));
    let inside = held.clone();
    future.add_progress_listener(move |progress| {
        tell.send(progress.done).unwrap();
        if progress.done == 1 {
            let mut promise = inside.lock().unwrap().take().unwrap();
            promise.set_progress(2, None).unwrap();
            assert!(promise.set_success(7));
        }
    });
    future.add_listener(move |_| outcome.send(99).unwrap());
    let mut promise = held.lock().unwrap().take().unwrap();
    promise.set_progress(1, None).unwrap();
    *held.lock().unwrap() = Some(promise);
    manual.run_now();
    drop(future);
    assert_eq!(heard(&told), [1, 2, 99]);
}

#[test]
fn p07_progress_that_makes_no_sense_is_refused() {
    let mut manual = ManualExecutor::new();
    let (mut promise, mut future) = manual.executor().new_progressive_promise::<u8>();
    let (tell, told) = mpsc::channel();
    future.add_progress_listener(move |Progress { done, total }| tell.send((done, total)).unwrap());
    promise.set_progress(5, Some(10)).unwrap();
    let beyond = InvalidProgress::BeyondTotal { done: 11, total: 10 };
    assert_eq!(promise.set_progress(11, Some(10)), Err(beyond));
    assert!(beyond.to_string().contains("11") && beyond.to_string().contains("10"), "{beyond}");
    let backwards = InvalidProgress::Backwards { done: 4, before: 5 };
    assert_eq!(promise.set_progress(4, Some(10)), Err(backwards));
    assert!(backwards.to_string().contains('5'), "{backwards}");
    promise.set_progress(10, Some(10)).unwrap();
    assert!(future.cancel() && promise.is_cancelled());
    assert_eq!(promise.set_progress(10, Some(10)), Err(InvalidProgress::Cancelled));
    assert!(!promise.set_uncancellable());
    assert!(!promise.set_success(7));
    manual.run_now();
    drop(future);
    assert_eq!(heard(&told), [(5, Some(10)), (10, Some(10))]);
}

#[test]
fn p07_a_progressive_promise_that_was_completed_by_a_try_form_reports_no_more() {
    let executor = EventExecutor::builder().build().unwrap();
    let (mut promise, future) = executor.new_progressive_promise();
    assert_eq!(promise.try_success(7), Ok(()));
    assert_eq!(promise.set_progress(1, None), Err(InvalidProgress::Completed));
    assert_eq!(promise.try_success(8), Err(8), "the second value comes back");
    assert!(matches!(promise.try_complete(Ok(9)), Err(Ok(9))));
    assert!(promise.set_uncancellable() && !promise.is_cancelled());
    assert!(!promise.set_success(10), "too late");
    assert_eq!(future.into_future().join().unwrap(), 7);

    let (mut promise, future) = executor.new_progressive_promise::<u8>();
    assert!(future.cancel());
    assert_eq!(promise.try_success(1), Err(1));
}

#[test]
fn p07_progress_is_told_before_a_completion_by_a_try_form_on_the_executor() {
    let executor = EventExecutor::builder().build().unwrap();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let (tell, told) = std::sync::mpsc::channel();
    let tell_end = tell.clone();
    future.add_progress_listener(move |progress| tell.send(progress.done).unwrap());
    future.into_future().on_complete(move |end| tell_end.send(end.unwrap()).unwrap());
    let (hand_over, handed) = std::sync::mpsc::channel::<ProgressivePromise<u64>>();
    executor.execute(move || handed.recv().unwrap().try_success(100).unwrap()).unwrap();
    promise.set_progress(1, None).unwrap(); // The loop is busy: queued for the listeners.
    hand_over.send(promise).unwrap();
    assert_eq!(told.iter().collect::<Vec<_>>(), [1, 100]);
}

#[test]
fn p07_a_progress_listener_hears_what_comes_after_it() {
    let mut manual = ManualExecutor::new();
    let (mut promise, mut future) = manual.executor().new_progressive_promise();
    let (tell, told) = mpsc::channel();
    promise.set_progress(1, None).unwrap();
    future.add_progress_listener(move |progress| tell.send(progress.done).unwrap());
    promise.set_progress(2, None).unwrap();
    let plain = future.into_future(); // Progress listeners stay.
    promise.set_progress(3, None).unwrap();
    promise.set_success(7);
    assert_eq!(told.try_iter().count(), 0, "only on the executor");
    manual.run_now();
    assert_eq!(get(plain).unwrap(), 7);
    assert_eq!(heard(&told), [2, 3]);
}

#[test]
fn p07_progress_of_a_terminated_executor_is_heard_on_the_global_one() {
    let executor = executor();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let (tell, told) = mpsc::channel();
    future.add_progress_listener(move |progress| {
        tell.send((progress.done, GlobalExecutor::get().in_event_loop())).unwrap();
    });
    executor.shutdown().wait_timeout(LIMIT).unwrap();
    promise.set_progress(1, None).unwrap();
    promise.set_progress(2, None).unwrap();
    promise.set_success(7);
    assert_eq!(get(future.into_future()).unwrap(), 7);
    assert_eq!(heard(&told), [(1, true), (2, true)]);
}

/// Keeps the lines of what is reported.
#[derive(Default)]
struct Kept(Mutex<Vec<u32>>);

impl Reporter for Kept {
    fn report(&self, report: &Report<'_>) {
        if let Fault::Panicked { origin, .. } = report.fault {
            self.0.lock().unwrap().push(origin.location().unwrap().line());
        }
    }
}

#[test]
fn e12_a_panicking_progress_listener_is_reported_and_the_rest_hear() {
    let kept = Arc::new(Kept::default());
    let executor = EventExecutor::builder().reporter(kept.clone()).build().unwrap();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let (tell, told) = mpsc::channel();
    let panics = |_| panic!("on purpose");
    let line = (line!(), future.add_progress_listener(panics)).0;
    future.add_progress_listener(move |progress| tell.send(progress.done).unwrap());
    promise.set_progress(1, None).unwrap();
    promise.set_progress(2, None).unwrap();
    promise.set_success(7);
    assert_eq!(get(future.into_future()).unwrap(), 7);
    assert_eq!(heard(&told), [1, 2]);
    assert_eq!(*kept.0.lock().unwrap(), [line, line], "each time, with its source line");
}
