//! E10, E13, P04: the global thread while it is idle or waits for a timer.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use waterwheel_executor::{EventExecutor, GlobalExecutor};

use super::global_alone;
use crate::support::TIMEOUT;

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than two idle limits of the global executor.
const TWO_IDLE_LIMITS: Duration = Duration::from_millis(2500);

/// Returns the executor that currently runs as the global one.
fn current_global_executor() -> EventExecutor {
    let current = GlobalExecutor::get().submit(EventExecutor::current).unwrap();
    current.wait_timeout(TIMEOUT).expect("the global thread is free");
    current.join().unwrap().expect("on its thread it is the current one")
}

fn wait_out_idle_limits() {
    let (_never, nothing) = mpsc::channel::<()>();
    assert_eq!(nothing.recv_timeout(TWO_IDLE_LIMITS), Err(RecvTimeoutError::Timeout));
}

#[test]
fn p04_a_completed_future_is_joined_on_the_global_thread() {
    let (_alone, global) = global_alone();
    let joined = global.submit(move || {
        let (promise, mut future) = global.new_promise();
        let (tell, told) = mpsc::channel();
        future.add_listener(move |_| tell.send(()).unwrap());
        assert!(std::thread::spawn(move || promise.set_success(7)).join().unwrap());
        let (was_done, value) = (future.is_done(), future.join().unwrap());
        (was_done, value, told.try_recv())
    });
    let joined = joined.unwrap();
    joined.wait_timeout(TIMEOUT).expect("the global thread does not wait for itself");
    assert_eq!(joined.join().unwrap(), (true, 7, Ok(())), "listeners come first");
}

#[test]
fn e10_the_global_thread_sleeps_while_a_timer_waits() {
    let (_alone, global) = global_alone();
    let timer = global.schedule(HOUR, || ()).unwrap();
    let executor = current_global_executor();
    let before = executor.stats();
    wait_out_idle_limits();
    let after = executor.stats();
    // The one turn is the one that was running.
    assert!(after.turns <= before.turns + 1, "{before:?} {after:?}");
    assert!(after.sleeps <= before.sleeps + 1, "{before:?} {after:?}");
    assert!(global.is_running() && timer.cancel());
}

#[test]
fn e13_an_idle_global_executor_does_not_cancel_a_timer_of_unlimited_delay() {
    let (_alone, global) = global_alone();
    let never = global.schedule(Duration::MAX, || ()).unwrap();
    let executor = current_global_executor();
    wait_out_idle_limits();
    assert!(!never.is_done() && !never.is_cancelled(), "{never:?}");
    assert!(global.is_running(), "it is not idle while a timer waits");
    assert_eq!(current_global_executor(), executor, "nobody took its place");
    assert!(never.cancel());
}
