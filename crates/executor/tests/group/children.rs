//! E01, E02: the children of a group and the work that a group gives them.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{
    BuildError, EventExecutor, EventExecutorBuilder, EventExecutorGroup, PromiseFuture,
    RejectReason, Rejected, UserCode, WaitError,
};

use super::{end_group, get, group, ms};
use crate::support::{Counter, FaultLog, Gate, TIMEOUT, panic_quietly};

/// Returns the executor whose loop runs the calling code.
fn here() -> EventExecutor {
    EventExecutor::current().expect("on a loop")
}

#[test]
fn e01_children_are_listed_in_order_and_next_goes_through_them() {
    let group = group(3);
    let children: Vec<_> = group.children().collect();
    assert_eq!((children.len(), group.children().len()), (3, 3));
    let next: Vec<_> = (0..6).map(|_| group.next()).collect();
    assert_eq!(next, [&children[..], &children[..]].concat());
    let distinct: HashSet<_> = children.iter().map(EventExecutor::id).collect();
    assert_eq!(distinct.len(), 3);
}

#[test]
fn e01_submissions_go_to_the_next_child() {
    let group = group(3);
    let children: Vec<_> = group.children().collect();
    let (tell, told) = mpsc::channel();
    for child in &children {
        let tell = tell.clone();
        group.execute(move || tell.send(here()).unwrap()).unwrap();
        assert_eq!(told.recv_timeout(TIMEOUT).unwrap(), *child);
    }
    for child in &children {
        assert_eq!(get(group.submit(here).unwrap()), *child);
    }
    for child in &children {
        assert_eq!(get(group.schedule(ms(1), here).unwrap()), *child);
    }
    for child in &children {
        let future = match tell.clone() {
            tell if *child == children[1] => group
                .schedule_at_fixed_rate(ms(0), ms(1), move || tell.send(here()).unwrap())
                .unwrap(),
            tell => group
                .schedule_with_fixed_delay(ms(0), ms(1), move || tell.send(here()).unwrap())
                .unwrap(),
        };
        let twice = [told.recv_timeout(TIMEOUT).unwrap(), told.recv_timeout(TIMEOUT).unwrap()];
        assert_eq!(twice, [child.clone(), child.clone()]);
        assert!(future.cancel());
        get(child.submit(|| ()).unwrap());
        while told.try_recv().is_ok() {}
    }
    end_group(&group);
}

#[test]
fn e01_a_panicking_task_fails_its_future() {
    let faults = FaultLog::new();
    let builder = EventExecutorGroup::builder().threads(2).reporter(faults.clone());
    let group = builder.build().unwrap();
    let failed = group.submit(|| panic_quietly("in a group")).unwrap();
    let line = line!() - 1;
    assert!(failed.join().unwrap_err().to_string().contains("in a group"));
    group.schedule(ms(1), || panic_quietly("later")).unwrap().join().unwrap_err();
    let expected = [
        (UserCode::Task, format!("{}:{line}", file!()), "in a group".to_owned()),
        (UserCode::Timer, format!("{}:{}", file!(), line + 3), "later".to_owned()),
    ];
    assert_eq!(faults.take_panics(), expected, "with the submitter's line");
}

#[test]
fn e01_all_collects_the_values_of_the_children() {
    let group = group(3);
    let squares = group.all((0..30).map(|n| group.submit(move || n * n).unwrap()));
    assert_eq!(get(squares), (0..30).map(|n| n * n).collect::<Vec<_>>());
}

#[test]
fn e01_a_group_rejects_a_period_of_zero() {
    fn check<F: FnMut()>(outcome: Result<PromiseFuture<()>, Rejected<F>>) {
        let rejected = outcome.unwrap_err();
        assert!(matches!(rejected.reason(), RejectReason::ZeroPeriod));
        rejected.into_task()();
    }
    let (group, ran) = (group(2), Counter::new());
    let tick = || {
        let ran = ran.clone();
        move || ran.task()()
    };
    check(group.schedule_at_fixed_rate(ms(0), Duration::ZERO, tick()));
    check(group.schedule_with_fixed_delay(ms(0), Duration::ZERO, tick()));
    assert_eq!(ran.ran(), 2);
}

#[test]
fn e01_a_group_reaches_a_state_when_all_children_have() {
    let group = group(2);
    let states = || (group.is_shutting_down(), group.is_shut_down(), group.is_terminated());
    let children: Vec<_> = group.children().collect();
    let gate = Gate::hold(&children[1]);
    drop(children[0].shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    children[0].await_termination(TIMEOUT).unwrap();
    assert_eq!(states(), (false, false, false), "one of two");
    drop(children[1].shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    assert_eq!(states(), (true, false, false), "the other is held");
    drop(children[1].shutdown());
    assert_eq!(states(), (true, true, false));
    assert!(!group.termination().is_done());
    assert_eq!(group.await_termination(ms(1)), Err(WaitError::TimedOut));
    gate.open();
    group.await_termination(TIMEOUT).unwrap();
    assert_eq!(states(), (true, true, true));
    group.termination().join().unwrap();
}

#[test]
fn e01_waiting_for_a_group_on_the_thread_of_a_child_is_refused() {
    let group = EventExecutorGroup::builder().threads(2).name("crew").build().unwrap();
    let (inner, waited) = (group.clone(), group.children().nth(1).unwrap());
    let waited = get(waited.submit(move || inner.await_termination(TIMEOUT)).unwrap());
    let Err(WaitError::WouldDeadlock(refused)) = waited else { panic!("{waited:?}") };
    assert_eq!(refused.executor, "crew-1");
}

#[test]
fn e02_a_child_knows_its_parent_and_is_its_own_next() {
    let group = group(2);
    for child in group.children() {
        let parent = child.parent().expect("it has one");
        assert_eq!(parent.children().collect::<Vec<_>>(), group.children().collect::<Vec<_>>());
        assert_eq!(child.next(), child);
        let on_the_loop = child.submit(|| here().parent().is_some()).unwrap();
        assert!(get(on_the_loop));
    }
    let alone = EventExecutor::builder().build().unwrap();
    assert!(alone.parent().is_none() && alone.next() == alone);
}

#[test]
fn p04_a_child_that_started_before_its_group_refuses_to_wait_for_the_group() {
    let started = |builder: EventExecutorBuilder| {
        let child = builder.build()?;
        get(child.submit(|| ()).unwrap());
        Ok::<_, BuildError>(child)
    };
    let group = EventExecutorGroup::builder().threads(1).build_with(started).unwrap();
    let inner = group.clone();
    let refused = group.next().submit(move || inner.await_termination(ms(50))).unwrap();
    let refused = get(refused);
    assert!(matches!(refused, Err(WaitError::WouldDeadlock(_))), "{refused:?}");
}

#[test]
fn e19_work_offloaded_to_a_group_answers_on_the_submitting_loop() {
    let offload = EventExecutorGroup::builder().threads(2).name("offload").build().unwrap();
    let home = EventExecutor::builder().name("home").never_block().build().unwrap();
    let (tell, told) = mpsc::channel();
    let (inner, workers) = (home.clone(), offload.clone());
    let (go, gate) = mpsc::channel();
    let asks = move || {
        let (promise, mut answer) = inner.new_promise();
        let own = inner.clone();
        answer.add_listener(move |outcome: &Result<(i32, bool), _>| {
            tell.send((own.in_event_loop(), *outcome.as_ref().unwrap())).unwrap();
        });
        let own = inner.clone();
        let blocks = move || {
            let waited: i32 = gate.recv().unwrap();
            promise.set_success((waited, own.in_event_loop()));
        };
        workers.execute(blocks).unwrap();
    };
    home.execute(asks).unwrap();
    assert_eq!(get(home.submit(|| "free").unwrap()), "free", "while the work blocks a worker");
    go.send(42).unwrap();
    let (told_at_home, (answer, worked_at_home)) = told.recv_timeout(TIMEOUT).unwrap();
    assert_eq!((told_at_home, answer, worked_at_home), (true, 42, false));
    drop(offload.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    offload.await_termination(TIMEOUT).unwrap();
}
