//! E22: loop-local values.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

use waterwheel_executor::{EventExecutor, ExecutorState, LoopLocal, ManualExecutor, UserCode};

use crate::support::{FaultLog, Log, panic_quietly, shut_down};

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

/// Logs the thread and the executor's state when it is dropped.
struct DropLog {
    log: Log<(ThreadId, bool, ExecutorState)>,
    executor: EventExecutor,
}

impl DropLog {
    fn new(executor: &EventExecutor, log: &Log<(ThreadId, bool, ExecutorState)>) -> Self {
        let (executor, log) = (executor.clone(), log.clone());
        Self { log, executor }
    }
}

impl Drop for DropLog {
    fn drop(&mut self) {
        let (on_loop, state) = (self.executor.in_event_loop(), self.executor.state());
        self.log.add((std::thread::current().id(), on_loop, state));
    }
}

#[test]
fn e22_every_loop_has_its_own_value() {
    static COUNT: LoopLocal<Cell<u32>> = LoopLocal::new(|| Cell::new(0));
    static MADE: AtomicUsize = AtomicUsize::new(0);
    static MADE_LATE: LoopLocal<usize> = LoopLocal::new(|| MADE.fetch_add(1, Ordering::SeqCst));
    let next = || COUNT.with(|count| count.replace(count.get() + 1));
    let (one, other) = (executor(), executor());
    let on = |executor: &EventExecutor| executor.submit(next).unwrap().join().unwrap();
    assert_eq!([on(&one), on(&one), on(&one)], [Some(0), Some(1), Some(2)]);
    assert_eq!([on(&other), on(&one), on(&other)], [Some(0), Some(3), Some(1)]);
    assert_eq!(MADE.load(Ordering::SeqCst), 0, "made at the first use");
    let made = || MADE_LATE.with(|n| *n);
    let on = |executor: &EventExecutor| executor.submit(made).unwrap().join().unwrap();
    assert_eq!([on(&one), on(&other), on(&one)], [Some(0), Some(1), Some(0)]);
}

#[test]
fn e22_a_thread_without_a_loop_has_no_value() {
    static LOCAL: LoopLocal<u32> = LoopLocal::new(|| unreachable!("made outside of a loop"));
    assert_eq!(LOCAL.with(|n| *n), None);
}

#[test]
fn e22_the_value_is_dropped_on_the_loop_when_it_ends() {
    static LOCAL: LoopLocal<RefCell<Option<DropLog>>> = LoopLocal::new(Default::default);
    let (executor, log) = (executor(), Log::new());
    let drop_log = DropLog::new(&executor, &log);
    let keep = move || {
        LOCAL.with(|slot| *slot.borrow_mut() = Some(drop_log));
        std::thread::current().id()
    };
    let loop_thread = executor.submit(keep).unwrap().join().unwrap();
    assert!(log.take().is_empty(), "kept for the life of the loop");
    shut_down(&executor);
    assert_eq!(log.take(), [(loop_thread, true, ExecutorState::Shutdown)]);
}

#[test]
fn e22_a_value_need_not_be_send() {
    static LOCAL: LoopLocal<std::rc::Rc<Cell<u32>>> = LoopLocal::new(Default::default);
    let executor = executor();
    let use_it = || LOCAL.with(|rc| rc.set(std::rc::Rc::strong_count(rc) as u32));
    assert_eq!(executor.submit(use_it).unwrap().join().unwrap(), Some(()));
}

#[test]
fn e22_dropping_a_manual_executor_drops_its_values() {
    static LOCAL: LoopLocal<RefCell<Option<DropLog>>> = LoopLocal::new(Default::default);
    let (mut manual, log) = (ManualExecutor::new(), Log::new());
    let drop_log = DropLog::new(manual.executor(), &log);
    let keep = move || LOCAL.with(|slot| *slot.borrow_mut() = Some(drop_log));
    drop(manual.executor().submit(keep).unwrap());
    manual.run_now();
    assert!(LOCAL.with(|_| ()).is_none(), "not between the calls");
    assert!(log.take().is_empty());
    drop(manual);
    let here = std::thread::current().id();
    assert_eq!(log.take(), [(here, true, ExecutorState::Shutdown)]);
}

#[test]
fn e22_values_may_use_each_other_during_creation_use_and_drop() {
    static BASE: LoopLocal<Cell<u32>> = LoopLocal::new(|| Cell::new(10));
    static DERIVED: LoopLocal<Derived> =
        LoopLocal::new(|| Derived(BASE.with(|base| base.get() + 1).unwrap()));
    struct Derived(u32);
    impl Drop for Derived {
        fn drop(&mut self) {
            let base = BASE.with(Cell::get).unwrap();
            DROPPED_WITH.store(base as usize, Ordering::SeqCst);
        }
    }
    static DROPPED_WITH: AtomicUsize = AtomicUsize::new(0);
    let executor = executor();
    let nested = || {
        DERIVED.with(|derived| {
            BASE.with(|base| base.set(base.get() * 2));
            DERIVED.with(|again| again.0 + derived.0)
        })
    };
    assert_eq!(executor.submit(nested).unwrap().join().unwrap(), Some(Some(22)));
    shut_down(&executor);
    // The loop's own base, or a new one if that was dropped already.
    assert!([10, 20].contains(&DROPPED_WITH.load(Ordering::SeqCst)));
}

#[test]
fn e22_a_panicking_destructor_is_reported_and_the_others_run() {
    static FIRST: LoopLocal<PanicsOnDrop> = LoopLocal::new(|| PanicsOnDrop);
    static SECOND: LoopLocal<RefCell<Option<DropLog>>> = LoopLocal::new(Default::default);
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic_quietly("the destructor is broken");
        }
    }
    let (faults, log) = (FaultLog::new(), Log::new());
    let builder = EventExecutor::builder().reporter(faults.clone());
    let executor = builder.build().unwrap();
    let drop_log = DropLog::new(&executor, &log);
    let keep = move || {
        FIRST.with(|_| ());
        SECOND.with(|slot| *slot.borrow_mut() = Some(drop_log));
    };
    executor.execute(keep).unwrap();
    shut_down(&executor);
    assert_eq!(log.take().len(), 1);
    let panics = faults.take_panics();
    assert_eq!(panics.len(), 1);
    assert_eq!((panics[0].0, &*panics[0].2), (UserCode::Destructor, "the destructor is broken"));
    executor.termination().join().unwrap();
}

#[test]
fn e22_a_panicking_initialiser_fails_the_task_and_is_retried() {
    static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
    static LOCAL: LoopLocal<u32> =
        LoopLocal::new(|| match ATTEMPTS.fetch_add(1, Ordering::SeqCst) {
            0 => panic_quietly("not today"),
            _ => 7,
        });
    let executor = executor();
    let read = || LOCAL.with(|n| *n);
    assert!(executor.submit(read).unwrap().join().is_err());
    assert_eq!(executor.submit(read).unwrap().join().unwrap(), Some(7));
}
