//! E18: which child of a group gets the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use waterwheel_executor::{
    BuildError, ByKey, Choice, Chooser, EventExecutor, EventExecutorGroup, ExecutorAttachment,
    Fault, LeastLoaded, ManualExecutor, NoExtension, UserCode,
};

use crate::support::{FaultLog, Gate, TIMEOUT, panic_quietly};

fn group(threads: usize, chooser: impl Chooser + 'static) -> EventExecutorGroup {
    EventExecutorGroup::builder().threads(threads).chooser(chooser).build().unwrap()
}

/// A chooser made of a closure.
struct FnChooser<F>(F);

impl<F: Fn(&Choice<'_>) -> usize + Send + Sync> Chooser for FnChooser<F> {
    fn choose(&self, choice: &Choice<'_>) -> usize {
        (self.0)(choice)
    }
}

/// Picks `count` children and returns their indices, in order.
fn picks(group: &EventExecutorGroup, count: usize) -> Vec<usize> {
    (0..count).map(|_| number(group, &group.next())).collect()
}

fn number(group: &EventExecutorGroup, child: &EventExecutor) -> usize {
    group.children().position(|other| other == *child).expect("a child of the group")
}

#[test]
fn e18_round_robin_is_the_default_for_any_number_of_children() {
    for threads in [1, 2, 3, 4, 7, 8] {
        let group = EventExecutorGroup::builder().threads(threads).build().unwrap();
        let in_turn: Vec<_> = (0..threads).cycle().take(30).collect();
        assert_eq!(picks(&group, 30), in_turn, "{threads}");
    }
}

#[test]
fn e18_round_robin_is_fair_to_many_threads_at_once() {
    for threads in [3, 4] {
        let group = EventExecutorGroup::builder().threads(threads).build().unwrap();
        let picking = || (0..1200).map(|_| number(&group, &group.next())).collect::<Vec<_>>();
        let picked = std::thread::scope(|scope| {
            let pickers: Vec<_> = (0..3).map(|_| scope.spawn(picking)).collect();
            pickers.into_iter().flat_map(|picker| picker.join().unwrap()).collect::<Vec<_>>()
        });
        for child in 0..threads {
            let count = picked.iter().filter(|picked| **picked == child).count();
            assert_eq!(count, 3600 / threads, "child {child} of {threads}");
        }
    }
}

#[test]
fn e18_least_loaded_takes_the_child_with_the_shortest_queue() {
    let group = group(3, LeastLoaded::default());
    let children: Vec<_> = group.children().collect();
    let gates: Vec<_> = children.iter().map(Gate::hold).collect();
    for (child, queued) in children.iter().zip([5, 2, 9]) {
        (0..queued).for_each(|_| child.execute(|| ()).unwrap());
    }
    assert_eq!(picks(&group, 3), [1, 1, 1], "looking changes nothing");
    // The shortest queue is filled up to the next one's length, then both in turn.
    let mut filled = [0; 3];
    for _ in 0..5 {
        let child = group.next();
        filled[number(&group, &child)] += 1;
        child.execute(|| ()).unwrap();
    }
    assert_eq!(filled, [1, 4, 0]);
    drop(gates);
}

#[test]
fn e18_least_loaded_avoids_a_blocked_child() {
    let group = group(2, LeastLoaded::default());
    let (held, other) = (group.next(), group.next());
    let gate = Gate::hold(&held);
    // Longer than the other queue ever gets: finished tasks of the current batch may still be counted.
    (0..100).for_each(|_| held.execute(|| ()).unwrap());
    for n in 0..500 {
        let done = group.submit(move || (n, EventExecutor::current())).unwrap();
        done.wait_timeout(TIMEOUT).expect("not behind the gate");
        assert_eq!(done.join().unwrap(), (n, Some(other.clone())));
    }
    gate.open();
}

/// Submits itself again while the receiver lives, and sends how often it has run.
fn resubmit_forever(executor: &EventExecutor, ran: u32, tell: mpsc::Sender<u32>) {
    let inner = executor.clone();
    if tell.send(ran).is_ok() {
        let _ = executor.execute(move || resubmit_forever(&inner, ran + 1, tell));
    }
}

#[test]
fn e18_finished_tasks_are_no_load_on_a_busy_loop() {
    let group = group(2, LeastLoaded::default());
    let (busy, held) = (group.next(), group.next());
    let gate = Gate::hold(&held);
    (0..100).for_each(|_| held.execute(|| ()).unwrap());
    let (tell, panic_of) = mpsc::channel();
    resubmit_forever(&busy, 0, tell);
    while panic_of.recv_timeout(TIMEOUT).expect("it goes on") < 10_000 {}
    let depth = busy.stats().queue_depth;
    assert!(depth < 100, "one task is queued at a time, not {depth}");
    assert_eq!(picks(&group, 3), [0, 0, 0]);
    drop(panic_of);
    gate.open();
}

#[test]
fn e18_an_idle_manual_executor_has_no_load() {
    let mut manual = ManualExecutor::new();
    for _ in 0..10 {
        manual.executor().execute(|| ()).unwrap();
        assert_eq!(manual.executor().stats().queue_depth, 1);
        manual.run_now();
        assert_eq!(manual.executor().stats().queue_depth, 0);
    }
}

/// An attachment of a loop that reports this load.
struct AttachedLoad(AtomicUsize);

impl ExecutorAttachment for AttachedLoad {
    fn load(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn e18_attached_load_counts_beside_queued_tasks() {
    let attached: Vec<_> = [4, 2, 3].map(|n| Arc::new(AttachedLoad(AtomicUsize::new(n)))).into();
    let mut next = attached.iter();
    let builder = EventExecutorGroup::builder().threads(3).chooser(LeastLoaded::default());
    let group = builder
        .build_with::<NoExtension, BuildError>(|child| {
            child.attach(next.next().expect("three").clone()).build()
        })
        .unwrap();
    assert_eq!(picks(&group, 2), [1, 1]);
    attached[0].0.store(0, Ordering::Relaxed);
    assert_eq!(picks(&group, 2), [0, 0]);
    let children: Vec<_> = group.children().collect();
    let gate = Gate::hold(&children[0]);
    (0..5).for_each(|_| children[0].execute(|| ()).unwrap());
    assert_eq!(picks(&group, 2), [1, 1], "both count");
    gate.open();
}

#[test]
fn e18_least_loaded_rotates_among_equally_loaded_children() {
    let group = group(3, LeastLoaded::default());
    let mut picked = picks(&group, 6);
    picked.sort_unstable();
    assert_eq!(picked, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn e18_by_key_always_takes_the_same_child_for_the_same_key() {
    let group = group(4, ByKey::default());
    let keys: Vec<_> = (0..200).map(|n| format!("customer {n}")).collect();
    let of = |key: &String| number(&group, &group.next_for(key));
    let first: Vec<_> = keys.iter().map(of).collect();
    assert_eq!(picks(&group, 5), [0, 1, 2, 3, 0], "without a key, in turn");
    let again: Vec<_> = keys.iter().map(of).collect();
    assert_eq!(first, again);
    for child in 0..4 {
        let share = first.iter().filter(|of| **of == child).count();
        assert!(share > 20, "child {child} has {share} of 200 keys");
    }
}

#[test]
fn e18_a_custom_chooser_sees_the_children_their_load_and_the_key() {
    let chooser = FnChooser(|choice: &Choice<'_>| {
        assert_eq!(choice.children(), 3);
        assert_eq!(choice.load(99), usize::MAX, "there is no such child");
        match choice.key() {
            Some(_) => 2,
            None => (0..3).max_by_key(|child| choice.load(*child)).unwrap(),
        }
    });
    let group = group(3, chooser);
    let busy = group.children().nth(1).unwrap();
    let gate = Gate::hold(&busy);
    (0..3).for_each(|_| busy.execute(|| ()).unwrap());
    assert_eq!(picks(&group, 3), [1, 1, 1], "the most loaded, as it wishes");
    assert_eq!(number(&group, &group.next_for(&"key")), 2);
    gate.open();
}

#[test]
fn e18_a_chooser_that_panics_or_returns_a_wrong_index_is_reported_and_replaced() {
    let (calls, faults) = (AtomicUsize::new(0), FaultLog::new());
    let broken = move |_: &Choice<'_>| match calls.fetch_add(1, Ordering::SeqCst) % 3 {
        0 => panic_quietly("cannot decide"),
        1 => 2,
        _ => usize::MAX,
    };
    let builder = EventExecutorGroup::builder().threads(2).reporter(faults.clone());
    let group = builder.chooser(FnChooser(broken)).build().unwrap();
    for n in 0..6 {
        assert_eq!(group.submit(move || n).unwrap().join().unwrap(), n);
    }
    let reported: Vec<_> = faults.take().iter().map(panic_of).collect();
    let nonsense = ["2 of 2".to_owned(), format!("{} of 2", usize::MAX)];
    assert_eq!(reported.len(), 6);
    for (n, (what, message)) in reported.into_iter().enumerate() {
        assert_eq!(what, UserCode::Chooser);
        let expected = match n % 3 {
            0 => "cannot decide",
            other => &nonsense[other - 1],
        };
        assert!(message.contains(expected), "{message}");
    }
    // The next child in turn was taken instead, so both were used.
    drop(group.shutdown());
    group.await_termination(TIMEOUT).unwrap();
    assert!(group.children().all(|child| child.stats().tasks == 3));
}

fn panic_of(fault: &Fault) -> (UserCode, String) {
    match fault {
        Fault::Panicked { what, message, .. } => (*what, message.clone()),
        other => panic!("not a panic: {other:?}"),
    }
}
