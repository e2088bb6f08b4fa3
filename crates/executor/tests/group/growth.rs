//! E17: groups that grow after they were built (`growing`, `grow`).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterwheel_executor::{
    BuildError, EventExecutor, EventExecutorBuilder, EventExecutorGroup, ExecutorState,
};

use crate::support::{Gate, TIMEOUT, shut_down, with_timeout};

fn growing_group() -> EventExecutorGroup {
    EventExecutorGroup::builder().threads(1).name("crew").growing().build().unwrap()
}

fn grow(group: &EventExecutorGroup) -> Result<EventExecutor, BuildError> {
    group.grow(EventExecutorBuilder::build)
}

#[test]
fn e17_an_added_child_is_listed_chosen_and_shut_down() {
    let group = growing_group();
    let (first, second) = (group.next(), grow(&group).unwrap());
    assert_eq!(group.children().collect::<Vec<_>>(), [first.clone(), second.clone()]);
    assert_eq!((first.name(), second.name()), ("crew-0", "crew-1"));
    assert_eq!(second.state(), ExecutorState::NotStarted);
    let next: HashSet<_> = (0..2).map(|_| group.next().id()).collect();
    assert_eq!(next, HashSet::from([first.id(), second.id()]));
    let current = second.submit(EventExecutor::current).unwrap().join().unwrap();
    assert_eq!(current.and_then(|it| it.parent()), Some(group.clone()));

    let ended = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    ended.wait_timeout(TIMEOUT).unwrap();
    assert!(first.is_terminated() && second.is_terminated());
}

#[test]
fn e17_growing_a_fixed_group_is_an_error() {
    let group = EventExecutorGroup::builder().threads(1).build().unwrap();
    assert_eq!(grow(&group), Err(BuildError::GroupClosed));
    assert_eq!(group.children().len(), 1);
}

#[test]
fn e17_a_child_that_cannot_be_added_leaves_the_group_unchanged() {
    let group = growing_group();
    let bound = |builder: EventExecutorBuilder| builder.queue_bound(1).build();
    assert_eq!(group.grow(bound), Err(BuildError::QueueBound { bound: 1 }));
    let other = growing_group().next();
    let taken = group.grow(|_| Ok::<_, BuildError>(other.clone()));
    assert!(matches!(taken, Err(BuildError::AlreadyInGroup { .. })), "{taken:?}");
    assert_eq!(group.children().len(), 1);
    shut_down(&group.next());
    group.await_termination(TIMEOUT).unwrap();
}

#[test]
fn e17_a_group_stops_growing_at_shutdown_or_stop_growing() {
    let group = growing_group();
    let gate = Gate::hold(&group.next());
    let invalid = group.shutdown_gracefully(TIMEOUT, Duration::ZERO);
    assert!(invalid.is_err() && grow(&group).is_ok(), "nothing has happened");
    drop(group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
    assert_eq!(grow(&group), Err(BuildError::GroupClosed));
    drop(gate);
    group.await_termination(TIMEOUT).unwrap();
    assert_eq!(grow(&group), Err(BuildError::GroupClosed));

    let group = growing_group();
    group.stop_growing();
    assert_eq!(grow(&group), Err(BuildError::GroupClosed));
    assert!(!group.is_shutting_down());

    let group = growing_group();
    drop(group.shutdown());
    assert_eq!(grow(&group), Err(BuildError::GroupClosed));
}

#[test]
fn e17_a_group_whose_children_have_all_terminated_has_terminated() {
    let group = growing_group();
    shut_down(&group.next());
    group.await_termination(TIMEOUT).unwrap();
    assert_eq!(grow(&group), Err(BuildError::GroupClosed));
}

#[test]
fn e17_a_new_child_takes_the_place_of_one_that_has_terminated() {
    let group = growing_group();
    let first = group.next();
    for n in 1..=50 {
        let child = grow(&group).unwrap();
        assert_eq!(child.name(), format!("crew-{n}"));
        let children: Vec<_> = group.children().collect();
        assert_eq!(children, [first.clone(), child.clone()]);
        shut_down(&child);
    }
    assert!(!group.is_terminated());
    let ended = group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e21_the_last_handle_ends_children_that_were_added_later() {
    let group = growing_group();
    let (added, ended) = (grow(&group).unwrap(), group.termination());
    added.submit(|| ()).unwrap().join().unwrap();
    drop(group);
    added.submit(|| ()).expect("it is a handle of the group").join().unwrap();
    drop(added);
    ended.wait_timeout(TIMEOUT).unwrap();
}

#[test]
fn e17_a_child_added_during_shutdown_is_terminated_or_refused() {
    for round in 0..200 {
        let group = growing_group();
        let ended = group.termination();
        let over = Arc::new(AtomicBool::new(false));
        let adders: Vec<_> = (0..2)
            .map(|_| {
                let (group, over) = (group.without_lease(), over.clone());
                std::thread::spawn(move || {
                    let mut added = Vec::new();
                    while let Ok(child) = grow(&group) {
                        let _ = child.execute(|| ());
                        added.push(child);
                        if over.load(Ordering::Relaxed) || added.len() > 20 {
                            break;
                        }
                    }
                    added
                })
            })
            .collect();
        match round % 3 {
            0 => drop(group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap()),
            1 => drop(group.shutdown()),
            _ => drop(group),
        }
        ended.wait_timeout(TIMEOUT).unwrap();
        over.store(true, Ordering::Relaxed);
        for adder in adders {
            let added = with_timeout(move || adder.join().unwrap());
            assert!(added.iter().all(EventExecutor::is_terminated), "round {round}");
        }
    }
}
