//! E19: the immediate executor, which runs tasks on the submitting thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;

use waterwheel_executor::{EventExecutor, ImmediateExecutor, UserCode};

use crate::support::{Counter, FaultLog, Log, TIMEOUT, panic_quietly, with_timeout};

/// Calls `f` on a thread with a stack of 64 KiB.
fn on_a_small_stack<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(64 * 1024);
    thread.spawn(f).unwrap().join().unwrap()
}

#[test]
fn e19_an_immediate_task_has_run_when_execute_returns() {
    let (here, ran) = (std::thread::current().id(), Rc::new(RefCell::new(None)));
    let inner = ran.clone(); // Need not be `Send`: the task stays on this thread.
    ImmediateExecutor.execute(move || *inner.borrow_mut() = Some(std::thread::current().id()));
    assert_eq!(*ran.borrow(), Some(here));
}

#[test]
fn e19_an_immediate_submission_is_done_when_it_returns() {
    let mut done = ImmediateExecutor.submit(|| 7);
    assert!(done.is_done() && !done.cancel());
    assert_eq!(done.try_take().unwrap().unwrap(), 7);
    let failed = ImmediateExecutor.submit(|| panic_quietly("at once"));
    assert!(failed.join().unwrap_err().to_string().contains("at once"));
}

#[test]
fn e19_tasks_submitted_by_an_immediate_task_run_after_it_and_in_order() {
    let log = Log::new();
    let note = |what: &'static str| {
        let log = log.clone();
        move || log.add(what)
    };
    let (begin, end) = (note("outer begins"), note("outer ends"));
    let (first, second, third) = (note("first"), note("second"), note("third"));
    ImmediateExecutor.execute(move || {
        begin();
        ImmediateExecutor.execute(move || {
            first();
            ImmediateExecutor.execute(third);
        });
        ImmediateExecutor.execute(second);
        end();
    });
    assert_eq!(log.take(), ["outer begins", "outer ends", "first", "second", "third"]);
}

#[test]
fn e19_a_hundred_thousand_nested_submissions_fit_a_small_stack() {
    fn nested(left: usize, ran: Counter) {
        ran.task()();
        if left > 1 {
            ImmediateExecutor.execute(move || nested(left - 1, ran));
        }
    }
    let ran = Counter::new();
    let inner = ran.clone();
    on_a_small_stack(move || ImmediateExecutor.execute(move || nested(100_000, inner)));
    assert_eq!(ran.ran(), 100_000);
}

#[test]
fn e19_a_hundred_thousand_chained_promises_fit_a_small_stack() {
    let sum = on_a_small_stack(|| {
        let (promise, mut last) = ImmediateExecutor.new_promise();
        for _ in 0..100_000 {
            let (next, future) = ImmediateExecutor.new_promise();
            last.on_complete(move |value: Result<u32, _>| {
                next.set_success(value.unwrap() + 1);
            });
            last = future;
        }
        promise.set_success(0);
        last.try_take().expect("all told when it returns").unwrap()
    });
    assert_eq!(sum, 100_000);
}

#[test]
fn e12_a_panic_of_an_immediate_task_is_reported_by_the_loop_it_runs_on_and_others_still_run() {
    let (faults, ran) = (FaultLog::new(), Counter::new());
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let (after, next) = (ran.task(), ran.task());
    let panics = move || {
        ImmediateExecutor.execute(move || {
            ImmediateExecutor.execute(after);
            panic_quietly("immediately");
        });
        ImmediateExecutor.execute(next);
        line!() - 5
    };
    let line = executor.submit(panics).unwrap().join().unwrap();
    let expected = (UserCode::Task, format!("{}:{line}", file!()), "immediately".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
    assert_eq!(ran.ran(), 2);
}

#[test]
fn e12_a_panic_of_an_immediate_task_does_not_reach_its_submitter() {
    ImmediateExecutor.execute(|| panic_quietly("to the log"));
    assert_eq!(ImmediateExecutor.submit(|| 7).join().unwrap(), 7);
}

#[test]
fn e19_listeners_of_an_immediate_promise_run_on_the_completing_thread() {
    let (promise, mut future) = ImmediateExecutor.new_promise();
    let (tell, told) = mpsc::channel();
    let listener = move |_: &Result<i32, _>| tell.send(std::thread::current().id()).unwrap();
    future.add_listener(listener);
    let completes = move || {
        promise.set_success(7);
        (std::thread::current().id(), told.try_recv().ok())
    };
    let (there, listened) = std::thread::spawn(completes).join().unwrap();
    assert_eq!(listened, Some(there), "and before completing returns");
    let (tell, told) = mpsc::channel();
    future.add_listener(move |_| tell.send(std::thread::current().id()).unwrap());
    assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), std::thread::current().id(), "a late one here");
}

#[test]
fn p04_an_immediate_task_cannot_wait_for_one_that_runs_after_it() {
    let outcome = with_timeout(|| {
        let inside = || ImmediateExecutor.submit(|| 7).join();
        ImmediateExecutor.submit(inside).join()
    });
    let refused = outcome.unwrap().unwrap_err();
    assert!(refused.to_string().contains("waiting here would block"), "{refused}");
}

/// Panics when it is dropped.
#[derive(Debug)]
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic_quietly("in a destructor");
    }
}

#[test]
fn e19_a_panicking_destructor_does_not_stop_later_immediate_tasks() {
    let executor = EventExecutor::builder().reporter(FaultLog::new()).build().unwrap();
    let drops_the_last = || {
        let (promise, mut future) = ImmediateExecutor.new_promise();
        future.add_listener(|_| ());
        drop(future);
        promise.set_success(PanicsOnDrop); // The listener runs after this task, and then the value is dropped.
    };
    let _ = executor.submit(move || ImmediateExecutor.execute(drops_the_last)).unwrap().join();
    let still_runs = executor.submit(|| ImmediateExecutor.submit(|| 7).try_take().is_some());
    assert!(still_runs.unwrap().join().unwrap());
}

#[test]
fn p04_a_completed_future_is_joined_inside_an_immediate_task() {
    let joined = with_timeout(|| {
        let (tell, told) = mpsc::channel();
        ImmediateExecutor.execute(move || {
            let (promise, mut future) = ImmediateExecutor.new_promise();
            future.add_listener(|_| ());
            promise.set_success(7);
            tell.send((future.is_done(), future.join().unwrap())).unwrap();
        });
        told.try_recv().unwrap()
    });
    assert_eq!(joined, (true, 7));
}
