//! Loops and runtimes with threads of their own.

use std::thread::ThreadId;

use tokio::runtime::Builder;
use waterwheel_async::{TokioRuntime, TokioTask, TokioTaskError};
use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{EventLoop, EventLoopGroup};

fn multi_thread(workers: usize) -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_time().build().unwrap()
}

fn thread_id() -> ThreadId {
    std::thread::current().id()
}

#[test]
fn a05_a_task_runs_on_the_runtime_and_the_future_behind_it_on_the_loop() {
    let (tokio, group) =
        (multi_thread(1), EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap());
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let worker = tokio.block_on(tokio.spawn(async { thread_id() })).unwrap();
    let threads = group.next().spawn(async move {
        let first = thread_id();
        let task = runtime.spawn(async { thread_id() }).await.unwrap();
        (first, task, thread_id(), EventLoop::current().is_some())
    });
    let (first, task, last, is_on_loop) = threads.unwrap().join().unwrap();
    assert!(first == last && is_on_loop);
    assert_eq!(task, worker);
}

#[test]
fn a05_no_result_of_many_calls_is_lost_and_no_wake_up_is_in_vain() {
    const FUTURES: u64 = 8;
    const CALLS: u64 = 250;
    let (tokio, group) =
        (multi_thread(2), EventLoopGroup::builder(TaskOnly).threads(2).build().unwrap());
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let futures: Vec<_> = (0..FUTURES)
        .map(|future| {
            let runtime = runtime.clone();
            let calls = async move {
                let mut sum = 0;
                for n in 0..CALLS {
                    // Two under way at a time, which complete in any order.
                    let one = runtime.spawn(async move { n });
                    let two = runtime.spawn(async move {
                        tokio::task::yield_now().await;
                        future
                    });
                    sum += two.await.unwrap() + one.await.unwrap();
                }
                sum
            };
            group.next().spawn(calls).unwrap()
        })
        .collect();
    for (future, sum) in futures.into_iter().enumerate() {
        assert_eq!(sum.join().unwrap(), CALLS * (CALLS - 1) / 2 + CALLS * future as u64);
    }
    for event_loop in group.children() {
        let stats = event_loop.stats();
        assert!(stats.wake_ups <= stats.sleeps, "{stats:?}");
    }
}

#[test]
fn a05_a_task_is_awaited_on_any_thread_and_futures_of_loops_in_tokio_tasks() {
    let (tokio, group) =
        (multi_thread(1), EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap());
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let answer = tokio.block_on(async {
        let here = TokioRuntime::new(tokio::runtime::Handle::current());
        let on_loop = group.next().spawn(async move { here.spawn(async { 41 }).await });
        let there = runtime.spawn(async { 1 }).await.unwrap();
        on_loop.unwrap().await.unwrap().unwrap() + there
    });
    assert_eq!(answer, 42);
}

#[test]
fn a05_a_bounded_channel_of_tokio_brings_results_to_the_loop() {
    let (tokio, group) =
        (multi_thread(1), EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap());
    let runtime = TokioRuntime::new(tokio.handle().clone());
    let received = group.next().spawn(async move {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
        let task = runtime.spawn(async move {
            for n in 0..1000 {
                sender.send(n).await.unwrap();
            }
        });
        let mut received = Vec::new();
        while let Some(n) = receiver.recv().await {
            received.push(n);
        }
        task.await.unwrap();
        received
    });
    assert_eq!(received.unwrap().join().unwrap(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a05_runtimes_and_tasks_can_be_sent_to_other_threads() {
    fn is_send_and_sync<T: Send + Sync + Unpin + 'static>() {}
    is_send_and_sync::<TokioRuntime>();
    is_send_and_sync::<TokioTask<u8>>();
    is_send_and_sync::<TokioTask<std::cell::Cell<u8>>>();
    is_send_and_sync::<TokioTaskError>();
}
