//! E16: the steps of a loop's teardown, after a shutdown and after a panic of the loop.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, ErrorKind, EventExecutor, ExecutorState, Fault, GlobalExecutor, LoopBody, LoopLocal,
    NoExtension, TokenPark, UserCode, WaitError,
};

use crate::support::{
    Counter, FaultLog, FnSupplier, Gate, Log, TIMEOUT, lock, panic_quietly, shut_down, with_timeout,
};

type StepLog = Log<(&'static str, ExecutorState)>;

/// A value whose drop is logged as a step of the teardown.
struct LoggedDrop {
    name: &'static str,
    steps: StepLog,
    panics: bool,
}

impl Drop for LoggedDrop {
    fn drop(&mut self) {
        self.steps.add((self.name, here()));
        if self.panics {
            panic_quietly(self.name);
        }
    }
}

/// Returns the state of the executor whose loop runs here.
fn here() -> ExecutorState {
    EventExecutor::current().expect("on the loop").state()
}

/// A loop that panics when `die` is set, and whose driver logs its drop.
struct KillableLoop {
    park: TokenPark,
    die: Arc<AtomicBool>,
    _driver: LoggedDrop,
}

impl LoopWork<NoExtension> for KillableLoop {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(&mut self.park);
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        if self.die.load(Ordering::SeqCst) {
            panic_quietly("the driver is broken");
        }
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

/// An executor on a [`KillableLoop`] loop that logs each step of its teardown, and can panic in each.
struct ObservedTeardown {
    executor: EventExecutor,
    faults: Arc<FaultLog>,
    steps: StepLog,
    die: Arc<AtomicBool>,
    panics: bool,
}

impl ObservedTeardown {
    fn new(panics: bool) -> Self {
        let (faults, steps, die) = (FaultLog::new(), Log::new(), Arc::new(AtomicBool::new(false)));
        let park = TokenPark::new(Clock::Monotonic);
        let (unpark, dies, driver_steps) = (park.unparker(), die.clone(), steps.clone());
        let seed = Box::new(move || {
            let (name, steps) = ("driver", driver_steps);
            Box::new(KillableLoop { park, die: dies, _driver: LoggedDrop { name, steps, panics } })
                as Box<dyn LoopWork<NoExtension>>
        });
        let builder = EventExecutor::builder().name("killable").reporter(faults.clone());
        let executor = builder.build_loop(unpark, seed).unwrap();
        let watched = Self { executor, faults, steps, die, panics };
        watched.add_hook_and_loop_local();
        watched
    }

    fn add_hook_and_loop_local(&self) {
        static LOCAL: LoopLocal<RefCell<Option<LoggedDrop>>> = LoopLocal::new(Default::default);
        let (local, hook) = (self.step("loop-local"), self.step("hook"));
        self.executor.add_shutdown_hook(move || drop(hook)).unwrap();
        let keep = move || LOCAL.with(|slot| *slot.borrow_mut() = Some(local));
        self.executor.submit(keep).unwrap().join().unwrap();
    }

    fn step(&self, name: &'static str) -> LoggedDrop {
        let (steps, panics) = (self.steps.clone(), self.panics);
        LoggedDrop { name, steps, panics }
    }

    /// Shuts the executor down with a queued task that only the last pass can run.
    fn shut_down_with_a_queued_task(&self) {
        let gate = Gate::hold(&self.executor);
        let last_task = self.step("last task");
        self.executor.execute(move || drop(last_task)).unwrap();
        drop(self.executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO));
        gate.open();
        self.executor.await_termination(TIMEOUT).unwrap();
    }

    /// Makes the loop panic while the tasks submitted by `queue` are queued.
    fn die_with<R>(&self, queue: impl FnOnce(&EventExecutor) -> R) -> R {
        let gate = Gate::hold(&self.executor);
        self.die.store(true, Ordering::SeqCst);
        let queued = queue(&self.executor);
        gate.open();
        self.executor.await_termination(TIMEOUT).unwrap();
        queued
    }
}

const IN_ORDER: [(&str, ExecutorState); 4] = [
    ("hook", ExecutorState::ShuttingDown),
    ("last task", ExecutorState::Shutdown),
    ("driver", ExecutorState::Shutdown),
    ("loop-local", ExecutorState::Shutdown),
];

#[test]
fn e16_the_teardown_steps_run_in_order() {
    let watched = ObservedTeardown::new(false);
    let (steps, executor) = (watched.steps.clone(), watched.executor.clone());
    let (told, is_told) = mpsc::channel();
    watched.executor.termination().add_listener(move |_| {
        steps.add(("termination future", executor.state()));
        told.send(()).unwrap();
    });
    watched.shut_down_with_a_queued_task();
    assert_eq!(watched.executor.state(), ExecutorState::Terminated, "before waiters are told");
    is_told.recv_timeout(TIMEOUT).unwrap();
    let steps = watched.steps.take();
    assert_eq!(steps[..4], IN_ORDER);
    assert_eq!(steps[4..], [("termination future", ExecutorState::Terminated)]);
}

#[test]
fn e16_each_teardown_step_runs_even_if_the_one_before_panicked() {
    let watched = ObservedTeardown::new(true);
    watched.shut_down_with_a_queued_task();
    assert_eq!(watched.steps.take(), IN_ORDER);
    watched.executor.termination().join().expect("the loop itself did not fail");
    let panics: Vec<_> = watched.faults.take_panics();
    let kinds: Vec<_> = panics.iter().map(|(what, ..)| *what).collect();
    let task = UserCode::Task;
    let destructor = UserCode::Destructor;
    assert_eq!(kinds, [UserCode::Hook, task, destructor, destructor]);
    let messages: Vec<_> = panics.iter().map(|(_, _, message)| message.as_str()).collect();
    assert_eq!(messages, ["hook", "last task", "driver", "loop-local"]);
}

#[test]
fn e16_tasks_of_the_last_pass_run_and_cannot_submit_more() {
    let (watched, ran) = (ObservedTeardown::new(false), Counter::new());
    let gate = Gate::hold(&watched.executor);
    let submits = ran.clone();
    let last_task = move || {
        let here = EventExecutor::current().unwrap();
        here.execute(submits.task()).is_err()
    };
    let refused = watched.executor.submit(last_task).unwrap();
    (0..1000).for_each(|_| watched.executor.execute(ran.task()).unwrap());
    drop(watched.executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO));
    gate.open();
    watched.executor.await_termination(TIMEOUT).unwrap();
    assert!(refused.join().unwrap());
    assert_eq!(ran.ran(), 1000);
    assert!(watched.faults.take().is_empty(), "nothing was left");
}

#[test]
fn e16_tasks_left_by_a_loop_that_died_are_reported_and_their_futures_fail() {
    let (watched, ran) = (ObservedTeardown::new(false), Counter::new());
    let (told, is_told) = mpsc::channel();
    let (handles, mut listened) = watched.die_with(|executor| {
        executor.execute(ran.task()).unwrap();
        executor.execute(ran.task()).unwrap();
        let handles: Vec<_> = (0..3).map(|_| executor.submit(ran.task()).unwrap()).collect();
        (handles, executor.submit(ran.task()).unwrap())
    });
    listened.add_listener(move |outcome| told.send(outcome.is_err()).unwrap());
    assert!(handles.into_iter().all(|handle| handle.join().is_err()));
    assert!(is_told.recv_timeout(TIMEOUT).unwrap(), "listeners of handles are told too");
    assert_eq!(ran.ran(), 0);
    let faults = watched.faults.take();
    let [Fault::TasksLeft { count: 6, cause }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert!(cause.contains("the driver is broken"), "{cause}");
    let refused = watched.executor.submit(|| 7).unwrap_err();
    assert_eq!(refused.into_task()(), 7);
}

#[test]
fn e16_a_loop_that_died_runs_the_teardown_steps() {
    for panics in [false, true] {
        let watched = ObservedTeardown::new(panics);
        watched.die_with(|_| ());
        let names: Vec<_> = watched.steps.take().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["hook", "driver", "loop-local"]);
        assert_eq!(watched.executor.state(), ExecutorState::Terminated);
        assert_eq!(watched.executor.join(), Ok(()));
        let left = |fault: &Fault| matches!(fault, Fault::TasksLeft { .. });
        assert!(!watched.faults.take().iter().any(left), "no task was left");
    }
}

#[test]
fn e16_the_termination_future_carries_the_cause_and_its_listeners_run() {
    let watched = ObservedTeardown::new(false);
    let (told, is_told) = mpsc::channel();
    let listen = |when| {
        let (told, ended) = (told.clone(), watched.executor.termination());
        ended.add_listener(move |outcome| {
            let cause = outcome.as_ref().unwrap_err().to_string();
            let on_global = GlobalExecutor::get().in_event_loop();
            told.send((when, cause, on_global)).unwrap();
        });
    };
    listen("before");
    watched.die_with(|_| ());
    listen("after");
    for expected in ["before", "after"] {
        let (when, cause, on_global) = is_told.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((when, on_global), (expected, true));
        assert!(cause.contains("killable") && cause.contains("the driver is broken"), "{cause}");
    }
    let cause = watched.executor.termination().join().unwrap_err();
    assert!(matches!(cause.kind(), ErrorKind::LoopDied { executor, .. } if executor == "killable"));
}

#[test]
fn e16_a_loop_whose_creation_panics_has_died() {
    let faults = FaultLog::new();
    let park = TokenPark::new(Clock::Monotonic);
    let (go, gone) = mpsc::channel::<()>();
    let seed = Box::new(move || -> Box<dyn LoopWork<NoExtension>> {
        let _ = gone.recv();
        panic_quietly("no driver")
    });
    let builder = EventExecutor::builder().reporter(faults.clone());
    let executor = builder.build_loop(park.unparker(), seed).unwrap();
    let handle = executor.submit(|| ()).unwrap();
    drop(go);
    assert!(handle.join().is_err());
    let cause = executor.termination().join().unwrap_err();
    assert!(cause.to_string().contains("no driver"), "{cause}");
    assert!(matches!(faults.take()[..], [Fault::TasksLeft { count: 1, .. }]));
}

#[test]
fn e16_the_termination_future_cannot_be_cancelled() {
    let executor = EventExecutor::builder().build().unwrap();
    assert!(!executor.termination().cancel());
    shut_down(&executor);
    executor.termination().join().unwrap();
}

#[test]
fn e16_waiting_for_termination_ends_at_its_timeout() {
    let executor = EventExecutor::builder().build().unwrap();
    let moment = Duration::from_millis(1);
    assert_eq!(executor.await_termination(moment), Err(WaitError::TimedOut));
    shut_down(&executor);
    assert_eq!(executor.await_termination(Duration::ZERO), Ok(()));
}

#[test]
fn e16_join_also_waits_for_the_thread() {
    let (leave, may_leave) = mpsc::channel::<()>();
    let may_leave = std::sync::Mutex::new(Some(may_leave));
    let lingers = FnSupplier(move |body: LoopBody| {
        let may_leave = crate::support::lock(&may_leave).take().unwrap();
        let thread = std::thread::Builder::new().spawn(move || {
            body.run();
            let _ = may_leave.recv();
        })?;
        Ok(Some(thread))
    });
    let builder = EventExecutor::builder().thread_supplier(Arc::new(lingers));
    let executor = builder.build().unwrap();
    executor.execute(|| ()).unwrap();
    shut_down(&executor);
    let joiners: Vec<_> = (0..2)
        .map(|_| {
            let executor = executor.clone();
            std::thread::spawn(move || executor.join())
        })
        .collect();
    (0..100).for_each(|_| std::thread::yield_now());
    assert!(joiners.iter().all(|joiner| !joiner.is_finished()));
    drop(leave);
    for joiner in joiners {
        assert_eq!(joiner.join().unwrap(), Ok(()));
    }
}

#[test]
fn e16_join_of_an_executor_without_a_thread_of_its_own_returns() {
    let never_started = EventExecutor::builder().build().unwrap();
    shut_down(&never_started);
    assert_eq!(never_started.join(), Ok(()));
    let no_handle = FnSupplier(|body: LoopBody| crate::support::spawn(body).map(|_| None));
    let builder = EventExecutor::builder().thread_supplier(Arc::new(no_handle));
    let borrowed = builder.build().unwrap();
    borrowed.execute(|| ()).unwrap();
    shut_down(&borrowed);
    assert_eq!(borrowed.join(), Ok(()));
}

#[test]
fn e16_join_is_refused_on_the_loops_own_thread_after_its_end() {
    let slot = Arc::new(Mutex::new(None::<EventExecutor>));
    let (tell, told) = mpsc::channel();
    let (inner, tell) = (slot.clone(), Mutex::new(tell));
    let supplier = FnSupplier(move |body: LoopBody| {
        let (slot, tell) = (inner.clone(), lock(&tell).clone());
        let thread = std::thread::Builder::new().spawn(move || {
            body.run();
            let executor = lock(&slot).take().expect("set before the shutdown");
            let joined = catch_unwind(AssertUnwindSafe(|| executor.join()));
            tell.send(joined.map_err(|_| "join panicked")).unwrap();
        })?;
        Ok(Some(thread))
    });
    let executor =
        EventExecutor::builder().name("own").thread_supplier(Arc::new(supplier)).build().unwrap();
    *lock(&slot) = Some(executor.clone());
    executor.submit(|| ()).unwrap().join().unwrap();
    drop(executor.shutdown());
    match told.recv_timeout(TIMEOUT).expect("it returns") {
        Ok(Err(WaitError::WouldDeadlock(refused))) => assert_eq!(refused.executor, "own"),
        other => panic!("{other:?}"),
    }
    with_timeout(move || executor.join()).expect("others may join");
}
