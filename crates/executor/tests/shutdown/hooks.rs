//! E14: shutdown hooks.

use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{EventExecutor, ManualExecutor, UserCode, VirtualClock};

use crate::support::{FaultLog, Gate, Log, TIMEOUT, panic_quietly, shut_down};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

fn note<T: Send + 'static>(log: &Log<T>, entry: T) -> impl FnOnce() + Send + 'static + use<T> {
    let log = log.clone();
    move || log.add(entry)
}

#[test]
fn e14_hooks_run_in_the_order_of_their_addition() {
    let (executor, log) = (executor(), Log::new());
    for n in 0..20 {
        executor.add_shutdown_hook(note(&log, n)).unwrap();
    }
    executor.submit(|| ()).unwrap().join().unwrap();
    assert_eq!(log.take(), [], "not before the shutdown");
    shut_down(&executor);
    assert_eq!(log.take(), (0..20).collect::<Vec<_>>());
}

#[test]
fn e14_hooks_run_once_on_the_loop() {
    let (executor, log) = (executor(), Log::new());
    let (inner, seen) = (executor.clone(), log.clone());
    let hook = move || seen.add(inner.in_event_loop());
    executor.add_shutdown_hook(hook).unwrap();
    shut_down(&executor);
    drop(executor.shutdown());
    assert_eq!(log.take(), [true]);
}

#[test]
fn e14_hooks_run_at_an_immediate_shutdown_and_when_the_last_handle_is_dropped() {
    let log = Log::new();
    let (one, other) = (executor(), executor());
    one.add_shutdown_hook(note(&log, "shutdown")).unwrap();
    one.shutdown().wait_timeout(TIMEOUT).unwrap();
    other.add_shutdown_hook(note(&log, "dropped")).unwrap();
    let ended = other.termination();
    drop(other);
    ended.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(log.take(), ["shutdown", "dropped"]);
}

#[test]
fn e14_hooks_are_added_and_removed_from_any_thread() {
    let (executor, log) = (executor(), Log::new());
    let add = |name| executor.add_shutdown_hook(note(&log, name)).unwrap();
    let [_a, b, _c] = ["a", "b", "c"].map(add);
    let elsewhere = {
        let (executor, log) = (executor.clone(), log.clone());
        std::thread::spawn(move || {
            executor.remove_shutdown_hook(b);
            executor.add_shutdown_hook(note(&log, "d")).unwrap()
        })
    };
    let d = elsewhere.join().unwrap();
    let (inner, inner_log) = (executor.clone(), log.clone());
    let on_loop = executor.submit(move || {
        inner.remove_shutdown_hook(d);
        inner.add_shutdown_hook(note(&inner_log, "e")).unwrap();
    });
    on_loop.unwrap().join().unwrap();
    shut_down(&executor);
    assert_eq!(log.take(), ["a", "c", "e"]);
}

#[test]
fn e14_a_removed_hook_is_dropped_without_running() {
    let executor = executor();
    let (kept, is_dropped) = mpsc::channel::<()>();
    let id = executor.add_shutdown_hook(move || kept.send(()).unwrap());
    executor.remove_shutdown_hook(id.unwrap());
    let gone = is_dropped.recv_timeout(TIMEOUT);
    assert_eq!(gone, Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn e14_removing_a_hook_that_has_run_or_after_the_end_does_nothing() {
    let (executor, log) = (executor(), Log::new());
    let first = executor.add_shutdown_hook(note(&log, 1)).unwrap();
    let inner = executor.clone();
    let second = move || inner.remove_shutdown_hook(first);
    executor.add_shutdown_hook(second).unwrap();
    executor.add_shutdown_hook(note(&log, 3)).unwrap();
    shut_down(&executor);
    executor.remove_shutdown_hook(first);
    assert_eq!(log.take(), [1, 3]);
}

#[test]
fn e14_a_hook_can_remove_a_later_one() {
    let (executor, log) = (executor(), Log::new());
    let gate = Gate::hold(&executor);
    let (id, later) = mpsc::channel();
    let inner = executor.clone();
    let remover = move || inner.remove_shutdown_hook(later.recv().unwrap());
    executor.add_shutdown_hook(remover).unwrap();
    let removed = executor.add_shutdown_hook(note(&log, "removed"));
    id.send(removed.unwrap()).unwrap();
    gate.open();
    shut_down(&executor);
    assert_eq!(log.take(), [] as [&str; 0]);
}

#[test]
fn e14_hooks_run_in_a_pass_that_ran_no_task() {
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let (executor, log) = (manual.executor().clone(), Log::new());
    executor.add_shutdown_hook(note(&log, "hook")).unwrap();
    drop(executor.shutdown_gracefully(SECOND, HOUR).unwrap());
    for task in ["one", "two", "three"] {
        executor.execute(note(&log, task)).unwrap();
        manual.run_now();
        assert_eq!(log.take(), [task]);
    }
    manual.run_now();
    assert_eq!(log.take(), ["hook"]);
}

#[test]
fn e14_hooks_may_add_hooks_and_tasks() {
    for quiet in [Duration::ZERO, Duration::from_millis(5)] {
        let (executor, log) = (executor(), Log::new());
        let hook_log = log.clone();
        let hook = move || {
            let inner = EventExecutor::current().unwrap();
            let (second_log, third) = (hook_log.clone(), note(&hook_log, "third"));
            let second = move || {
                let inner = EventExecutor::current().unwrap();
                second_log.add("second");
                inner.add_shutdown_hook(third).unwrap();
            };
            inner.add_shutdown_hook(second).unwrap();
            inner.execute(note(&hook_log, "task")).unwrap();
            hook_log.add("first");
        };
        executor.add_shutdown_hook(hook).unwrap();
        let ended = executor.shutdown_gracefully(quiet, TIMEOUT).unwrap();
        ended.wait_timeout(TIMEOUT).unwrap();
        let log = log.take();
        assert_eq!(log, ["first", "task", "second", "third"], "quiet {quiet:?}");
    }
}

#[test]
fn e14_hooks_run_even_when_the_timeout_comes_first() {
    let clock = VirtualClock::new();
    let mut manual = ManualExecutor::with_virtual_clock(clock.clone());
    let (executor, log) = (manual.executor().clone(), Log::new());
    executor.add_shutdown_hook(note(&log, "hook")).unwrap();
    drop(executor.shutdown_gracefully(SECOND, SECOND).unwrap());
    let too_long = log.clone();
    let task = move || {
        clock.advance(HOUR);
        too_long.add("task");
    };
    executor.execute(task).unwrap();
    manual.run_now();
    assert!(executor.is_terminated());
    assert_eq!(log.take(), ["task", "hook"]);
}

#[test]
fn e14_a_panicking_hook_is_reported_and_skipped() {
    let (faults, log) = (FaultLog::new(), Log::new());
    let builder = EventExecutor::builder().reporter(faults.clone());
    let executor = builder.build().unwrap();
    executor.add_shutdown_hook(note(&log, "before")).unwrap();
    let broken = || panic_quietly("the hook is broken");
    let line = line!() + 1;
    executor.add_shutdown_hook(broken).unwrap();
    executor.add_shutdown_hook(note(&log, "after")).unwrap();
    shut_down(&executor);
    assert_eq!(log.take(), ["before", "after"]);
    let origin = format!("{}:{line}", file!());
    let expected = (UserCode::Hook, origin, "the hook is broken".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
    executor.termination().join().unwrap();
}
