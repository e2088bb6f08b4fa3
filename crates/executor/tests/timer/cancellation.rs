//! E13: cancelling timers: before and after they start, on and off the loop, twice, from inside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use waterwheel_executor::{Canceller, EventExecutor, ManualExecutor, UserCode, VirtualClock};

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, FaultLog, Log, TIMEOUT, lock, panic_quietly, shut_down};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn manual() -> (ManualExecutor, EventExecutor) {
    let manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let executor = manual.executor().clone();
    (manual, executor)
}

/// Returns a token and a closure that holds it: the token's reference count shows whether the closure still exists.
fn captured() -> (Arc<()>, impl FnMut() + Send + 'static) {
    let token = Arc::new(());
    let held = token.clone();
    let timer = move || {
        let _ = &held;
        unreachable!("it was cancelled");
    };
    (token, timer)
}

/// A timer's own canceller, set after the timer was scheduled.
type OwnCanceller = Arc<Mutex<Option<Canceller>>>;

fn cancel_own(own: &OwnCanceller) -> bool {
    lock(own).as_ref().expect("filled before time moves").cancel()
}

#[test]
fn e13_a_timer_cancelled_before_it_starts_never_runs_and_drops_its_closure_at_once() {
    let (mut manual, executor) = manual();
    for seen_by_the_loop in [false, true] {
        let ((once, work), (rate, tick)) = (captured(), captured());
        let work = executor.schedule(ms(10), work).unwrap();
        let tick = executor.schedule_at_fixed_rate(ms(10), ms(10), tick).unwrap();
        if seen_by_the_loop {
            manual.run_for(ms(9));
        }
        assert_eq!((Arc::strong_count(&once), Arc::strong_count(&rate)), (2, 2));
        assert!(work.cancel() && tick.cancel());
        assert_eq!((Arc::strong_count(&once), Arc::strong_count(&rate)), (1, 1));
        assert!(work.is_done() && work.is_cancelled());
        assert!(!work.cancel() && !tick.cancel(), "twice");
        assert_eq!(manual.run_for(HOUR), 0);
        assert_eq!(executor.stats().timers, 0);
        assert!(work.join().unwrap_err().is_cancelled());
        assert!(tick.join().unwrap_err().is_cancelled());
    }
}

#[test]
fn e13_a_timer_cancelled_on_the_loop_drops_its_closure_at_once() {
    let (mut manual, executor) = manual();
    let ((off, from_outside), (on, from_inside)) = (captured(), captured());
    let outside = executor.schedule(HOUR, from_outside).unwrap();
    manual.run_now();
    let (inner, counts) = (executor.clone(), [off.clone(), on.clone()]);
    let cancels = move || {
        let inside = inner.schedule(HOUR, from_inside).unwrap();
        let won = [outside.cancel(), inside.cancel(), outside.cancel(), inside.cancel()];
        (won, counts.map(|token| Arc::strong_count(&token)))
    };
    let outcome = executor.submit(cancels).unwrap();
    manual.run_now();
    // Two references each: the test's and the one that the task counts.
    assert_eq!(outcome.join().unwrap(), ([true, true, false, false], [2, 2]));
    assert_eq!(executor.stats().timers, 0, "cleared in the same pass");
}

#[test]
fn e13_cancel_after_it_has_run_returns_false() {
    let (mut manual, executor) = manual();
    let timer = executor.schedule(ms(1), || 7).unwrap();
    manual.run_for(ms(1));
    assert!(!timer.cancel() && !timer.is_cancelled());
    assert_eq!(timer.join().unwrap(), 7);
}

#[test]
fn e13_a_one_shot_cannot_cancel_itself() {
    let (mut manual, executor) = manual();
    let own = OwnCanceller::default();
    let inner = own.clone();
    let timer = executor.schedule(ms(1), move || cancel_own(&inner)).unwrap();
    *lock(&own) = Some(timer.canceller());
    assert_eq!(manual.run_for(HOUR), 1);
    assert!(!timer.is_cancelled());
    assert!(!timer.join().unwrap(), "too late, it runs");
}

#[test]
fn e13_a_periodic_timer_can_cancel_itself_and_stops() {
    let (mut manual, executor) = manual();
    for fixed_rate in [true, false] {
        let (own, won, token) = (OwnCanceller::default(), Log::new(), Arc::new(()));
        let (inner, log, held) = (own.clone(), won.clone(), token.clone());
        let mut runs = 0;
        let tick = move || {
            let _ = &held;
            runs += 1;
            if runs >= 3 {
                log.add((runs, cancel_own(&inner), cancel_own(&inner)));
            }
        };
        let timer = match fixed_rate {
            true => executor.schedule_at_fixed_rate(ms(1), ms(1), tick),
            false => executor.schedule_with_fixed_delay(ms(1), ms(1), tick),
        };
        let timer = timer.unwrap();
        *lock(&own) = Some(timer.canceller());
        assert_eq!(manual.run_for(HOUR), 3);
        assert_eq!(won.take(), [(3, true, false)]);
        assert_eq!(Arc::strong_count(&token), 1, "the closure is gone");
        assert_eq!(executor.stats().timers, 0);
        assert!(timer.join().unwrap_err().is_cancelled());
    }
}

#[test]
fn e13_a_timer_can_cancel_another_that_is_due_with_it() {
    let (mut manual, executor) = manual();
    let own = OwnCanceller::default();
    let inner = own.clone();
    let first = executor.schedule(ms(1), move || cancel_own(&inner)).unwrap();
    let (token, second) = captured();
    let second = executor.schedule(ms(1), second).unwrap();
    let third = executor.schedule(ms(1), || 3).unwrap();
    *lock(&own) = Some(second.canceller());
    manual.run_for(ms(1));
    assert_eq!((first.join().unwrap(), third.join().unwrap()), (true, 3));
    assert!(second.is_cancelled());
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn e13_a_running_timer_is_cancelled_from_another_thread_only_if_it_would_run_again() {
    let executor = EventExecutor::builder().build().unwrap();
    for periodic in [false, true] {
        let ran = Counter::new();
        let (inside, is_inside) = mpsc::channel();
        let (open, opened) = mpsc::channel::<()>();
        let count = ran.clone();
        let work = move || {
            count.task()();
            let _ = inside.send(());
            let _ = opened.recv();
        };
        let timer = match periodic {
            false => executor.schedule(ms(1), work).unwrap(),
            true => executor.schedule_at_fixed_rate(ms(1), ms(1), work).unwrap(),
        };
        is_inside.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(timer.cancel(), periodic);
        drop(open);
        let gone = is_inside.recv_timeout(TIMEOUT).unwrap_err();
        assert_eq!(gone, RecvTimeoutError::Disconnected, "the closure is dropped, not run again");
        assert_eq!(ran.ran(), 1);
        assert_eq!(timer.join().is_ok(), !periodic);
    }
    shut_down(&executor);
}

#[test]
fn e13_an_off_loop_cancel_drops_the_closure_and_does_not_wake_the_loop() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    let (tokens, closures): (Vec<_>, Vec<_>) = (0..100).map(|_| captured()).unzip();
    let timers: Vec<_> = closures
        .into_iter()
        .map(|closure| observed.executor.schedule(HOUR, closure).unwrap())
        .collect();
    assert!(observed.wait_asleep().until.is_some(), "it sleeps towards them");
    assert_eq!(observed.executor.stats().timers, 100);
    let (unparks, before) = (observed.unparks(), observed.executor.stats());
    assert!(timers.iter().all(|timer| timer.cancel()));
    assert!(tokens.iter().all(|token| Arc::strong_count(token) == 1));
    let after = observed.executor.stats();
    assert_eq!((observed.unparks(), after.wake_ups), (unparks, before.wake_ups));
    assert_eq!(after.turns, before.turns, "it still sleeps");
    // The next wake-up of the loop clears their entries.
    assert_eq!(observed.wait_asleep().until, None);
    assert_eq!(observed.executor.stats().timers, 0);
    shut_down(&observed.executor);
}

#[test]
fn e13_a_canceller_outlives_the_future_and_the_executor() {
    let (mut manual, executor) = manual();
    let (token, closure) = captured();
    let timer = executor.schedule(HOUR, closure).unwrap();
    let (canceller, late) = (timer.canceller(), executor.schedule(HOUR, || ()).unwrap());
    drop(timer);
    manual.run_now();
    assert!(canceller.cancel(), "dropping a future detaches, it does not end the timer");
    assert_eq!(Arc::strong_count(&token), 1);
    drop((manual, executor));
    assert!(late.is_cancelled() && !late.cancel() && !canceller.cancel());
}

/// Schedules a timer when it is dropped.
struct SchedulesWhenDropped(EventExecutor, Counter);

impl Drop for SchedulesWhenDropped {
    fn drop(&mut self) {
        drop(self.0.schedule(ms(1), self.1.task()).unwrap());
    }
}

#[test]
fn e13_a_closures_destructor_may_schedule_timers() {
    let (mut manual, executor) = manual();
    let ran = Counter::new();
    let bait = SchedulesWhenDropped(executor.clone(), ran.clone());
    let timer = executor.schedule(HOUR, move || drop(bait)).unwrap();
    let cancelled = executor.submit(move || timer.cancel()).unwrap();
    manual.run_for(ms(1));
    assert!(cancelled.join().unwrap());
    assert_eq!(ran.ran(), 1);
}

#[test]
fn e13_cancels_and_the_run_race_to_one_winner() {
    let executor = EventExecutor::builder().build().unwrap();
    for _ in 0..300 {
        let (ran, together) = (Counter::new(), Arc::new(Barrier::new(3)));
        let timer = executor.schedule(Duration::from_micros(20), ran.task()).unwrap();
        let canceller = timer.canceller();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (canceller, together) = (canceller.clone(), together.clone());
                std::thread::spawn(move || {
                    together.wait();
                    canceller.cancel()
                })
            })
            .collect();
        together.wait();
        let cancels = threads.into_iter().map(|t| t.join().unwrap());
        let won = cancels.filter(|won| *won).count();
        timer.wait_timeout(TIMEOUT).unwrap();
        assert_eq!(timer.is_cancelled(), won == 1);
        let _ = timer.join();
        executor.submit(|| ()).unwrap().join().unwrap();
        assert_eq!(ran.ran() + won, 1);
    }
}

/// Panics when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic_quietly("the thorn")
    }
}

#[test]
fn e13_a_cancelled_timer_whose_closure_panics_when_dropped_is_still_cancelled() {
    let executor = EventExecutor::builder().build().unwrap();
    let panics_on_drop = PanicsOnDrop;
    let mut timer = executor.schedule(HOUR, move || drop(panics_on_drop)).unwrap();
    let (tell, told) = mpsc::channel();
    timer.add_listener(move |outcome| {
        tell.send(outcome.as_ref().is_err_and(|error| error.is_cancelled())).unwrap();
    });
    let cancelled = catch_unwind(AssertUnwindSafe(|| timer.cancel()));
    assert!(matches!(cancelled, Ok(true)), "the panic came out of cancel");
    assert!(told.recv_timeout(TIMEOUT).expect("the listeners are told"));
    assert!(timer.join().unwrap_err().is_cancelled());
    shut_down(&executor);
}

#[test]
fn e13_a_closure_that_panics_when_dropped_by_a_cancel_on_the_loop_is_reported() {
    let faults = FaultLog::new();
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let panics_on_drop = PanicsOnDrop;
    let timer = executor.schedule(HOUR, move || drop(panics_on_drop)).unwrap();
    assert!(executor.submit(move || timer.cancel()).unwrap().join().unwrap());
    let expected = (UserCode::Destructor, "destructor".to_owned(), "the thorn".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7, "the loop lives on");
    shut_down(&executor);
}
