//! E13, E15, E16: timers while their executor shuts down, and afterwards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, EventExecutor, ExecutorState, ManualExecutor, NoExtension, PromiseFuture, RejectReason,
    Rejected, TokenPark, UserCode, VirtualClock,
};

use crate::support::{Counter, FaultLog, Gate, TIMEOUT, panic_quietly, shut_down};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn executor() -> EventExecutor {
    EventExecutor::builder().build().unwrap()
}

fn manual() -> (ManualExecutor, EventExecutor) {
    let manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let executor = manual.executor().clone();
    (manual, executor)
}

/// Schedules a timer of each kind and returns the three outcomes.
fn one_of_each<F: FnMut() + Send + 'static>(
    executor: &EventExecutor,
    mut closure: impl FnMut() -> F,
) -> [Result<PromiseFuture<()>, Rejected<F>>; 3] {
    [
        executor.schedule(HOUR, closure()),
        executor.schedule_at_fixed_rate(HOUR, HOUR, closure()),
        executor.schedule_with_fixed_delay(HOUR, HOUR, closure()),
    ]
}

/// True if every kind of timer is rejected and every closure is returned.
fn all_refused(executor: &EventExecutor) -> bool {
    let ran = Counter::new();
    let closure = || {
        let ran = ran.clone();
        move || ran.task()()
    };
    for outcome in one_of_each(executor, closure) {
        let Err(rejected) = outcome else { return false };
        if !matches!(rejected.reason(), RejectReason::ShutDown) {
            return false;
        }
        rejected.into_task()();
    }
    ran.ran() == 3
}

#[test]
fn e13_schedule_after_shutdown_hands_the_closure_back() {
    let started = executor();
    started.submit(|| ()).unwrap().join().unwrap();
    shut_down(&started);
    assert!(all_refused(&started));
    let never_started = executor();
    shut_down(&never_started);
    assert!(all_refused(&never_started));
}

#[test]
fn e13_schedule_on_the_loop_after_shutdown_hands_the_closure_back() {
    let executor = executor();
    let (task, straggler) = (executor.clone(), executor.clone());
    let gate = Gate::hold(&executor);
    let in_a_task = executor.submit(move || {
        drop(task.shutdown());
        all_refused(&task)
    });
    let in_the_last_pass = executor.submit(move || all_refused(&straggler));
    gate.open();
    assert!(in_a_task.unwrap().join().unwrap());
    assert!(in_the_last_pass.unwrap().join().unwrap());
}

#[test]
fn e15_pending_timers_are_cancelled_by_both_kinds_of_shutdown() {
    for at_once in [false, true] {
        let executor = executor();
        let (token, closures) = (Arc::new(()), |held: Arc<()>| move || unreachable!("{held:?}"));
        let timers = one_of_each(&executor, || closures(token.clone()));
        let mut timers = timers.map(Result::unwrap);
        let (tell, told) = mpsc::channel();
        let (tell, own) = (tell.clone(), executor.clone());
        timers[0].add_listener(move |outcome| {
            tell.send((own.in_event_loop(), outcome.clone().unwrap_err())).unwrap();
        });
        executor.submit(|| ()).unwrap().join().unwrap();
        assert_eq!(Arc::strong_count(&token), 4);
        let ended = match at_once {
            false => executor.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap(),
            true => executor.shutdown(),
        };
        ended.wait_timeout(TIMEOUT).unwrap();
        assert_eq!(Arc::strong_count(&token), 1, "their closures are gone");
        let (on_loop, error) = told.recv_timeout(TIMEOUT).unwrap();
        assert!(on_loop && error.is_cancelled(), "listeners are told on the loop");
        for timer in timers {
            assert!(timer.join().unwrap_err().is_cancelled());
        }
    }
}

#[test]
fn e15_timers_scheduled_during_shutdown_are_cancelled_and_do_not_prolong_it() {
    let (mut manual, executor) = manual();
    drop(executor.shutdown_gracefully(ms(1000), HOUR).unwrap());
    manual.run_for(ms(500));
    let (inner, off_loop) = (executor.clone(), executor.schedule(ms(10), || ()).unwrap());
    let tick = || unreachable!("cancelled before it is due");
    let rate = executor.schedule_at_fixed_rate(ms(10), ms(10), tick).unwrap();
    manual.run_for(ms(100));
    assert!(off_loop.is_cancelled() && rate.is_cancelled());
    assert_eq!(executor.state(), ExecutorState::ShuttingDown);
    assert_eq!(manual.run_for(ms(399)), 0);
    assert_eq!(executor.state(), ExecutorState::ShuttingDown, "at 999");
    // A task prolongs the quiet period; the timer it schedules does not.
    let schedules = move || inner.schedule(ms(10), || ()).unwrap();
    let on_loop = executor.submit(schedules).unwrap();
    manual.run_now();
    assert!(on_loop.join().unwrap().is_cancelled());
    manual.run_for(ms(999));
    assert_eq!(executor.state(), ExecutorState::ShuttingDown, "at 1998");
    manual.run_for(ms(1));
    assert!(executor.is_terminated(), "at 1999");
}

#[test]
fn e15_a_timer_queued_behind_the_last_pass_is_cancelled_too() {
    let executor = executor();
    let gate = Gate::hold(&executor);
    let timers = one_of_each(&executor, || || ()).map(Result::unwrap);
    drop(executor.shutdown()); // No more submissions: the last pass runs what was accepted.
    gate.open();
    executor.await_termination(TIMEOUT).unwrap();
    for timer in timers {
        assert!(timer.join().unwrap_err().is_cancelled());
    }
}

#[test]
fn e15_a_periodic_timer_does_not_keep_the_executor_from_ending() {
    let executor = executor();
    let (tell, told) = mpsc::channel();
    let tick = move || {
        let _ = tell.send(());
    };
    let timer = executor.schedule_at_fixed_rate(ms(0), Duration::from_micros(1), tick).unwrap();
    told.recv_timeout(TIMEOUT).unwrap();
    shut_down(&executor);
    assert!(timer.join().unwrap_err().is_cancelled());
}

/// Schedules a timer whose cancellation schedules the next, at most `limit` times.
fn schedule_again(executor: &EventExecutor, rounds: Arc<AtomicUsize>, limit: usize) {
    if rounds.fetch_add(1, Ordering::SeqCst) >= limit {
        return;
    }
    let inner = executor.clone();
    if let Ok(mut timer) = executor.schedule(HOUR, || ()) {
        timer.add_listener(move |_| schedule_again(&inner, rounds, limit));
    }
}

#[test]
fn e15_a_timer_rescheduled_at_every_cancel_does_not_prolong_a_pass() {
    let (mut manual, executor) = manual();
    let rounds = Arc::<AtomicUsize>::default();
    schedule_again(&executor, rounds.clone(), 100_000);
    manual.run_now();
    drop(executor.shutdown_gracefully(ms(10), HOUR).unwrap());
    manual.run_now();
    let in_one_pass = rounds.load(Ordering::SeqCst);
    assert!(in_one_pass < 1000, "{in_one_pass} timers cancelled in one pass");
    manual.run_for(ms(10));
    assert!(executor.is_terminated());
}

#[test]
fn e21_pending_timers_do_not_keep_an_executor_alive() {
    let executor = executor();
    let timer = executor.schedule(HOUR, || ()).unwrap();
    let ended = executor.termination();
    drop(executor);
    ended.wait_timeout(TIMEOUT).unwrap();
    assert!(timer.join().unwrap_err().is_cancelled());
}

/// Panics when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic_quietly("in a destructor");
    }
}

/// Returns the closure of a timer that panics when it is dropped.
fn panics_on_drop() -> impl FnMut() + Send + 'static {
    let panics_on_drop = PanicsOnDrop;
    move || {
        let _ = &panics_on_drop;
    }
}

#[test]
fn e15_a_destructor_that_panics_while_timers_are_cancelled_is_reported_and_the_rest_are_cancelled()
{
    let faults = FaultLog::new();
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let panicking = one_of_each(&executor, panics_on_drop).map(Result::unwrap);
    let harmless = executor.schedule(HOUR, || ()).unwrap();
    executor.submit(|| ()).unwrap().join().unwrap();
    shut_down(&executor);
    assert!(harmless.join().unwrap_err().is_cancelled());
    assert!(panicking.iter().all(PromiseFuture::is_done));
    let reported = faults.take_panics();
    assert_eq!(reported.len(), 3, "{reported:?}");
    assert!(reported.iter().all(|(_, _, message)| message == "in a destructor"));
}

/// A loop that panics at the end of a turn when it receives a message.
struct KillableLoop(TokenPark, mpsc::Receiver<()>);

impl LoopWork<NoExtension> for KillableLoop {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(&mut self.0);
        core.run_tasks(PassLimit::Queued, &mut |none| match none {});
        if self.1.try_recv().is_ok() {
            panic_quietly("the loop is broken");
        }
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

/// Returns an executor, and a sender whose message makes its loop panic at the end of a turn.
fn killable_executor() -> (EventExecutor, mpsc::Sender<()>) {
    let park = TokenPark::new(Clock::Monotonic);
    let (unpark, (kill, killed)) = (park.unparker(), mpsc::channel());
    let seed = Box::new(|| Box::new(KillableLoop(park, killed)) as Box<dyn LoopWork<NoExtension>>);
    let builder = EventExecutor::builder().reporter(FaultLog::new());
    (builder.build_loop(unpark, seed).unwrap(), kill)
}

#[test]
fn e16_the_timers_of_a_loop_that_died_all_fail() {
    let (executor, kill) = killable_executor();
    let standing = one_of_each(&executor, || || ()).map(Result::unwrap);
    executor.submit(|| ()).unwrap().join().unwrap();
    // The loop is held in its last turn, so these timers stay in the queue.
    let gate = Gate::hold(&executor);
    let queued = one_of_each(&executor, || || ()).map(Result::unwrap);
    kill.send(()).unwrap();
    gate.open();
    executor.await_termination(TIMEOUT).unwrap();
    assert!(executor.termination().join().is_err(), "it died");
    for timer in standing.into_iter().chain(queued) {
        timer.wait_timeout(TIMEOUT).expect("told");
        assert!(timer.join().is_err());
    }
}

#[test]
fn e16_a_loop_that_died_terminates_even_if_a_leftover_timer_panics_when_dropped() {
    let (executor, kill) = killable_executor();
    let gate = Gate::hold(&executor);
    let left = executor.schedule(HOUR, panics_on_drop()).unwrap();
    kill.send(()).unwrap();
    gate.open();
    executor.await_termination(TIMEOUT).expect("each step runs even if the one before failed");
    assert!(left.is_done());
}

#[test]
fn e12_a_periodic_timer_fails_with_its_panic_and_not_with_its_destructors() {
    let faults = FaultLog::new();
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let panics_on_drop = PanicsOnDrop;
    let tick = move || {
        let _ = &panics_on_drop;
        panic_quietly("in the timer");
    };
    let timer = executor.schedule_at_fixed_rate(ms(0), ms(1), tick).unwrap();
    timer.wait_timeout(TIMEOUT).unwrap();
    assert!(timer.join().unwrap_err().to_string().contains("in the timer"));
    shut_down(&executor);
    let reported = faults.take_panics();
    let in_the_timer = |(what, _, message): &&(UserCode, String, String)| {
        *what == UserCode::Timer && message == "in the timer"
    };
    assert_eq!(reported.iter().filter(in_the_timer).count(), 1, "{reported:?}");
}
