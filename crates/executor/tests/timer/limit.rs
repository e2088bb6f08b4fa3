//! The limit of pending timers, `timer_bound` (E13).

use std::sync::Arc;
use std::time::Duration;

use waterwheel_executor::{
    BuildError, EventExecutor, EventExecutorGroup, ManualExecutor, PromiseFuture, RejectReason,
    Rejected, VirtualClock,
};

use crate::support::{TIMEOUT, panic_quietly, shut_down};

const HOUR: Duration = Duration::from_secs(3600);

fn bounded(bound: usize) -> EventExecutor {
    EventExecutor::builder().timer_bound(bound).build().unwrap()
}

fn manual_executor(bound: usize) -> ManualExecutor {
    let clock = waterwheel_executor::Clock::Virtual(VirtualClock::new());
    EventExecutor::builder().timer_bound(bound).build_manual(clock).unwrap()
}

#[track_caller]
fn assert_refused<T, F>(outcome: Result<T, Rejected<F>>) -> F {
    let rejected = outcome.err().expect("one too many");
    assert!(matches!(rejected.reason(), RejectReason::TooManyTimers { .. }), "{rejected}");
    rejected.into_task()
}

#[test]
fn e13_a_timer_beyond_the_bound_is_rejected_with_its_closure() {
    let executor = bounded(2);
    let pending: Vec<_> = (0..2).map(|n| executor.schedule(HOUR, move || n).unwrap()).collect();
    let token = Arc::new(());
    let held = token.clone();
    let task = assert_refused(executor.schedule(HOUR, move || drop(held)));
    let _ = assert_refused(executor.schedule_at_fixed_rate(HOUR, HOUR, || ()));
    let _ = assert_refused(executor.schedule_with_fixed_delay(HOUR, HOUR, || ()));
    let _ = assert_refused(executor.labelled("late").schedule(HOUR, || ()));
    task();
    assert_eq!(Arc::strong_count(&token), 1, "the closure was ours again");
    assert!(executor.execute(|| ()).is_ok(), "tasks are not timers");
    drop(pending); // Detached, and still pending.
    let _ = assert_refused(executor.schedule(HOUR, || ()));
}

#[test]
fn e13_a_cancelled_timer_makes_room_at_once_even_while_the_loop_sleeps() {
    let executor = bounded(1);
    for _ in 0..100 {
        let timer = executor.schedule(HOUR, || ()).unwrap();
        let _ = assert_refused(executor.schedule(HOUR, || ()));
        assert!(timer.cancel());
    }
    shut_down(&executor);
}

#[test]
fn e13_a_timer_that_has_fired_makes_room_for_one_that_it_schedules() {
    fn again(executor: &EventExecutor, left: u32) -> Result<PromiseFuture<()>, RejectReason> {
        let inside = executor.clone();
        let timer = executor.schedule(HOUR, move || {
            if left > 0 {
                drop(again(&inside, left - 1).expect("it is not pending any more"));
            }
        });
        timer.map_err(|rejected| rejected.reason().clone())
    }
    let mut manual = manual_executor(1);
    drop(again(&manual.executor().clone(), 3).unwrap());
    assert_eq!(manual.run_for(4 * HOUR), 4);
    let panics =
        manual.executor().schedule(HOUR, || -> () { panic_quietly("on purpose") }).unwrap();
    manual.run_for(HOUR);
    assert!(panics.join().is_err());
    assert!(manual.executor().schedule(HOUR, || ()).is_ok(), "one that panicked is over too");
}

#[test]
fn e13_a_repeating_timer_is_pending_until_it_ends() {
    let mut manual = manual_executor(1);
    let executor = manual.executor().clone();
    let repeating = executor.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    manual.run_for(3 * HOUR);
    let _ = assert_refused(executor.schedule(HOUR, || ()));
    assert!(repeating.cancel());
    assert!(executor.schedule(HOUR, || ()).is_ok());
}

#[test]
fn e13_a_rejected_timer_is_not_counted() {
    let executor = bounded(1);
    shut_down(&executor);
    for _ in 0..3 {
        let rejected = executor.schedule(HOUR, || ()).unwrap_err();
        assert!(matches!(rejected.reason(), RejectReason::ShutDown), "{rejected}");
    }
}

#[test]
fn e13_the_end_of_an_executor_cancels_bounded_timers_too() {
    let executor = bounded(1);
    let timer = executor.schedule(HOUR, || ()).unwrap();
    shut_down(&executor);
    timer.wait_timeout(TIMEOUT).unwrap();
    assert!(timer.is_cancelled());
}

#[test]
fn e13_a_bound_of_zero_is_an_error_and_each_child_of_a_group_has_its_own_bound() {
    assert_eq!(
        EventExecutor::builder().timer_bound(0).build().unwrap_err(),
        BuildError::TimerBound
    );
    let group = EventExecutorGroup::builder().threads(2).timer_bound(1).build().unwrap();
    let _two = [group.schedule(HOUR, || ()).unwrap(), group.schedule(HOUR, || ()).unwrap()];
    let _ = assert_refused(group.schedule(HOUR, || ()));
}
