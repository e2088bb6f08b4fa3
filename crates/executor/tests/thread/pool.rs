//! The fixed pool of threads that pooled executors share (E05, L12).

use std::io;
use std::sync::{Arc, Mutex};

use waterwheel_executor::{
    ErrorKind, EventExecutor, ExecutorState, RejectReason, ThreadFactory, ThreadPool, WaitError,
};

use crate::support::{Counter, Gate, TIMEOUT, panic_quietly, shut_down, with_timeout};

fn pool(threads: usize) -> Arc<ThreadPool> {
    Arc::new(ThreadPool::new(ThreadFactory::new("shared"), threads).unwrap())
}

fn pooled(pool: &Arc<ThreadPool>) -> EventExecutor {
    EventExecutor::builder().thread_supplier(pool.clone()).build_pooled().unwrap()
}

#[test]
fn l12_executors_share_the_threads_of_a_pool_and_keep_their_order() {
    let pool = pool(2);
    assert_eq!(pool.threads(), 2);
    let executors: Vec<_> = (0..20).map(|_| pooled(&pool)).collect();
    let logs: Vec<_> = executors.iter().map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    for n in 0..100 {
        for (executor, log) in executors.iter().zip(&logs) {
            let log = log.clone();
            executor.execute(move || log.lock().unwrap().push(n)).unwrap();
        }
    }
    executors.iter().for_each(shut_down);
    let in_order: Vec<_> = (0..100).collect();
    assert!(logs.iter().all(|log| *log.lock().unwrap() == in_order));
}

#[test]
fn e05_the_threads_of_a_pool_are_named_by_its_factory() {
    let executor = pooled(&pool(1));
    let name = executor.submit(|| std::thread::current().name().map(str::to_owned));
    let name = name.unwrap().join().unwrap().unwrap();
    assert!(name.starts_with("shared-") && name.ends_with("-1"), "{name}");
}

#[test]
fn e05_a_pool_without_threads_is_an_error() {
    let error = ThreadPool::new(ThreadFactory::new("none"), 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn e05_a_pool_whose_thread_cannot_be_started_is_an_error_and_leaves_no_thread() {
    let factory = ThreadFactory::new("pinned").pin_to([0, usize::MAX]);
    let error = with_timeout(|| ThreadPool::new(factory, 2).unwrap_err());
    assert!(error.to_string().contains("cannot pin"), "{error}");
}

#[test]
fn e05_a_pool_refuses_a_threaded_executor_with_an_error_that_names_the_remedy() {
    let executor =
        EventExecutor::builder().name("greedy").thread_supplier(pool(1)).build().unwrap();
    let ran = Counter::new();
    let rejected = executor.execute(ran.task()).unwrap_err();
    let RejectReason::NotStarted(cause) = rejected.reason() else { panic!("{rejected}") };
    assert_eq!(cause.kind(), io::ErrorKind::Unsupported);
    for word in ["greedy", "build_pooled", "ThreadFactory"] {
        assert!(cause.to_string().contains(word), "{cause}");
    }
    assert_eq!(executor.state(), ExecutorState::NotStarted);
    rejected.into_task()();
    assert_eq!(ran.ran(), 1, "the task is ours again");
}

#[test]
fn e12_a_task_that_panics_costs_a_pool_no_thread() {
    let pool = pool(1);
    let executor = pooled(&pool);
    for _ in 0..3 {
        let failed = executor.submit(|| -> () { panic_quietly("on purpose") }).unwrap().join();
        assert!(matches!(failed.unwrap_err().kind(), ErrorKind::Panicked { .. }));
    }
    assert_eq!(pooled(&pool).submit(|| 7).unwrap().join().unwrap(), 7);
}

#[test]
fn l12_a_pool_that_is_shut_down_runs_the_turns_it_has_and_refuses_the_rest() {
    let pool = pool(1);
    let (busy, waiting, late) = (pooled(&pool), pooled(&pool), pooled(&pool));
    let gate = Gate::hold(&busy);
    let ran = waiting.submit(|| 7).unwrap();
    pool.shutdown();
    let rejected = late.execute(|| ()).unwrap_err();
    assert!(rejected.to_string().contains("the thread pool is shut down"), "{rejected}");
    assert_eq!(late.state(), ExecutorState::NotStarted);
    gate.open();
    assert_eq!(ran.join().unwrap(), 7);
    let joined = pool.clone();
    with_timeout(move || joined.join().unwrap());
    // An idle executor learns of the shutdown when it asks the pool for a turn.
    let _ = waiting.execute(|| ());
    waiting.termination().wait_timeout(TIMEOUT).unwrap();
    let died = waiting.termination().try_get().unwrap().unwrap_err();
    assert!(matches!(died.kind(), ErrorKind::LoopDied { .. }), "{died}");
}

#[test]
fn p04_a_pool_thread_cannot_join_its_own_pool() {
    let pool = pool(1);
    let executor = pooled(&pool);
    let own = pool.clone();
    assert!(executor.submit(move || own.join().is_err()).unwrap().join().unwrap());
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7, "it was not shut down");
    let elsewhere = EventExecutor::builder().never_block().build().unwrap();
    let other = pool.clone();
    assert!(elsewhere.submit(move || other.join().is_err()).unwrap().join().unwrap());
}

#[test]
fn l12_executors_keep_their_pool_alive_and_may_drop_it_on_its_own_thread() {
    let pool = pool(1);
    let executor = pooled(&pool);
    let (ended, weak) = (executor.termination(), Arc::downgrade(&pool));
    drop(pool);
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7, "the executor keeps it");
    let inside = executor.clone();
    executor.execute(move || drop(inside)).unwrap();
    drop(executor);
    assert_ne!(ended.wait_timeout(TIMEOUT), Err(WaitError::TimedOut));
    with_timeout(move || {
        while weak.strong_count() > 0 {
            std::thread::yield_now()
        }
    });
}
