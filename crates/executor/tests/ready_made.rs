//! E19: the manual executor and the global one.

mod support;

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::task::{Poll, Waker};
use std::time::Duration;

use support::{Counter, Log, SOON, blow, lock, within};
use waterwheel_executor::{
    Clock, EventExecutor, GlobalExecutor, ManualExecutor, State, VirtualClock, WouldDeadlock,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn e19_a_manual_executor_runs_its_tasks_on_the_callers_thread_when_it_is_told_to() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let ran = Counter::new();
    assert_eq!(manual.run_now(), 0, "nothing to do, and it does not wait for it");
    executor.execute(ran.task()).unwrap();
    let submitter = executor.clone();
    let on_thread = std::thread::spawn(move || {
        let id = || std::thread::current().id();
        submitter.submit(id).unwrap()
    });
    let id = on_thread.join().unwrap();
    assert_eq!((ran.ran(), executor.in_event_loop()), (0, false));
    assert_eq!(manual.run_now(), 2);
    assert_eq!(ran.ran(), 1);
    assert_eq!(id.join().unwrap(), std::thread::current().id());
}

#[test]
fn e19_run_now_leaves_what_its_tasks_submit_for_the_next_call() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    fn again(executor: &EventExecutor) {
        let inner = executor.clone();
        let _ = executor.execute(move || again(&inner));
    }
    again(&executor);
    again(&executor);
    for _ in 0..3 {
        assert_eq!(manual.run_now(), 2);
    }
}

#[test]
fn e19_run_for_moves_a_virtual_clock_by_exactly_that_much() {
    let clock = VirtualClock::new();
    let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
    let executor = manual.executor().clone();
    let (inner, ran) = (executor.clone(), Counter::new());
    let last = ran.task();
    let chain = move || {
        let next = inner.clone();
        inner.execute(move || next.execute(last).unwrap()).unwrap();
    };
    executor.execute(chain).unwrap();
    let begun = clock.now();
    assert_eq!(manual.run_for(HOUR), 3, "the chain is run to its end");
    assert_eq!(clock.now().since(begun), HOUR);
    assert_eq!((manual.run_for(SECOND), ran.ran()), (0, 1));
    assert_eq!(clock.now().since(begun), HOUR + SECOND);
}

#[test]
fn e19_run_for_takes_its_time_by_the_real_clock() {
    let (time, mut manual) = (Duration::from_millis(20), ManualExecutor::default());
    let begun = Clock::Monotonic.now();
    assert_eq!(manual.run_for(time), 0);
    assert!(Clock::Monotonic.now().since(begun) >= time);
}

#[test]
fn e19_run_for_runs_tasks_as_they_come_and_returns_when_the_executor_ends() {
    let ran = within(|| {
        let mut manual = ManualExecutor::new();
        let executor = manual.executor().clone();
        let other = std::thread::spawn(move || {
            for n in 0..100 {
                assert_eq!(executor.submit(move || n).unwrap().join().unwrap(), n);
            }
            drop(executor.shutdown_gracefully(Duration::ZERO, SOON).unwrap());
        });
        let ran = manual.run_for(HOUR);
        other.join().unwrap();
        assert!(manual.executor().is_terminated());
        ran
    });
    assert_eq!(ran, 100);
}

#[test]
fn e19_run_for_returns_even_if_a_task_submits_itself_again_and_again() {
    fn again(executor: &EventExecutor) {
        let inner = executor.clone();
        let task = move || {
            // Gives up by itself, so that a failure of this test is a failure and not a hang.
            if inner.stats().turns < 1_000_000 {
                again(&inner);
            }
        };
        let _ = executor.execute(task);
    }
    let virtual_clock = ManualExecutor::with_virtual_clock(VirtualClock::new());
    for mut manual in [ManualExecutor::new(), virtual_clock] {
        again(manual.executor());
        let ran = manual.run_for(Duration::from_millis(1));
        assert!(ran > 0 && ran < 1_000_000, "{ran} tasks in a millisecond");
    }
}

#[test]
fn e19_block_on_runs_tasks_until_the_future_is_ready() {
    let mut manual = ManualExecutor::new();
    let executor = manual.executor().clone();
    let value = manual.block_on(async {
        let first = executor.submit(|| 40).unwrap().await.unwrap();
        let inner = executor.clone();
        let second = executor.submit(move || inner.submit(|| 2).unwrap()).unwrap();
        first + second.await.unwrap().await.unwrap()
    });
    assert_eq!(value.unwrap(), 42);
    assert!(!executor.in_event_loop());
}

/// A future that is ready once its waker, sent to another thread, was called there.
async fn woken_by(waker_to: Sender<Waker>) {
    let mut asked = false;
    let once = poll_fn(move |context| match std::mem::replace(&mut asked, true) {
        false => {
            let _ = waker_to.send(context.waker().clone());
            Poll::Pending
        }
        true => Poll::Ready(()),
    });
    once.await;
}

/// Calls the wakers it is sent, a little later: by then whoever waits sleeps.
fn wakes_later() -> Sender<Waker> {
    let (to, wakers) = mpsc::channel::<Waker>();
    std::thread::spawn(move || {
        for waker in wakers {
            (0..1000).for_each(|_| std::thread::yield_now());
            waker.wake();
        }
    });
    to
}

#[test]
fn e19_block_on_is_woken_from_another_thread() {
    within(|| {
        let (mut manual, wake) = (ManualExecutor::new(), wakes_later());
        for _ in 0..10 {
            manual.block_on(woken_by(wake.clone())).unwrap();
        }
    });
}

#[test]
fn e19_block_on_is_woken_with_a_virtual_clock_too() {
    within(|| {
        let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
        manual.block_on(woken_by(wakes_later())).unwrap();
    });
}

#[test]
fn e19_block_on_still_works_when_the_executor_has_ended() {
    within(|| {
        let mut manual = ManualExecutor::new();
        drop(manual.executor().shutdown());
        manual.run_now();
        assert!(manual.executor().is_terminated());
        assert_eq!(manual.block_on(async { 7 }).unwrap(), 7);
        manual.block_on(woken_by(wakes_later())).unwrap();
    });
}

#[test]
fn e19_block_on_goes_on_when_the_executor_ends_meanwhile() {
    within(|| {
        let (mut manual, wake) = (ManualExecutor::new(), wakes_later());
        let executor = manual.executor().clone();
        let outlives = async {
            drop(executor.shutdown_gracefully(Duration::ZERO, SOON).unwrap());
            executor.termination().await.unwrap();
            woken_by(wake).await;
        };
        manual.block_on(outlives).unwrap();
        assert_eq!(manual.run_now(), 0);
    });
}

#[test]
fn e19_block_on_is_refused_on_a_thread_that_runs_a_loop() {
    let executor = EventExecutor::builder().name("host").build().unwrap();
    let refused = executor.submit(|| ManualExecutor::new().block_on(async { 7 }));
    let expected = WouldDeadlock { executor: "host".to_owned() };
    assert_eq!(refused.unwrap().join().unwrap(), Err(expected));
    let (mut outer, mut inner) = (ManualExecutor::new(), ManualExecutor::new());
    let nested = outer.block_on(async { inner.block_on(async { 7 }) }).unwrap();
    assert!(nested.is_err());
    assert_eq!(inner.block_on(async { 7 }), Ok(7), "and welcome afterwards");
}

#[test]
fn e19_a_dropped_manual_executor_runs_what_was_accepted() {
    let manual = ManualExecutor::new();
    let (executor, log) = (manual.executor().clone(), Log::new());
    let (task, hook) = (log.clone(), log.clone());
    executor.add_shutdown_hook(move || hook.add("hook")).unwrap();
    executor.execute(move || task.add("task")).unwrap();
    drop(manual);
    let mut log = log.take();
    log.sort_unstable();
    assert_eq!(log, ["hook", "task"]);
    assert_eq!(executor.state(), State::Terminated);
    assert!(executor.execute(|| ()).is_err());
    executor.termination().join().unwrap();
}

#[test]
fn e19_a_manual_executor_survives_a_panicking_task() {
    let mut manual = ManualExecutor::new();
    manual.executor().execute(|| blow("by hand")).unwrap();
    let value = manual.executor().submit(|| 7).unwrap();
    assert_eq!(manual.run_now(), 2);
    assert_eq!(value.join().unwrap(), 7);
}

#[test]
fn e19_the_global_executor_is_one_thread_for_all() {
    let global = GlobalExecutor::get();
    let who = || {
        let thread = std::thread::current();
        (thread.name().map(str::to_owned), GlobalExecutor::get().in_event_loop())
    };
    let expected = (Some("waterwheel-global".to_owned()), true);
    assert_eq!(global.submit(who).unwrap().join().unwrap(), expected);
    // Asked on the executor itself: it ends by itself after a second, and a busy machine may take that.
    assert!(global.submit(|| GlobalExecutor::get().is_running()).unwrap().join().unwrap());
    assert!(!global.in_event_loop());
    let log = Log::new();
    for n in 0..1000 {
        let log = log.clone();
        global.execute(move || log.add(n)).unwrap();
    }
    global.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(log.take(), (0..1000).collect::<Vec<_>>());
}

/// There is one global executor for all tests: who ends it is not to disturb who watches it idle.
static ENDING: Mutex<()> = Mutex::new(());

#[test]
fn e19_the_global_executor_survives_panics_and_shutdowns_by_its_tasks() {
    let _alone = lock(&ENDING);
    let global = GlobalExecutor::get();
    global.execute(|| blow("globally")).unwrap();
    let current = || EventExecutor::current().unwrap();
    let graceful = move || drop(current().shutdown_gracefully(Duration::ZERO, SOON).unwrap());
    let immediate = move || drop(current().shutdown());
    for round in 0..20 {
        match round % 2 {
            0 => global.execute(graceful).unwrap(),
            _ => global.execute(immediate).unwrap(),
        }
        let next = global.submit(move || round).unwrap();
        next.wait_timeout(SOON).unwrap();
        assert_eq!(next.join().unwrap(), round);
    }
}

#[test]
fn e19_promises_of_the_global_executor_are_told_on_it() {
    let global = GlobalExecutor::get();
    let (promise, mut future) = global.new_promise();
    let (tell, told) = mpsc::channel();
    let listener = move |_: &Result<(), _>| {
        tell.send(GlobalExecutor::get().in_event_loop()).unwrap();
    };
    future.add_listener(listener);
    promise.set_success(());
    assert!(told.recv_timeout(SOON).unwrap());
}

/// Tells when its thread ends.
struct AtExit(Sender<()>);

impl Drop for AtExit {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

thread_local! {
    static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

#[test]
fn e19_the_global_thread_ends_after_a_second_without_work_and_comes_back_on_demand() {
    let _alone = lock(&ENDING);
    let global = GlobalExecutor::get();
    let (exit, exited) = mpsc::channel();
    let watch = move || {
        AT_EXIT.set(Some(AtExit(exit)));
        std::thread::current().id()
    };
    let before = Clock::Monotonic.now();
    let first = global.submit(watch).unwrap().join().unwrap();
    exited.recv_timeout(SOON).expect("the thread ends");
    assert!(Clock::Monotonic.now().since(before) >= SECOND);
    let second = global.submit(|| std::thread::current().id()).unwrap();
    assert_ne!(second.join().unwrap(), first);
}
