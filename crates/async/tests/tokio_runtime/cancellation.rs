//! Dropped calls: the task on the runtime is gone, nothing is lost or leaked (A05, A06).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use waterwheel_channel::timeout;

use super::support::{Bench, DropCounter, DropGuard};

/// The number of awaits of [`steps`].
const STEPS: usize = 5;

/// Awaits one permit for each step, holding one more guard after each.
async fn steps(mut permits: UnboundedReceiver<()>, counter: DropCounter) -> DropGuard {
    let mut guards = vec![counter.guard()];
    for _ in 0..STEPS {
        permits.recv().await;
        guards.push(counter.guard());
    }
    guards.swap_remove(0)
}

/// Lets a task make this many of its steps.
fn advance(bench: &mut Bench, permits: &UnboundedSender<()>, steps: usize) {
    for _ in 0..steps {
        permits.send(()).unwrap();
        bench.drive_both();
    }
}

#[test]
fn a06_a_task_dropped_at_any_await_is_gone_from_the_runtime() {
    for before_drop in 0..STEPS {
        let mut bench = Bench::new();
        let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
        let task = bench.runtime.spawn(steps(receiver, counter.clone()));
        let join = bench.spawn(task);
        bench.drive_both();
        advance(&mut bench, &permits, before_drop);
        assert_eq!(counter.alive(), 1 + before_drop + 1, "guards, and the task's own counter");

        join.abort();
        bench.channel.run();
        assert!(!permits.is_closed(), "the runtime drops the future, not the loop");
        bench.drive_tokio();
        assert!(permits.is_closed());
        assert_eq!((counter.dropped(), counter.alive()), (before_drop + 1, 0));
        assert_eq!(bench.tokio.metrics().num_alive_tasks(), 0);
    }
}

#[test]
fn a06_a_task_dropped_before_its_first_poll_never_runs() {
    let mut bench = Bench::new();
    let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
    drop(bench.runtime.spawn(steps(receiver, counter.clone())));
    bench.drive_both();
    assert!(permits.is_closed());
    assert_eq!((counter.dropped(), counter.alive()), (0, 0), "no guard was made");
}

#[test]
fn a06_a_task_that_has_completed_when_it_is_dropped_drops_its_output() {
    let mut bench = Bench::new();
    let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
    let task = bench.runtime.spawn(steps(receiver, counter.clone()));
    let join = bench.spawn(task);
    bench.drive_both();
    (0..STEPS).for_each(|_| permits.send(()).unwrap());
    bench.drive_tokio(); // The wake is under way to the loop.
    assert_eq!(counter.dropped(), STEPS, "the output is left");
    join.abort();
    bench.channel.run();
    assert_eq!((counter.dropped(), counter.alive()), (STEPS + 1, 0));
}

#[test]
fn a06_an_await_by_reference_that_loses_a_select_loses_no_output() {
    let mut bench = Bench::new();
    let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
    let mut task = bench.runtime.spawn(steps(receiver, counter.clone()));
    let output = bench.start(async move {
        let mut lost = 0;
        loop {
            match timeout(Duration::from_secs(1), &mut task).await {
                Ok(output) => return (lost, output.unwrap()),
                Err(_) => lost += 1, // The await is dropped, the task is not.
            }
        }
    });
    for _ in 0..STEPS {
        bench.channel.advance(Duration::from_secs(1));
        advance(&mut bench, &permits, 1);
    }
    let (lost, guard) = output.take().unwrap();
    assert_eq!((lost, counter.dropped()), (STEPS, STEPS));
    drop(guard);
    assert_eq!((counter.dropped(), counter.alive()), (STEPS + 1, 0));
}

#[test]
fn a05_the_timeout_of_a_call_aborts_the_task() {
    let mut bench = Bench::new();
    let counter = DropCounter::default();
    let guard = counter.guard();
    let task = bench.runtime.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    let output = bench.start(timeout(Duration::from_secs(3), task));
    bench.drive_both();
    bench.channel.advance(Duration::from_secs(3));
    assert!(output.take().unwrap().is_err());
    bench.drive_tokio();
    assert_eq!(counter.dropped(), 1);
}

#[test]
fn a05_tasks_end_with_the_loop_that_awaits_them() {
    let mut bench = Bench::new();
    let counter = DropCounter::default();
    for _ in 0..3 {
        let guard = counter.guard();
        let task = bench.runtime.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        drop(bench.spawn(task));
    }
    bench.drive_both();
    let Bench { channel, tokio, .. } = bench;
    drop(channel);
    super::support::drive(&tokio);
    assert_eq!(counter.dropped(), 3);
}

#[test]
fn a05_a_detached_task_continues() {
    let mut bench = Bench::new();
    let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
    bench.runtime.spawn(steps(receiver, counter.clone())).detach();
    bench.drive_both();
    advance(&mut bench, &permits, STEPS - 1);
    assert_eq!(counter.dropped(), 0);
    advance(&mut bench, &permits, 1);
    assert_eq!((counter.dropped(), counter.alive()), (STEPS + 1, 0), "the output too");
}

#[test]
fn a05_cancel_waits_until_the_future_is_dropped() {
    let mut bench = Bench::new();
    let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
    let task = bench.runtime.spawn(steps(receiver, counter.clone()));
    bench.drive_both();
    let output = bench.start(task.cancel());
    assert!(output.borrow().is_none(), "the runtime has not run since");
    assert_eq!(counter.dropped(), 0);
    bench.drive_both();
    assert!(output.take().unwrap().is_none() && permits.is_closed());
    assert_eq!((counter.dropped(), counter.alive()), (1, 0));
}

#[test]
fn a05_cancel_returns_the_output_of_a_task_that_had_completed() {
    let mut bench = Bench::new();
    let task = bench.runtime.spawn(async { 42 });
    bench.drive_tokio();
    let output = bench.start(task.cancel());
    assert_eq!(output.take(), Some(Some(42)));
    let panicked = bench.runtime.spawn(async { super::support::panic_quietly("no output") });
    bench.drive_tokio();
    let output = bench.start(panicked.cancel());
    assert_eq!(output.take(), Some(None));
}

#[test]
fn a06_a_cancel_dropped_at_any_await_aborts_the_task_all_the_same() {
    for is_polled in [false, true] {
        let bench = Bench::new();
        let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
        let task = bench.runtime.spawn(steps(receiver, counter.clone()));
        bench.drive_tokio();
        let mut cancel = Box::pin(task.cancel());
        if is_polled {
            let poll = cancel.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending());
        }
        drop(cancel);
        bench.drive_tokio();
        assert!(permits.is_closed());
        assert_eq!((counter.dropped(), counter.alive()), (1, 0));
    }
}

#[test]
fn a05_a_wake_after_the_end_of_the_loop_does_nothing_and_the_output_is_kept() {
    let mut bench = Bench::new();
    let (counter, (permits, receiver)) = (DropCounter::default(), unbounded_channel());
    let task = bench.runtime.spawn(steps(receiver, counter.clone()));
    // A task in shared hands: a future on the loop awaits it, and does not own it.
    let shared = std::rc::Rc::new(std::cell::RefCell::new(task));
    let awaited = shared.clone();
    drop(bench.spawn(poll_fn(move |context| {
        Pin::new(&mut *awaited.borrow_mut()).poll(context).map(drop)
    })));
    bench.drive_both();
    let Bench { channel, tokio, .. } = bench;
    drop(channel);
    (0..STEPS).for_each(|_| permits.send(()).unwrap());
    super::support::drive(&tokio); // Wakes a future that is gone, on a loop that is gone.
    let mut task = shared.borrow_mut();
    let poll = Pin::new(&mut *task).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(poll, Poll::Ready(Ok(_))));
    drop(poll);
    assert_eq!((counter.dropped(), counter.alive()), (STEPS + 1, 0));
}
