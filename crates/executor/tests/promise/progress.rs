//! P07: promises that report progress.

use std::sync::{Arc, Mutex, mpsc};

use waterwheel_executor::{
    Error, EventExecutor, Fault, GlobalExecutor, InvalidProgress, ManualExecutor, Progress,
    ProgressivePromise, Report, Reporter,
};

use crate::support::Log;
use crate::support::futures::{LIMIT, get};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// Collects the messages of the listeners, in order, until the last listener is dropped.
fn messages<R>(told: &mpsc::Receiver<R>) -> Vec<R> {
    let mut messages = Vec::new();
    loop {
        match told.recv_timeout(LIMIT) {
            Ok(word) => messages.push(word),
            Err(mpsc::RecvTimeoutError::Disconnected) => return messages,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a listener is neither called nor gone"),
        }
    }
}

#[test]
fn p07_progress_listeners_run_in_order_and_before_the_outcome() {
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
    assert_eq!(messages(&told), expected);
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
        promise.set_success(7) // The progress is queued after this task.
    });
    promise.set_progress(1, None).unwrap();
    hand_over.send(promise).unwrap();
    assert!(get(completed.unwrap()).unwrap());
    assert_eq!(get(future.into_future()).unwrap(), 7);
    assert_eq!(messages(&told), [1, 99]);
}

#[test]
fn p07_progress_set_inside_a_progress_listener_comes_before_the_outcome() {
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
    assert_eq!(messages(&told), [1, 2, 99]);
}

#[test]
fn p07_invalid_progress_is_refused() {
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
    assert_eq!(messages(&told), [(5, Some(10)), (10, Some(10))]);
}

#[test]
fn p07_a_promise_completed_by_try_success_refuses_progress() {
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
fn p07_progress_comes_before_a_try_success_on_the_executor() {
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
fn p07_a_progress_listener_gets_progress_set_after_it_was_added() {
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
    assert_eq!(messages(&told), [2, 3]);
}

#[test]
fn p07_progress_listeners_of_a_terminated_executor_run_on_the_global_one() {
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
    assert_eq!(messages(&told), [(1, true), (2, true)]);
}

/// A reporter that collects the source lines of reported panics.
#[derive(Default)]
struct LineCollector(Mutex<Vec<u32>>);

impl Reporter for LineCollector {
    fn report(&self, report: &Report<'_>) {
        if let Fault::Panicked { origin, .. } = report.fault {
            self.0.lock().unwrap().push(origin.location().unwrap().line());
        }
    }
}

#[test]
fn e12_a_panicking_progress_listener_is_reported_and_the_others_run() {
    let kept = Arc::new(LineCollector::default());
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
    assert_eq!(messages(&told), [1, 2]);
    assert_eq!(*kept.0.lock().unwrap(), [line, line], "each time, with its source line");
}

#[test]
fn p01_a_progressive_promise_returns_a_late_value_or_error() {
    let executor = executor();
    let (mut promise, future) = executor.new_progressive_promise();
    assert_eq!(promise.try_success("first"), Ok(()));
    assert_eq!(promise.try_success("second"), Err("second"));
    let back = promise.try_failure(Error::new("third")).unwrap_err();
    assert_eq!(back.to_string(), "third");
    assert_eq!(future.into_future().join().unwrap(), "first");

    let (mut promise, future) = executor.new_progressive_promise::<&str>();
    promise.try_failure(Error::new("broken")).unwrap();
    assert_eq!(promise.try_success("late"), Err("late"));
    assert_eq!(future.into_future().join().unwrap_err().to_string(), "broken");

    let (mut promise, future) = executor.new_progressive_promise::<&str>();
    assert!(future.cancel() && promise.is_cancelled());
    assert_eq!(promise.try_success("late"), Err("late"));
    assert!(promise.try_failure(Error::new("late")).is_err());
}

#[test]
fn p06_a_progressive_future_is_awaited() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let log = Log::new();
    let (mut promise, mut future) = executor.new_progressive_promise();
    let noted = log.clone();
    future.add_progress_listener(move |progress| noted.add(progress.done));
    let works = move || {
        promise.set_progress(1, Some(2)).unwrap();
        promise.set_progress(2, Some(2)).unwrap();
        promise.set_success("copied")
    };
    executor.execute(move || assert!(works())).unwrap();
    let awaited = manual.block_on(async move { future.await });
    assert_eq!(awaited.unwrap().unwrap(), "copied");
    assert_eq!(log.take(), [1, 2], "progress listeners stay");
}
