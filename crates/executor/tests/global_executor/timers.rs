//! E19: timers of the global executor.

use std::sync::mpsc;
use std::time::Duration;

use waterwheel_executor::{
    Clock, EventExecutor, GlobalExecutor, PromiseFuture, RejectReason, Rejected,
};

use super::global_alone;
use crate::support::{Counter, TIMEOUT};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn get<T: Send + 'static>(future: PromiseFuture<T>) -> T {
    future.wait_timeout(TIMEOUT).expect("completed in time");
    future.join().unwrap()
}

#[test]
fn e19_the_global_executor_has_timers() {
    let (_alone, global) = global_alone();
    let before = Clock::Monotonic.now();
    let fires = || (Clock::Monotonic.now(), GlobalExecutor::get().in_event_loop());
    let (at, on_global) = get(global.schedule(ms(2), fires).unwrap());
    assert!(on_global && at.since(before) >= ms(2));
    let (tell, told) = mpsc::channel();
    let (rate, delay) = (tell.clone(), tell);
    let rate = global.schedule_at_fixed_rate(ms(0), ms(1), move || {
        let _ = rate.send("rate");
    });
    let delay = global.schedule_with_fixed_delay(ms(0), ms(1), move || {
        let _ = delay.send("delay");
    });
    let mut left = ["rate", "delay", "rate", "delay"].to_vec();
    while !left.is_empty() {
        let ticked = told.recv_timeout(TIMEOUT).unwrap();
        left.iter().position(|what| *what == ticked).map(|at| left.remove(at));
    }
    assert!(rate.unwrap().cancel() && delay.unwrap().cancel());
    while told.recv_timeout(TIMEOUT).is_ok() {} // Until both closures have been dropped.
}

#[test]
fn e19_the_global_executor_refuses_a_period_of_zero() {
    fn check<F: FnMut()>(outcome: Result<PromiseFuture<()>, Rejected<F>>) {
        let rejected = outcome.unwrap_err();
        assert!(matches!(rejected.reason(), RejectReason::ZeroPeriod));
        rejected.into_task()();
    }
    let ((_alone, global), ran) = (global_alone(), Counter::new());
    let tick = || {
        let ran = ran.clone();
        move || ran.task()()
    };
    check(global.schedule_at_fixed_rate(ms(0), Duration::ZERO, tick()));
    check(global.schedule_with_fixed_delay(ms(0), Duration::ZERO, tick()));
    assert_eq!(ran.ran(), 2);
}

#[test]
fn e19_the_global_thread_stays_while_a_timer_waits() {
    let thread = || std::thread::current().id();
    let (_alone, global) = global_alone();
    // Longer than the second after which an idle global thread ends. Nothing else should wake it meanwhile;
    // if something does, the thread must be the same even so.
    let later = global.schedule(ms(1300), thread).unwrap();
    let now = get(global.submit(thread).unwrap());
    assert_eq!(get(later), now);
}

#[test]
fn e19_a_timer_given_to_the_global_executor_while_its_thread_ends_is_not_lost() {
    let (_alone, global) = global_alone();
    let ends_and_schedules = || {
        let current: EventExecutor = EventExecutor::current().unwrap();
        drop(current.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap());
        GlobalExecutor::get().schedule(ms(1), || 7).unwrap()
    };
    let timer = get(global.submit(ends_and_schedules).unwrap());
    timer.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(timer.join().unwrap(), 7, "it cannot be shut down");
}
