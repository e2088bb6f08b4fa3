//! E16: how a loop ends, and how it ends when it died.

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

use crate::support::{Counter, Faults, Gate, Log, SOON, SupplyBy, blow, end, lock, within};

type Steps = Log<(&'static str, ExecutorState)>;

/// Something whose end is a step of the teardown.
struct Step {
    name: &'static str,
    steps: Steps,
    panics: bool,
}

impl Drop for Step {
    fn drop(&mut self) {
        self.steps.add((self.name, here()));
        if self.panics {
            blow(self.name);
        }
    }
}

/// The state of the executor whose loop runs here.
fn here() -> ExecutorState {
    EventExecutor::current().expect("on the loop").state()
}

/// A loop that dies when it is told to, and can see its driver closed.
struct Mortal {
    park: TokenPark,
    die: Arc<AtomicBool>,
    _driver: Step,
}

impl LoopWork<NoExtension> for Mortal {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(&mut self.park);
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        if self.die.load(Ordering::SeqCst) {
            blow("the driver is on fire");
        }
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

/// An executor on a [`Mortal`] loop that logs each step of its end, and can fail in each.
struct ObservedTeardown {
    executor: EventExecutor,
    faults: Arc<Faults>,
    steps: Steps,
    die: Arc<AtomicBool>,
    panics: bool,
}

impl ObservedTeardown {
    fn new(panics: bool) -> Self {
        let (faults, steps, die) = (Faults::new(), Log::new(), Arc::new(AtomicBool::new(false)));
        let park = TokenPark::new(Clock::Monotonic);
        let (unpark, dies, driver_steps) = (park.unparker(), die.clone(), steps.clone());
        let seed = Box::new(move || {
            let (name, steps) = ("driver", driver_steps);
            Box::new(Mortal { park, die: dies, _driver: Step { name, steps, panics } })
                as Box<dyn LoopWork<NoExtension>>
        });
        let builder = EventExecutor::builder().name("mortal").reporter(faults.clone());
        let executor = builder.build_loop(unpark, seed).unwrap();
        let watched = Self { executor, faults, steps, die, panics };
        watched.add_hook_and_loop_local();
        watched
    }

    fn add_hook_and_loop_local(&self) {
        static LOCAL: LoopLocal<RefCell<Option<Step>>> = LoopLocal::new(Default::default);
        let (local, hook) = (self.step("loop-local"), self.step("hook"));
        self.executor.add_shutdown_hook(move || drop(hook)).unwrap();
        let keep = move || LOCAL.with(|slot| *slot.borrow_mut() = Some(local));
        self.executor.submit(keep).unwrap().join().unwrap();
    }

    fn step(&self, name: &'static str) -> Step {
        let (steps, panics) = (self.steps.clone(), self.panics);
        Step { name, steps, panics }
    }

    /// Ends it with a task in the queue that only the last pass can run.
    fn end_with_a_straggler(&self) {
        let gate = Gate::hold(&self.executor);
        let straggler = self.step("straggler");
        self.executor.execute(move || drop(straggler)).unwrap();
        drop(self.executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO));
        gate.open();
        self.executor.await_termination(SOON).unwrap();
    }

    /// Kills it with these tasks in the queue.
    fn die_with<R>(&self, queue: impl FnOnce(&EventExecutor) -> R) -> R {
        let gate = Gate::hold(&self.executor);
        self.die.store(true, Ordering::SeqCst);
        let queued = queue(&self.executor);
        gate.open();
        self.executor.await_termination(SOON).unwrap();
        queued
    }
}

const IN_ORDER: [(&str, ExecutorState); 4] = [
    ("hook", ExecutorState::ShuttingDown),
    ("straggler", ExecutorState::Shutdown),
    ("driver", ExecutorState::Shutdown),
    ("loop-local", ExecutorState::Shutdown),
];

#[test]
fn e16_the_steps_come_in_order() {
    let watched = ObservedTeardown::new(false);
    let (steps, executor) = (watched.steps.clone(), watched.executor.clone());
    let (told, is_told) = mpsc::channel();
    watched.executor.termination().add_listener(move |_| {
        steps.add(("termination future", executor.state()));
        told.send(()).unwrap();
    });
    watched.end_with_a_straggler();
    assert_eq!(watched.executor.state(), ExecutorState::Terminated, "before waiters are told");
    is_told.recv_timeout(SOON).unwrap();
    let steps = watched.steps.take();
    assert_eq!(steps[..4], IN_ORDER);
    assert_eq!(steps[4..], [("termination future", ExecutorState::Terminated)]);
}

#[test]
fn e16_each_step_runs_even_if_the_one_before_failed() {
    let watched = ObservedTeardown::new(true);
    watched.end_with_a_straggler();
    assert_eq!(watched.steps.take(), IN_ORDER);
    watched.executor.termination().join().expect("the loop itself did not fail");
    let panics: Vec<_> = watched.faults.take_panics();
    let kinds: Vec<_> = panics.iter().map(|(what, ..)| *what).collect();
    let task = UserCode::Task;
    let destructor = UserCode::Destructor;
    assert_eq!(kinds, [UserCode::Hook, task, destructor, destructor]);
    let messages: Vec<_> = panics.iter().map(|(_, _, message)| message.as_str()).collect();
    assert_eq!(messages, ["hook", "straggler", "driver", "loop-local"]);
}

#[test]
fn e16_stragglers_all_run_and_find_the_door_shut() {
    let (watched, ran) = (ObservedTeardown::new(false), Counter::new());
    let gate = Gate::hold(&watched.executor);
    let submits = ran.clone();
    let straggler = move || {
        let here = EventExecutor::current().unwrap();
        here.execute(submits.task()).is_err()
    };
    let refused = watched.executor.submit(straggler).unwrap();
    (0..1000).for_each(|_| watched.executor.execute(ran.task()).unwrap());
    drop(watched.executor.shutdown_gracefully(Duration::ZERO, Duration::ZERO));
    gate.open();
    watched.executor.await_termination(SOON).unwrap();
    assert!(refused.join().unwrap());
    assert_eq!(ran.ran(), 1000);
    assert!(watched.faults.take().is_empty(), "nothing was left");
}

#[test]
fn e16_a_loop_that_died_leaves_tasks_counted_and_reported_and_their_handles_failed() {
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
    assert!(is_told.recv_timeout(SOON).unwrap(), "listeners of handles are told too");
    assert_eq!(ran.ran(), 0);
    let faults = watched.faults.take();
    let [Fault::TasksLeft { count: 6, cause }] = &faults[..] else {
        panic!("{faults:?}");
    };
    assert!(cause.contains("the driver is on fire"), "{cause}");
    let refused = watched.executor.submit(|| 7).unwrap_err();
    assert_eq!(refused.into_task()(), 7);
}

#[test]
fn e16_a_loop_that_died_is_torn_down_all_the_same() {
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
        let (when, cause, on_global) = is_told.recv_timeout(SOON).unwrap();
        assert_eq!((when, on_global), (expected, true));
        assert!(cause.contains("mortal") && cause.contains("the driver is on fire"), "{cause}");
    }
    let cause = watched.executor.termination().join().unwrap_err();
    assert!(matches!(cause.kind(), ErrorKind::LoopDied { executor, .. } if executor == "mortal"));
}

#[test]
fn e16_a_loop_that_cannot_even_be_made_has_died() {
    let faults = Faults::new();
    let park = TokenPark::new(Clock::Monotonic);
    let (go, gone) = mpsc::channel::<()>();
    let seed = Box::new(move || -> Box<dyn LoopWork<NoExtension>> {
        let _ = gone.recv();
        blow("no driver")
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
    end(&executor);
    executor.termination().join().unwrap();
}

#[test]
fn e16_waiting_for_the_end_gives_up_when_the_time_is_up() {
    let executor = EventExecutor::builder().build().unwrap();
    let moment = Duration::from_millis(1);
    assert_eq!(executor.await_termination(moment), Err(WaitError::TimedOut));
    end(&executor);
    assert_eq!(executor.await_termination(Duration::ZERO), Ok(()));
}

#[test]
fn e16_join_also_waits_for_the_thread() {
    let (leave, may_leave) = mpsc::channel::<()>();
    let may_leave = std::sync::Mutex::new(Some(may_leave));
    let lingers = SupplyBy(move |body: LoopBody| {
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
    end(&executor);
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
    end(&never_started);
    assert_eq!(never_started.join(), Ok(()));
    let no_handle = SupplyBy(|body: LoopBody| crate::support::spawn(body).map(|_| None));
    let builder = EventExecutor::builder().thread_supplier(Arc::new(no_handle));
    let borrowed = builder.build().unwrap();
    borrowed.execute(|| ()).unwrap();
    end(&borrowed);
    assert_eq!(borrowed.join(), Ok(()));
}

#[test]
fn e16_join_is_refused_on_the_loops_own_thread_after_its_end() {
    let slot = Arc::new(Mutex::new(None::<EventExecutor>));
    let (tell, told) = mpsc::channel();
    let (inner, tell) = (slot.clone(), Mutex::new(tell));
    let supplier = SupplyBy(move |body: LoopBody| {
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
    match told.recv_timeout(SOON).expect("it returns") {
        Ok(Err(WaitError::WouldDeadlock(refused))) => assert_eq!(refused.executor, "own"),
        other => panic!("{other:?}"),
    }
    within(move || executor.join()).expect("others may join");
}
