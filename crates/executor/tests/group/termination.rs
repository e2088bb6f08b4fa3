//! E01, E17, E21: how a group terminates: by a shutdown, or when its last handle is dropped.

use std::io;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use waterwheel_executor::{
    DEFAULT_QUIET_PERIOD, EventExecutor, EventExecutorGroup, ExecutorState, GlobalExecutor,
    InvalidShutdown, LoopBody, RejectReason, SharedFuture,
};

use super::group;
use crate::support::{
    Counter, FnSupplier, Gate, ScriptedSupplier, TIMEOUT, panic_quietly, spawn, with_timeout,
};

/// Returns a group whose children have all started.
fn started_group(threads: usize) -> EventExecutorGroup {
    let group = group(threads);
    for child in group.children() {
        child.submit(|| ()).unwrap().join().unwrap();
    }
    group
}

fn assert_terminates(ended: &SharedFuture<()>) {
    ended.wait_timeout(TIMEOUT).expect("the executor terminates");
}

#[test]
fn e01_a_shutdown_reaches_all_children_and_runs_accepted_tasks() {
    let (group, ran) = (group(3), Counter::new());
    let gates: Vec<_> = group.children().map(|child| Gate::hold(&child)).collect();
    (0..300).for_each(|_| group.execute(ran.task()).unwrap());
    let ended = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    assert!(group.is_shutting_down() && !ended.is_done());
    drop(gates);
    assert_terminates(&ended);
    assert_eq!(ran.ran(), 300);
    assert!(group.is_terminated() && group.children().all(|child| child.is_terminated()));
}

#[test]
fn e01_late_tasks_are_accepted_in_the_quiet_period_and_refused_afterwards() {
    let group = started_group(2);
    let ended = group.shutdown_gracefully(Duration::from_millis(50), TIMEOUT).unwrap();
    let late = group.submit(|| 7).expect("the quiet period has just begun");
    assert_eq!(late.join().unwrap(), 7);
    assert_terminates(&ended);
    let refused = group.submit(|| 8).unwrap_err();
    assert!(matches!(refused.reason(), RejectReason::ShutDown));
    assert_eq!(refused.into_task()(), 8);
    let refused = group.schedule(Duration::ZERO, || 9).unwrap_err();
    assert!(matches!(refused.reason(), RejectReason::ShutDown));
    assert_eq!(refused.into_task()(), 9);
    assert!(group.execute(|| ()).is_err());
}

#[test]
fn e01_an_immediate_shutdown_refuses_new_tasks_at_once() {
    let (group, ran) = (group(2), Counter::new());
    let gates: Vec<_> = group.children().map(|child| Gate::hold(&child)).collect();
    (0..10).for_each(|_| group.execute(ran.task()).unwrap());
    let ended = group.shutdown();
    assert!(group.is_shut_down());
    assert!((0..4).all(|_| group.execute(|| ()).is_err()));
    drop(gates);
    assert_terminates(&ended);
    assert_eq!(ran.ran(), 10);
}

#[test]
fn e01_shutting_a_group_down_again_changes_nothing_and_gives_the_same_future() {
    let group = started_group(2);
    let gate = Gate::hold(&group.next());
    let first = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    let hour = Duration::from_secs(3600);
    let second = group.shutdown_gracefully(hour, hour).unwrap();
    assert!(!first.is_done() && !second.is_done());
    gate.open();
    assert_terminates(&second); // Not after an hour: the parameters of the first call apply.
    assert!(first.is_done() && group.termination().is_done());
    drop(group.shutdown());
}

#[test]
fn e01_contradictory_parameters_are_an_error_and_nothing_happens() {
    let group = started_group(2);
    let (quiet, timeout) = (Duration::from_secs(2), Duration::from_secs(1));
    let error = group.shutdown_gracefully(quiet, timeout).unwrap_err();
    assert_eq!(error, InvalidShutdown { quiet, timeout });
    assert!(group.children().all(|child| child.state() == ExecutorState::Started));
    assert_eq!(group.submit(|| 7).unwrap().join().unwrap(), 7);
}

#[test]
fn e17_a_group_is_terminated_when_all_its_children_are() {
    let group = started_group(3);
    let mut gates: Vec<_> = group.children().map(|child| Gate::hold(&child)).collect();
    let ended = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    for (left, child) in (0..3).rev().zip((0..3).rev()) {
        assert!(!ended.is_done() && !group.is_terminated(), "{left} are held");
        gates.pop().unwrap().open();
        group.children().nth(child).unwrap().await_termination(TIMEOUT).unwrap();
    }
    assert_terminates(&ended);
    assert!(group.is_terminated());
    ended.join().unwrap();
}

#[test]
fn e17_a_group_that_was_never_used_terminates_at_once() {
    let supplier = ScriptedSupplier::new([]);
    let builder = EventExecutorGroup::builder().threads(3).thread_supplier(supplier.clone());
    let group = builder.build().unwrap();
    let ended = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    assert!(ended.is_done() && group.is_terminated());
    assert_eq!(supplier.calls(), 0, "no thread was made for it");
}

#[test]
fn e17_the_error_of_a_child_that_died_fails_the_groups_termination() {
    let fails = |body: LoopBody| match body.executor() {
        "crew-1" => Err(io::Error::other("no thread for that one")),
        _ => spawn(body).map(Some),
    };
    let builder = EventExecutorGroup::builder().threads(3).name("crew");
    let group = builder.thread_supplier(Arc::new(FnSupplier(fails))).build().unwrap();
    // A quiet period needs a thread, and the second child gets none.
    let ended = group.shutdown_gracefully(Duration::from_millis(1), TIMEOUT).unwrap();
    assert_terminates(&ended);
    assert!(group.is_terminated());
    let error = ended.join().unwrap_err().to_string();
    assert!(error.contains("crew-1") && error.contains("no thread for that one"), "{error}");
}

/// A waker that looks up the group when it is called.
struct GroupLookupWaker(EventExecutor, mpsc::Sender<bool>);

impl Wake for GroupLookupWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.1.send(self.0.parent().is_some());
    }
}

#[test]
fn e17_a_waker_of_the_termination_future_may_use_the_group() {
    let group = started_group(1);
    let (tell, told) = mpsc::channel();
    let waker = Waker::from(Arc::new(GroupLookupWaker(group.next(), tell)));
    let mut ended = group.termination();
    let polled = Future::poll(std::pin::Pin::new(&mut ended), &mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
    drop(group.shutdown());
    assert!(told.recv_timeout(TIMEOUT).expect("no lock is held while a waker is called"));
}

#[test]
fn e21_the_last_handle_of_a_group_ends_all_children_without_blocking() {
    let (group, ran) = (started_group(2), Counter::new());
    let gates: Vec<_> = group.children().map(|child| Gate::hold(&child)).collect();
    (0..100).for_each(|_| group.execute(ran.task()).unwrap());
    let (ended, clone) = (group.termination(), group.clone());
    drop(group);
    assert!(!clone.is_shutting_down(), "a clone holds it");
    drop(clone); // A drop that waited would never return: gates hold the loops.
    assert!(!ended.is_done());
    let begun = waterwheel_executor::Clock::Monotonic.now();
    drop(gates);
    assert_terminates(&ended);
    assert!(waterwheel_executor::Clock::Monotonic.now().since(begun) < DEFAULT_QUIET_PERIOD);
    assert_eq!(ran.ran(), 100);
}

#[test]
fn e21_a_handle_of_one_child_keeps_the_whole_group() {
    let group = started_group(2);
    let (ended, child) = (group.termination(), group.next());
    drop(group);
    let group = child.parent().expect("the group is still there");
    assert!(group.children().all(|child| child.state() == ExecutorState::Started));
    drop(child);
    assert_eq!(group.submit(|| 7).unwrap().join().unwrap(), 7, "a parent's handle counts too");
    assert!(!ended.is_done());
    let found: EventExecutor =
        group.submit(|| EventExecutor::current().unwrap()).unwrap().join().unwrap();
    drop(group);
    assert_eq!(found.submit(|| 8).unwrap().join().unwrap(), 8, "and one found on the loop");
    drop(found);
    assert_terminates(&ended);
}

#[test]
fn e21_the_last_handle_of_a_group_may_be_dropped_on_a_childs_thread() {
    let (group, ran) = (started_group(2), Counter::new());
    let (ended, child) = (group.termination(), group.next());
    let gate = Gate::hold(&child);
    let (count, inner) = (ran.clone(), group.clone());
    let holds_the_last = move || {
        inner.children().for_each(|child| child.execute(count.task()).unwrap());
        drop(inner);
    };
    child.execute(holds_the_last).unwrap();
    drop((group, child));
    assert!(!ended.is_done(), "a task still holds one");
    gate.open();
    assert_terminates(&ended);
    assert_eq!(ran.ran(), 2);
}

#[test]
fn e21_the_last_handle_of_a_group_may_be_dropped_on_another_loop() {
    let (group, other) = (started_group(2), EventExecutor::builder().build().unwrap());
    let ended = group.termination();
    other.execute(move || drop(group)).unwrap();
    assert_terminates(&ended);
    let group = started_group(2);
    let ended = group.termination();
    GlobalExecutor::get().execute(move || drop(group)).unwrap();
    assert_terminates(&ended);
    assert_eq!(other.state(), ExecutorState::Started);
}

#[test]
fn e21_a_group_that_was_never_used_ends_when_it_is_dropped() {
    let group = group(2);
    let ended = group.termination();
    drop(group);
    assert!(ended.is_done());
}

#[test]
fn e21_promises_and_termination_futures_do_not_keep_a_group_alive() {
    let group = started_group(2);
    let (promise, future) = group.next().new_promise::<()>();
    let timer = group.schedule(Duration::from_secs(3600), || ()).unwrap();
    let ended = group.termination();
    drop(group);
    assert_terminates(&ended);
    assert!(timer.is_cancelled() && !future.is_done());
    assert!(promise.set_success(()));
}

#[test]
fn e21_a_child_that_outlives_its_group_finds_it_gone_or_shutting_down() {
    with_timeout(|| {
        let group = started_group(2);
        let (tell, told) = mpsc::channel();
        let child = group.next();
        let gate = Gate::hold(&child);
        let late = move || {
            let parent = EventExecutor::current().and_then(|child: EventExecutor| child.parent());
            let state = parent.map(|parent| parent.is_shutting_down());
            let _ = tell.send(state);
        };
        child.execute(late).unwrap();
        let ended = group.termination();
        drop((group, child));
        gate.open();
        let state = told.recv_timeout(TIMEOUT).unwrap();
        assert!(state.is_none_or(|shutting_down| shutting_down), "gone, or going");
        assert_terminates(&ended);
    });
}

/// A waker that panics.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic_quietly("the waker is broken")
    }
}

#[test]
fn e16_a_waker_that_panics_does_not_keep_the_group_from_terminating() {
    let group = EventExecutorGroup::builder().threads(1).build().unwrap();
    let child = group.next();
    child.submit(|| ()).unwrap().join().unwrap();
    let mut ended = pin!(child.termination());
    let broken = Waker::from(Arc::new(PanickingWaker));
    assert!(ended.as_mut().poll(&mut Context::from_waker(&broken)).is_pending());
    group.shutdown().wait_timeout(TIMEOUT).expect("the group ends");
    assert!(child.is_terminated() && group.is_terminated() && group.termination().is_done());
}
