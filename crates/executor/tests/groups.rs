//! E01, E02, E17: what a group does and how it is built.

mod support;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use support::{Counter, Faults, Gate, SOON, blow, lock};
use waterwheel_executor::{
    BuildError, EventExecutor, EventExecutorGroup, OnFull, PromiseFuture, QueueFull, RejectReason,
    Rejected, RejectionPolicy, State, ThreadFactory, UserCode, WaitError, default_threads,
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn group(threads: usize) -> EventExecutorGroup {
    EventExecutorGroup::builder().threads(threads).build().unwrap()
}

/// The executor whose loop runs the calling code.
fn here() -> EventExecutor {
    EventExecutor::current().expect("on a loop")
}

fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(SOON).expect("completed in time");
    future.join().unwrap()
}

fn end_group(group: &EventExecutorGroup) {
    drop(group.shutdown_gracefully(Duration::ZERO, SOON).unwrap());
    group.await_termination(SOON).unwrap();
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
        assert_eq!(told.recv_timeout(SOON).unwrap(), *child);
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
        let twice = [told.recv_timeout(SOON).unwrap(), told.recv_timeout(SOON).unwrap()];
        assert_eq!(twice, [child.clone(), child.clone()]);
        assert!(future.cancel());
        get(child.submit(|| ()).unwrap());
        while told.try_recv().is_ok() {}
    }
    end_group(&group);
}

#[test]
fn e01_a_submitted_tasks_panic_is_its_futures_error() {
    let faults = Faults::new();
    let builder = EventExecutorGroup::builder().threads(2).reporter(faults.clone());
    let group = builder.build().unwrap();
    let failed = group.submit(|| blow("in a group")).unwrap();
    let line = line!() - 1;
    assert!(failed.join().unwrap_err().to_string().contains("in a group"));
    group.schedule(ms(1), || blow("later")).unwrap().join().unwrap_err();
    let expected = [
        (UserCode::Task, format!("{}:{line}", file!()), "in a group".to_owned()),
        (UserCode::Timer, format!("{}:{}", file!(), line + 3), "later".to_owned()),
    ];
    assert_eq!(faults.take_panics(), expected, "with the submitter's line");
}

#[test]
fn e01_all_gathers_what_the_children_return() {
    let group = group(3);
    let squares = group.all((0..30).map(|n| group.submit(move || n * n).unwrap()));
    assert_eq!(get(squares), (0..30).map(|n| n * n).collect::<Vec<_>>());
}

#[test]
fn e01_a_period_of_zero_comes_back_from_a_group_too() {
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
fn e01_a_group_is_in_a_state_when_all_its_children_are() {
    let group = group(2);
    let states = || (group.is_shutting_down(), group.is_shut_down(), group.is_terminated());
    let children: Vec<_> = group.children().collect();
    let gate = Gate::hold(&children[1]);
    drop(children[0].shutdown_gracefully(Duration::ZERO, SOON).unwrap());
    children[0].await_termination(SOON).unwrap();
    assert_eq!(states(), (false, false, false), "one of two");
    drop(children[1].shutdown_gracefully(Duration::ZERO, SOON).unwrap());
    assert_eq!(states(), (true, false, false), "the other is held");
    drop(children[1].shutdown());
    assert_eq!(states(), (true, true, false));
    assert!(!group.termination().is_done());
    assert_eq!(group.await_termination(ms(1)), Err(WaitError::TimedOut));
    gate.open();
    group.await_termination(SOON).unwrap();
    assert_eq!(states(), (true, true, true));
    group.termination().join().unwrap();
}

#[test]
fn e01_waiting_for_a_group_on_the_thread_of_a_child_is_refused() {
    let group = EventExecutorGroup::builder().threads(2).name("crew").build().unwrap();
    let (inner, waited) = (group.clone(), group.children().nth(1).unwrap());
    let waited = get(waited.submit(move || inner.await_termination(SOON)).unwrap());
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
fn e17_children_are_there_at_once_and_their_threads_when_they_are_used() {
    let group = group(3);
    let states = || group.children().map(|child| child.state()).collect::<Vec<_>>();
    assert_eq!(states(), [State::NotStarted; 3]);
    assert!(group.children().all(|child| child.thread_properties().is_none()));
    get(group.children().nth(1).unwrap().submit(|| ()).unwrap());
    assert_eq!(states(), [State::NotStarted, State::Started, State::NotStarted]);
    end_group(&group);
}

/// Why a child could not be built.
#[derive(Debug, PartialEq)]
enum NoChild {
    Third,
    Invalid(BuildError),
}

impl From<BuildError> for NoChild {
    fn from(invalid: BuildError) -> Self {
        Self::Invalid(invalid)
    }
}

#[test]
fn e17_if_a_child_cannot_be_built_those_before_it_are_shut_down_and_awaited() {
    let (built, ran) = (Mutex::new(Vec::new()), Counter::new());
    let outcome = EventExecutorGroup::builder().threads(5).build_with(|builder| {
        if lock(&built).len() == 2 {
            return Err(NoChild::Third);
        }
        let child = builder.build()?;
        if lock(&built).is_empty() {
            child.execute(ran.task()).unwrap(); // One of them has even started.
        }
        lock(&built).push(child.clone());
        Ok(child)
    });
    assert_eq!(outcome.unwrap_err(), NoChild::Third);
    let states: Vec<_> = lock(&built).iter().map(EventExecutor::state).collect();
    assert_eq!(states, [State::Terminated; 2], "nobody was asked for more");
    assert_eq!(ran.ran(), 1, "what was accepted has run");
    let alive = lock(&built)[0].thread_properties().map(|thread| thread.is_alive);
    assert_eq!(alive, Some(false));
}

#[test]
fn e17_an_invalid_property_of_the_children_is_the_groups() {
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

/// The cores the calling thread may run on, as the kernel writes them.
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
fn e17_a_core_that_is_not_there_is_named_and_the_closure_comes_back() {
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
    assert!(group.children().all(|child| child.state() == State::NotStarted));
    end_group(&group);
}

/// Counts how often it was asked, and refuses.
struct Asked(Arc<Counter>);

impl RejectionPolicy for Asked {
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
    let group = builder.rejection(Asked(asked.clone())).build().unwrap();
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
