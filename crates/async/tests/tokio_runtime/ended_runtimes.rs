//! Runtimes that are gone, that end during a call, or that no thread drives: an error of the call, not a hang.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use waterwheel_async::{TokioRuntime, TokioTask, TokioTaskError};
use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{EventLoopGroup, timeout};

use super::support::{Bench, DropCounter, drive};

fn runtimes() -> [Runtime; 2] {
    let mut multi_thread = Builder::new_multi_thread();
    [
        Builder::new_current_thread().build().unwrap(),
        multi_thread.worker_threads(2).build().unwrap(),
    ]
}

/// Starts a task that waits for ever, and holds a guard.
fn spawn_endless(runtime: &TokioRuntime, counter: &DropCounter) -> TokioTask<()> {
    let guard = counter.guard();
    runtime.labelled("endless").spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    })
}

const GONE: &str = "tokio task from endless was dropped: its runtime is shut down";

#[test]
fn a05_a_call_on_a_runtime_that_is_gone_is_an_error() {
    for tokio in runtimes() {
        let mut bench = Bench::new();
        let counter = DropCounter::default();
        let runtime = TokioRuntime::new(tokio.handle().clone());
        drop(tokio);
        let task = spawn_endless(&runtime, &counter);
        assert_eq!((counter.dropped(), counter.alive()), (1, 0));
        assert!(task.is_finished());
        let error = bench.start(task).take().expect("no wake is needed").unwrap_err();
        assert!(matches!(error, TokioTaskError::RuntimeGone { .. }));
        assert_eq!(error.to_string(), GONE);
    }
}

#[test]
fn a05_a_runtime_that_ends_during_a_call_fails_the_call() {
    let ends: [fn(Runtime); 3] =
        [drop, Runtime::shutdown_background, |tokio| tokio.shutdown_timeout(Duration::ZERO)];
    for end in ends {
        for tokio in runtimes() {
            // The loop sleeps in the call, on a thread of its own: it must be woken.
            let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
            let counter = DropCounter::default();
            let task = spawn_endless(&TokioRuntime::new(tokio.handle().clone()), &counter);
            let outcome = group.next().spawn(task).unwrap();
            group.next().submit(|| ()).unwrap().join().unwrap();
            end(tokio);
            let error = outcome.join().unwrap().unwrap_err();
            assert_eq!(error.to_string(), GONE);
            assert_eq!((counter.dropped(), counter.alive()), (1, 0));
        }
    }
}

#[test]
fn a05_a_call_that_is_dropped_after_its_runtime_leaves_nothing() {
    let mut bench = Bench::new();
    let counter = DropCounter::default();
    let join = bench.spawn(spawn_endless(&bench.runtime, &counter));
    bench.drive_both();
    let Bench { mut channel, tokio, runtime } = bench;
    drop(tokio);
    assert_eq!(counter.dropped(), 1);
    join.abort(); // The wake is under way to the loop, and finds no future.
    channel.run();
    assert_eq!((counter.dropped(), counter.alive()), (1, 0));
    drop(runtime);
}

#[test]
fn a05_a_runtime_that_no_thread_drives_leaves_the_call_to_its_timeout() {
    let mut bench = Bench::new();
    let runtime = bench.runtime.clone();
    let counter = DropCounter::default();
    let output = bench.start(timeout(Duration::from_secs(1), spawn_endless(&runtime, &counter)));
    let kept = bench.start(runtime.spawn(async { 42 }));
    bench.channel.advance(Duration::from_secs(1));
    assert!(output.take().unwrap().is_err(), "the time has elapsed");
    assert!(kept.borrow().is_none(), "the call without a limit waits");
    assert_eq!(counter.alive(), 1, "the runtime still holds the future that was aborted");
    bench.drive_both();
    assert_eq!((counter.dropped(), counter.alive()), (1, 0));
    assert_eq!(kept.take(), Some(Ok(42)));
}

#[test]
fn a05_a_runtime_that_was_never_driven_fails_its_calls_when_it_is_dropped() {
    let mut bench = Bench::new();
    let counter = DropCounter::default();
    let output = bench.start(spawn_endless(&bench.runtime, &counter));
    let Bench { mut channel, tokio, .. } = bench;
    drop(tokio);
    channel.run();
    assert_eq!(output.take().unwrap().unwrap_err().to_string(), GONE);
    assert_eq!((counter.dropped(), counter.alive()), (1, 0));
}

#[test]
fn a05_a_future_whose_destructor_panics_on_a_runtime_that_is_gone_is_an_error() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            super::support::panic_quietly("in the destructor");
        }
    }
    let mut bench = Bench::new();
    let tokio = Builder::new_current_thread().build().unwrap();
    let runtime = TokioRuntime::new(tokio.handle().clone()).labelled("call");
    drive(&tokio);
    drop(tokio);
    let value = PanicsInDrop;
    let task = runtime.spawn(async move {
        let _value = value;
    });
    let error = bench.start(task).take().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "tokio task from call panicked: in the destructor");
}
