//! E17: how a group is built, and how its properties reach the children.

use std::sync::{Arc, Mutex};

use waterwheel_executor::{
    BuildError, EventExecutor, EventExecutorBuilder, EventExecutorGroup, ExecutorState, OnFull,
    QueueFull, RejectReason, RejectionPolicy, ThreadFactory, default_threads,
};

use super::{end_group, get, group, ms};
use crate::support::{Counter, Gate, TIMEOUT, lock};

#[test]
fn e17_a_group_without_threads_is_an_error() {
    let none = EventExecutorGroup::builder().threads(0).build().unwrap_err();
    assert_eq!(none, BuildError::NoThreads);
    assert!(none.to_string().contains("at least one"), "{none}");
    let build = |_| -> Result<EventExecutor, BuildError> { panic!("there is nobody to build") };
    let none = EventExecutorGroup::builder().threads(0).build_with(build);
    assert_eq!(none.unwrap_err(), BuildError::NoThreads);
}

#[test]
fn e17_by_default_there_are_two_children_for_each_core() {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(default_threads(), 2 * cores);
    let group = EventExecutorGroup::builder().build().unwrap();
    assert_eq!(group.children().len(), 2 * cores);
}

#[test]
fn e17_children_exist_at_once_and_their_threads_start_on_first_use() {
    let group = group(3);
    let states = || group.children().map(|child| child.state()).collect::<Vec<_>>();
    assert_eq!(states(), [ExecutorState::NotStarted; 3]);
    assert!(group.children().all(|child| child.thread_properties().is_none()));
    get(group.children().nth(1).unwrap().submit(|| ()).unwrap());
    assert_eq!(
        states(),
        [ExecutorState::NotStarted, ExecutorState::Started, ExecutorState::NotStarted]
    );
    end_group(&group);
}

/// The reason why a child could not be built.
#[derive(Debug, PartialEq)]
enum ChildError {
    Third,
    Invalid(BuildError),
}

impl From<BuildError> for ChildError {
    fn from(invalid: BuildError) -> Self {
        Self::Invalid(invalid)
    }
}

#[test]
fn e17_a_child_that_cannot_be_built_shuts_down_those_before_it() {
    let (built, ran) = (Mutex::new(Vec::new()), Counter::new());
    let outcome = EventExecutorGroup::builder().threads(5).build_with(|builder| {
        if lock(&built).len() == 2 {
            return Err(ChildError::Third);
        }
        let child = builder.build()?;
        if lock(&built).is_empty() {
            child.execute(ran.task()).unwrap(); // The first child has started.
        }
        lock(&built).push(child.clone());
        Ok(child)
    });
    assert_eq!(outcome.unwrap_err(), ChildError::Third);
    let states: Vec<_> = lock(&built).iter().map(EventExecutor::state).collect();
    assert_eq!(states, [ExecutorState::Terminated; 2], "nobody was asked for more");
    assert_eq!(ran.ran(), 1, "what was accepted has run");
    let alive = lock(&built)[0].thread_properties().map(|thread| thread.is_alive);
    assert_eq!(alive, Some(false));
}

#[test]
fn e17_an_invalid_property_of_a_child_fails_the_group() {
    let outcome = EventExecutorGroup::builder().threads(2).queue_bound(15).build();
    assert_eq!(outcome.unwrap_err(), BuildError::QueueBound { bound: 15 });
}

#[test]
fn e17_children_and_threads_are_named_after_the_group() {
    let group = EventExecutorGroup::builder().threads(2).name("crew").build().unwrap();
    let names: Vec<_> = group.children().map(|child| child.name().to_owned()).collect();
    assert_eq!(names, ["crew-0", "crew-1"]);
    let thread = || std::thread::current().name().map(str::to_owned);
    let threads: Vec<_> =
        (0..2).map(|_| get(group.submit(thread).unwrap()).expect("a name")).collect();
    let pool = threads[0].strip_prefix("crew-").and_then(|rest| rest.strip_suffix("-1"));
    let pool = pool.unwrap_or_else(|| panic!("{threads:?}"));
    assert!(pool.parse::<usize>().is_ok(), "{threads:?}");
    assert_eq!(threads[1], format!("crew-{pool}-2"));
}

/// Returns the cores on which the calling thread may run (`Cpus_allowed_list` in `/proc`).
fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("the kernel says").trim().to_owned()
}

#[test]
fn e17_children_are_pinned_to_cores_in_turn() {
    let allowed = allowed_cores();
    let first = allowed.split([',', '-']).next().and_then(|core| core.parse::<usize>().ok());
    let last = allowed.split([',', '-']).next_back().and_then(|core| core.parse::<usize>().ok());
    let cores = [first.unwrap(), last.unwrap()];
    let threads = Arc::new(ThreadFactory::new("pinned").pin_to(cores));
    let builder = EventExecutorGroup::builder().threads(4).thread_supplier(threads);
    let group = builder.build().unwrap();
    let pinned: Vec<_> = (0..4).map(|_| get(group.submit(allowed_cores).unwrap())).collect();
    let expected = [cores, cores].concat().into_iter().map(|core| core.to_string());
    assert_eq!(pinned, expected.collect::<Vec<_>>());
}

#[test]
fn e17_a_missing_core_is_named_and_the_closure_is_returned() {
    let threads = Arc::new(ThreadFactory::new("nowhere").pin_to([1023]));
    let builder = EventExecutorGroup::builder().threads(2).thread_supplier(threads);
    let group = builder.build().unwrap();
    let rejected = group.submit(|| 7).unwrap_err();
    assert!(matches!(rejected.reason(), RejectReason::NotStarted(_)));
    assert!(rejected.to_string().contains("core 1023"), "{rejected}");
    assert_eq!(rejected.into_task()(), 7);
    let rejected = group.schedule(ms(1), || 8).unwrap_err();
    assert!(rejected.to_string().contains("core 1023"), "{rejected}");
    assert_eq!(rejected.into_task()(), 8);
    assert!(group.children().all(|child| child.state() == ExecutorState::NotStarted));
    end_group(&group);
}

/// A rejection policy that counts its calls and always rejects.
struct CountingPolicy(Arc<Counter>);

impl RejectionPolicy for CountingPolicy {
    fn on_full(&self, full: &QueueFull) -> OnFull {
        assert_eq!(full.bound, 16);
        self.0.task()();
        OnFull::Reject
    }
}

#[test]
fn e17_the_queue_bound_and_the_rejection_policy_reach_every_child() {
    let asked = Arc::new(Counter::new());
    let builder = EventExecutorGroup::builder().threads(2).queue_bound(16);
    let group = builder.rejection(CountingPolicy(asked.clone())).build().unwrap();
    let gates: Vec<_> = group.children().map(|child| Gate::hold(&child)).collect();
    (0..32).for_each(|_| group.execute(|| ()).unwrap());
    for n in 1..=2 {
        let rejected = group.execute(|| ()).unwrap_err();
        assert!(matches!(rejected.reason(), RejectReason::QueueFull { bound: 16 }));
        assert_eq!(asked.ran(), n);
    }
    drop(gates);
    end_group(&group);
}

#[test]
fn e17_adding_the_same_executor_twice_is_an_error() {
    let mut first = None::<EventExecutor>;
    let twice = |builder: EventExecutorBuilder| {
        let child = first.clone().map_or_else(|| builder.build(), Ok)?;
        first = Some(child.clone());
        Ok::<_, BuildError>(child)
    };
    let built = EventExecutorGroup::builder().name("twins").threads(2).build_with(twice);
    let refused = built.map(|_| ()).unwrap_err();
    assert_eq!(refused, BuildError::AlreadyInGroup { executor: "twins-0".to_owned() });
    assert!(first.unwrap().is_terminated(), "the ones before it have ended");
}

#[test]
fn e17_adding_a_child_of_another_group_is_an_error_and_leaves_it_there() {
    let group = EventExecutorGroup::builder().name("home").threads(1).build().unwrap();
    let child = group.next();
    let lent = child.clone();
    let built = EventExecutorGroup::builder()
        .threads(1)
        .build_with(move |_| Ok::<_, BuildError>(lent.clone()));
    let refused = built.map(|_| ()).unwrap_err();
    assert_eq!(refused, BuildError::AlreadyInGroup { executor: "home-0".to_owned() });
    assert_eq!(child.parent().as_ref().map(|parent| parent.next()), Some(child.clone()));
    assert_eq!(child.submit(|| 7).unwrap().join().unwrap(), 7);
    group.shutdown().wait_timeout(TIMEOUT).expect("the group ends");
}
