//! E21: dropping the last handle of an executor.

use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{EventExecutor, ExecutorState};

use crate::support::{Counter, Gate, ScriptedSupplier, TIMEOUT};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

#[test]
fn e21_dropping_the_last_handle_runs_queued_tasks_and_does_not_block() {
    let (executor, ran) = (executor(), Counter::new());
    let gate = Gate::hold(&executor);
    (0..1000).for_each(|_| executor.execute(ran.task()).unwrap());
    let ended = executor.termination();
    drop(executor); // A drop that waited would never return: a gate holds the loop.
    assert!(!ended.is_done());
    gate.open();
    ended.wait_timeout(TIMEOUT).unwrap();
    ended.join().unwrap();
    assert_eq!(ran.ran(), 1000);
}

#[test]
fn e21_dropping_the_last_handle_has_no_quiet_period() {
    let end = || {
        let executor = executor();
        executor.submit(|| ()).unwrap().join().unwrap();
        let ended = executor.termination();
        let begun = waterwheel_executor::Clock::Monotonic.now();
        drop(executor);
        ended.wait_timeout(TIMEOUT).unwrap();
        waterwheel_executor::Clock::Monotonic.now().since(begun)
    };
    // A busy machine may delay some of them, a quiet period would delay all.
    assert!((0..5).any(|_| end() < waterwheel_executor::DEFAULT_QUIET_PERIOD));
}

#[test]
fn e21_any_clone_keeps_the_executor_alive() {
    let executor = executor();
    let (clone, labelled) = (executor.clone(), executor.labelled("label"));
    executor.execute(|| ()).unwrap();
    drop(executor);
    assert_eq!(clone.state(), ExecutorState::Started);
    drop(clone);
    assert_eq!(labelled.inner().state(), ExecutorState::Started);
    assert_eq!(labelled.submit(|| 7).unwrap().join().unwrap(), 7);
    let ended = labelled.inner().termination();
    drop(labelled);
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e21_the_last_handle_may_be_dropped_on_the_loop_thread() {
    let (executor, ran) = (executor(), Counter::new());
    let ended = executor.termination();
    let gate = Gate::hold(&executor);
    let (inner, after) = (executor.clone(), ran.task());
    let holds_the_last = move || {
        inner.execute(after).unwrap();
        drop(inner);
    };
    executor.execute(holds_the_last).unwrap();
    drop(executor);
    assert!(!ended.is_done(), "a task still holds one");
    gate.open();
    ended.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(ran.ran(), 1);
}

#[test]
fn e21_the_last_handle_may_be_dropped_on_another_executors_loop() {
    let (executor, other) = (executor(), executor());
    executor.execute(|| ()).unwrap();
    let ended = executor.termination();
    other.execute(move || drop(executor)).unwrap();
    ended.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(other.state(), ExecutorState::Started);
}

#[test]
fn e21_a_handle_from_current_keeps_the_executor_alive() {
    let executor = executor();
    let found = executor.submit(|| EventExecutor::current().unwrap());
    let found = found.unwrap().join().unwrap();
    let ended = executor.termination();
    drop(executor);
    assert_eq!(found.submit(|| 7).unwrap().join().unwrap(), 7);
    assert_eq!(found.state(), ExecutorState::Started);
    drop(found);
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e21_promises_futures_and_the_loop_do_not_keep_the_executor_alive() {
    let executor = executor();
    let (promise, future) = executor.new_promise::<()>();
    let done = executor.submit(|| ()).unwrap();
    done.wait_timeout(TIMEOUT).unwrap();
    let ended = executor.termination();
    drop(executor);
    ended.wait_timeout(TIMEOUT).unwrap();
    assert!(!future.is_done());
    promise.set_success(());
    future.join().unwrap();
}

#[test]
fn e21_a_handle_created_after_the_last_was_dropped_does_not_shut_down_again() {
    let executor = executor();
    let gate = Gate::hold(&executor);
    let (tell, told) = mpsc::channel();
    let task = move || {
        let late = EventExecutor::current().unwrap();
        tell.send((late.state(), late.execute(|| ()).is_ok())).unwrap();
    };
    executor.execute(task).unwrap();
    let ended = executor.termination();
    drop(executor);
    gate.open();
    assert_eq!(
        told.recv_timeout(TIMEOUT).unwrap(),
        (ExecutorState::ShuttingDown, true),
        "and accepts"
    );
    ended.wait_timeout(TIMEOUT).unwrap();
    ended.join().unwrap();
}

#[test]
fn e21_an_executor_that_was_never_started_terminates_at_once() {
    let supplier = ScriptedSupplier::new([]);
    let builder = EventExecutor::builder().thread_supplier(supplier.clone());
    let executor = builder.build().unwrap();
    let ended = executor.termination();
    drop(executor);
    assert!(ended.is_done());
    assert_eq!(supplier.calls(), 0);
}

#[test]
fn e21_a_shutdown_under_way_keeps_its_parameters() {
    let executor = executor();
    executor.submit(|| ()).unwrap().join().unwrap();
    let quiet = Duration::from_millis(100);
    let begun = waterwheel_executor::Clock::Monotonic.now();
    let ended = executor.shutdown_gracefully(quiet, TIMEOUT).unwrap();
    drop(executor);
    ended.wait_timeout(TIMEOUT).unwrap();
    assert!(waterwheel_executor::Clock::Monotonic.now().since(begun) >= quiet);
}

thread_local! {
    static HANDLE: EventExecutor = EventExecutor::builder().build().unwrap();
}

#[test]
fn e21_a_thread_local_destructor_may_drop_the_last_handle() {
    // The executor's thread-locals are created after this one, and so they are destroyed before it.
    let ended = std::thread::spawn(|| {
        HANDLE.with(|executor| {
            assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
            executor.termination()
        })
    });
    let ended = ended.join().expect("the thread ends in peace");
    ended.wait_timeout(TIMEOUT).expect("the last handle is gone");
    ended.join().unwrap();
}
