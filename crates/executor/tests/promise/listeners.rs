//! Listeners: order, threads, panics (P03, P07, E12).

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use waterwheel_executor::{
    Error, EventExecutor, Fault, ManualExecutor, Report, Reporter, UserCode,
};

use crate::support::futures::{LIMIT, Notes, get, on_loop};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

#[test]
fn p03_listeners_run_in_order_of_addition() {
    let mut manual = ManualExecutor::new();
    let notes = Notes::default();
    let (promise, mut future) = manual.executor().new_promise();
    future.add_listener(notes.listener(1));
    future.add_listener(notes.listener(2));
    promise.set_success(7);
    future.add_listener(notes.listener(3)); // Added after completion, but before the earlier listeners have run.
    assert_eq!(notes.take(), [], "only on the executor");
    manual.run_now();
    assert_eq!(notes.take(), [1, 2, 3]);
    future.add_listener(notes.listener(4));
    assert_eq!(notes.take(), []);
    manual.run_now();
    assert_eq!(notes.take(), [4]);
}

#[test]
fn p03_each_threads_listeners_keep_their_order_during_completion() {
    const THREADS: u32 = 4;
    const EACH: u32 = 500;
    let executor = executor();
    for _ in 0..10 {
        let (promise, future) = executor.new_promise();
        let shared = future.shared();
        let notes = Notes::default();
        let start = Barrier::new(THREADS as usize + 1);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shared, notes, start) = (&shared, &notes, &start);
                scope.spawn(move || {
                    start.wait();
                    (0..EACH).for_each(|n| shared.add_listener(notes.listener(thread * EACH + n)));
                });
            }
            start.wait();
            promise.set_success(7);
        });
        let (told, last) = mpsc::channel();
        shared.add_listener(move |_| told.send(()).unwrap());
        last.recv_timeout(LIMIT).unwrap();
        let notes = notes.take();
        assert_eq!(notes.len(), (THREADS * EACH) as usize, "the last one came last");
        for thread in 0..THREADS {
            let own = notes.iter().filter(|note| **note / EACH == thread);
            assert!(own.copied().eq(thread * EACH..(thread + 1) * EACH));
        }
    }
}

#[test]
fn p03_listeners_run_on_the_executor_whichever_thread_completes() {
    let (own, foreign) = (executor(), executor());
    let (told, where_) = mpsc::channel();
    let listened = || {
        let (promise, mut future) = own.new_promise::<u8>();
        let (told, own) = (told.clone(), own.clone());
        future.add_listener(move |_| told.send(own.in_event_loop()).unwrap());
        (promise, future)
    };
    let (promise, _) = listened();
    promise.set_success(1);
    let (promise, _) = listened();
    foreign.execute(move || assert!(promise.set_success(1))).unwrap();
    let (promise, _) = listened();
    own.execute(move || assert!(promise.set_success(1))).unwrap();
    let (_promise, future) = listened();
    assert!(future.cancel());
    let (promise, _) = listened();
    drop(promise);
    let (promise, future) = listened();
    promise.set_success(1);
    future.wait_timeout(LIMIT).unwrap();
    for _ in 0..6 {
        assert_eq!(where_.recv_timeout(LIMIT), Ok(true));
    }
}

#[test]
fn p03_on_the_loop_listeners_are_called_in_place() {
    let executor = executor();
    let notes = Notes::default();
    let own = executor.clone();
    let seen = on_loop(&executor, move || {
        let (promise, mut future) = own.new_promise();
        future.add_listener(notes.listener(1));
        promise.set_success(7);
        notes.add(2);
        future.add_listener(notes.listener(3));
        notes.add(4);
        notes.take()
    });
    assert_eq!(seen, [1, 2, 3, 4]);
}

#[test]
fn p03_a_listener_added_inside_a_listener_runs_after_the_others() {
    let mut manual = ManualExecutor::new();
    let notes = Notes::default();
    let shared = manual.executor().succeeded(7).shared();
    let (inner, inner_notes) = (shared.clone(), notes.clone());
    shared.add_listener(move |_| {
        inner.add_listener(inner_notes.listener(3));
        inner_notes.add(1);
    });
    shared.add_listener(notes.listener(2));
    manual.run_now();
    assert_eq!(notes.take(), [1, 2, 3]);
}

#[test]
fn p03_the_consumer_runs_after_the_listeners_and_owns_the_value() {
    let mut manual = ManualExecutor::new();
    let notes = Notes::default();
    let (promise, mut future) = manual.executor().new_promise();
    future.add_listener(notes.listener(1));
    future.add_listener(notes.listener(2));
    let consumer = notes.clone();
    future.on_complete(move |outcome: Result<Box<u32>, Error>| consumer.add(*outcome.unwrap()));
    promise.set_success(Box::new(3));
    assert_eq!(notes.take(), []);
    manual.run_now();
    assert_eq!(notes.take(), [1, 2, 3]);
}

#[test]
fn p03_listeners_run_after_a_cancel_or_a_dropped_promise() {
    let mut manual = ManualExecutor::new();
    let (told, outcomes) = mpsc::channel();
    let (_cancelled, mut future) = manual.executor().new_promise::<u8>();
    let tell = told.clone();
    future.add_listener(move |outcome| tell.send(outcome.clone()).unwrap());
    assert!(future.cancel());
    let (dropped, future) = manual.executor().new_promise::<u8>();
    future.on_complete(move |outcome| told.send(outcome).unwrap());
    drop(dropped);
    manual.run_now();
    assert!(outcomes.try_recv().unwrap().unwrap_err().is_cancelled());
    let dropped = outcomes.try_recv().unwrap().unwrap_err();
    assert!(dropped.to_string().contains(file!()), "{dropped}");
}

#[test]
fn p07_a_late_listener_is_called_after_the_value_was_taken() {
    let mut manual = ManualExecutor::new();
    let notes = Notes::default();
    let mut future = manual.executor().succeeded(7);
    assert_eq!(future.try_take().unwrap().unwrap(), 7);
    let late = notes.clone();
    future.add_listener(move |outcome| late.add(u32::from(outcome.is_err())));
    manual.run_now();
    assert_eq!(notes.take(), [1], "with an error that says so");
}

thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });

#[test]
fn p03_listeners_nest_sixteen_deep_and_no_deeper() {
    let executor = executor();
    let own = executor.clone();
    let deepest = Arc::new(AtomicU32::new(0));
    let seen = deepest.clone();
    let last = on_loop(&executor, move || {
        let (head, mut future) = own.new_promise::<()>();
        for _ in 0..100 {
            let (next, after) = own.new_promise();
            let deepest = deepest.clone();
            future.on_complete(move |outcome| {
                DEPTH.set(DEPTH.get() + 1);
                deepest.fetch_max(DEPTH.get(), Ordering::SeqCst);
                next.complete(outcome);
                DEPTH.set(DEPTH.get() - 1);
            });
            future = after;
        }
        head.set_success(());
        future
    });
    get(last).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1 + 16, "one from the queue, and those inside it");
}

/// A reporter that collects executor names and faults.
#[derive(Default)]
struct FaultCollector(Mutex<Vec<(String, Fault)>>);

impl Reporter for FaultCollector {
    fn report(&self, report: &Report<'_>) {
        let report = (report.executor.to_owned(), report.fault.clone());
        self.0.lock().unwrap().push(report);
    }
}

#[test]
fn e12_a_panicking_listener_is_reported_with_its_origin_and_the_rest_run() {
    let kept = Arc::new(FaultCollector::default());
    let executor = EventExecutor::builder().name("own").reporter(kept.clone()).build().unwrap();
    let notes = Notes::default();
    let (promise, mut future) = executor.new_promise();
    future.add_listener(notes.listener(1));
    let panics = |_: &Result<u8, Error>| panic!("listener on purpose");
    let line = (line!(), future.add_listener(panics)).0;
    future.add_listener(notes.listener(2));
    let panics = |_: Result<u8, Error>| panic!("consumer on purpose");
    let consumer_line = (line!(), future.on_complete(panics)).0;
    promise.set_success(7);
    on_loop(&executor, || ()); // The loop still runs tasks.
    assert_eq!(notes.take(), [1, 2]);

    let reports = std::mem::take(&mut *kept.0.lock().unwrap());
    let expected = [(line, "listener on purpose"), (consumer_line, "consumer on purpose")];
    assert_eq!(reports.len(), expected.len(), "{reports:?}");
    for ((name, fault), (line, text)) in reports.into_iter().zip(expected) {
        let Fault::Panicked { what: UserCode::Listener, origin, message } = fault else {
            panic!("another fault: {fault}");
        };
        let place = origin.location().unwrap();
        assert_eq!((name.as_str(), message.as_str()), ("own", text));
        assert_eq!((place.file(), place.line()), (file!(), line));
    }
}

/// A panic payload that panics again when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("on purpose: the payload too");
    }
}

#[test]
fn e12_a_panic_whose_payload_panics_stops_no_other_listener() {
    let executor = executor();
    let notes = Notes::default();
    let (promise, mut future) = executor.new_promise();
    future.add_listener(|_| std::panic::panic_any(PanicsOnDrop));
    future.add_listener(notes.listener(1));
    promise.set_success(7);
    on_loop(&executor, || ());
    future.add_listener(notes.listener(2));
    on_loop(&executor, || ());
    assert_eq!(notes.take(), [1, 2]);
}
