//! Blocking on a promise: where it is refused, and when it returns (P04).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use waterwheel_executor::{
    Clock, Error, ErrorKind, EventExecutor, GlobalExecutor, ManualExecutor, PromiseFuture,
    SharedFuture, WaitError, WouldDeadlock,
};

use crate::support::futures::{LIMIT, get, on_loop};

fn executor(name: &str) -> EventExecutor {
    EventExecutor::builder().name(name).build().unwrap()
}

fn refusal(executor: &str) -> WouldDeadlock {
    WouldDeadlock { executor: executor.to_owned() }
}

/// Asserts that every way to block on an incomplete promise is refused with an error that names `executor`.
fn assert_refused(future: PromiseFuture<u8>, shared: &SharedFuture<u8>, executor: &str) {
    let refused = Err(WaitError::WouldDeadlock(refusal(executor)));
    assert_eq!(future.wait(), refused);
    assert_eq!(future.wait_timeout(LIMIT), refused);
    assert_eq!(shared.wait(), refused);
    assert_eq!(shared.wait_timeout(LIMIT), refused);
    for error in [future.join().unwrap_err(), shared.join().unwrap_err()] {
        match error.kind() {
            ErrorKind::WouldDeadlock(why) => assert_eq!(*why, refusal(executor)),
            other => panic!("another error: {other}"),
        }
        assert!(error.to_string().contains(executor), "{error}");
    }
}

#[test]
fn p04_blocking_on_the_executors_own_thread_is_refused() {
    let own = executor("own");
    let (promise, future) = own.new_promise::<u8>();
    let (kept, shared) = own.new_promise::<u8>();
    let shared = shared.shared();
    on_loop(&own, move || assert_refused(future, &shared, "own"));
    assert!(promise.set_success(1) && kept.set_success(1), "a refusal cancels nothing");

    let (promise, future) = GlobalExecutor::get().new_promise::<u8>();
    let refused = GlobalExecutor::get().submit(move || future.wait()).unwrap();
    let refused = get(refused).unwrap();
    assert_eq!(refused, Err(WaitError::WouldDeadlock(refusal("global"))));
    drop(promise);
}

#[test]
fn p04_a_loop_that_never_blocks_refuses_foreign_promises() {
    let never = EventExecutor::builder().name("never").never_block().build().unwrap();
    let foreign = executor("foreign");
    let (promise, future) = foreign.new_promise::<u8>();
    let (kept, shared) = GlobalExecutor::get().new_promise::<u8>();
    let shared = shared.shared();
    on_loop(&never, move || assert_refused(future, &shared, "never"));
    drop((promise, kept));
}

#[test]
fn p04_an_ordinary_executor_may_wait_for_a_foreign_promise() {
    let (waiting, working) = (executor("waiting"), executor("working"));
    let (promise, future) = working.new_promise::<u8>();
    let (told, started) = mpsc::channel();
    let joined = waiting.submit(move || {
        told.send(()).unwrap();
        future.join().unwrap()
    });
    started.recv_timeout(LIMIT).unwrap();
    working.execute(move || assert!(promise.set_success(7))).unwrap();
    assert_eq!(get(joined.unwrap()).unwrap(), 7);
}

/// Asserts that no way to block on a completed future is refused.
fn assert_never_refused(executor: &EventExecutor) {
    let plain = executor.succeeded(7u8);
    assert_eq!(plain.wait(), Ok(()));
    assert_eq!(plain.wait_timeout(Duration::ZERO), Ok(()));
    assert_eq!(plain.join().unwrap(), 7);
    assert_eq!(executor.failed::<u8>(Error::new("x")).join().unwrap_err().to_string(), "x");
    let (promise, future) = executor.new_promise::<u8>();
    assert!(future.cancel());
    assert!(future.join().unwrap_err().is_cancelled());
    drop(promise);
    let shared = executor.succeeded(8u8).shared();
    assert_eq!(shared.wait(), Ok(()));
    assert_eq!(shared.wait_timeout(Duration::ZERO), Ok(()));
    assert_eq!(shared.join().unwrap(), 8);
}

#[test]
fn p04_a_completed_future_never_refuses() {
    let own = executor("own");
    let of_own = own.clone();
    on_loop(&own, move || assert_never_refused(&of_own));
    let never = EventExecutor::builder().never_block().build().unwrap();
    on_loop(&never, move || assert_never_refused(&own));
}

#[test]
fn p04_a_completed_future_is_joined_on_its_loop_after_its_listeners() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let (promise, mut future) = executor.new_promise();
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    future.add_listener(move |_| tell.store(true, Ordering::SeqCst));
    let joined = executor.submit(move || (future.join(), told.load(Ordering::SeqCst)));
    promise.set_success(7); // Its listener is queued after the task that joins it.
    manual.run_now();
    let (value, told) = get(joined.unwrap()).unwrap();
    assert_eq!(value.unwrap(), 7);
    assert!(told, "the listener was called first");
}

#[test]
fn p04_a_completed_shared_future_does_not_refuse_its_own_listener() {
    let mut manual = ManualExecutor::new();
    let shared = manual.executor().succeeded(7).shared();
    let (told, joined) = mpsc::channel();
    let inside = shared.clone();
    shared.add_listener(move |_| told.send(inside.join()).unwrap());
    manual.run_now();
    assert_eq!(joined.try_recv().unwrap().unwrap(), 7);
}

#[test]
fn p04_a_wait_ends_at_its_timeout() {
    let (promise, future) = executor("late").new_promise::<u8>();
    let (clock, time) = (Clock::Monotonic, Duration::from_millis(5));
    let begun = clock.now();
    assert_eq!(future.wait_timeout(time), Err(WaitError::TimedOut));
    assert!(clock.now().since(begun) >= time, "not before");
    let shared = future.shared();
    assert_eq!(shared.wait_timeout(Duration::ZERO), Err(WaitError::TimedOut));
    promise.set_success(7);
    assert_eq!(shared.join().unwrap(), 7);
}

#[test]
fn p04_all_waiting_threads_are_released() {
    let (promise, future) = executor("any").new_promise();
    let start = Barrier::new(5);
    thread::scope(|scope| {
        let wait = || {
            start.wait();
            future.wait_timeout(LIMIT)
        };
        let waiting: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
        start.wait();
        promise.set_success(7);
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
    });
    assert_eq!(get(future).unwrap(), 7);
}

#[test]
fn p04_a_nested_loop_refuses_to_block_on_the_outer_loop() {
    for builder in [EventExecutor::builder(), EventExecutor::builder().never_block()] {
        let executor = builder.name("outer").build().unwrap();
        let outer = executor.clone();
        let nested = executor.submit(move || {
            let mut manual = ManualExecutor::new();
            let never = outer.submit(|| ()).unwrap();
            let waits = move || never.wait_timeout(Duration::from_millis(50));
            let refused = manual.executor().submit(waits).unwrap();
            manual.run_now();
            refused.join().unwrap()
        });
        match get(nested.unwrap()).unwrap() {
            Err(WaitError::WouldDeadlock(refused)) => assert_eq!(refused.executor, "outer"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn p04_a_nested_loop_refuses_to_block_when_the_outer_loop_never_blocks() {
    let (_other, stranger) = executor("other").new_promise::<()>();
    let executor = EventExecutor::builder().never_block().build().unwrap();
    let nested = executor.submit(move || {
        let mut manual = ManualExecutor::new();
        let refused = manual
            .executor()
            .submit(move || stranger.wait_timeout(Duration::from_millis(50)))
            .unwrap();
        manual.run_now();
        refused.join().unwrap()
    });
    let refused = get(nested.unwrap()).unwrap();
    assert!(matches!(refused, Err(WaitError::WouldDeadlock(_))), "{refused:?}");
}
