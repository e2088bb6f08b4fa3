//! E10 to E12: when timers wake a sleeping loop, and how they share a pass with tasks.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use waterwheel_executor::engine::{LoopCore, LoopWork, PassLimit, TurnOutcome};
use waterwheel_executor::{
    Clock, EventExecutor, ManualExecutor, NoExtension, TokenPark, UserCode, VirtualClock,
};

use crate::support::observed_executor::ObservedExecutor;
use crate::support::{Counter, FaultLog, Log, TIMEOUT, panic_quietly, shut_down};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn manual() -> (VirtualClock, ManualExecutor, EventExecutor) {
    let clock = VirtualClock::new();
    let manual = ManualExecutor::with_virtual_clock(clock.clone());
    let executor = manual.executor().clone();
    (clock, manual, executor)
}

#[test]
fn e10_a_loop_sleeps_until_its_next_timer_is_due() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    let before = Clock::Monotonic.now();
    drop(observed.executor.schedule(HOUR * 2, || ()).unwrap());
    drop(observed.executor.schedule(HOUR, || ()).unwrap());
    let after = Clock::Monotonic.now();
    let until = observed.wait_asleep().until.expect("a deadline");
    assert!(until >= before.plus(HOUR) && until <= after.plus(HOUR));
}

#[test]
fn e10_a_timer_later_than_the_next_deadline_does_not_wake_the_loop() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    let first = observed.executor.schedule(HOUR, || ()).unwrap();
    observed.wait_asleep();
    let (unparks, turns) = (observed.unparks(), observed.executor.stats().turns);
    let before = Clock::Monotonic.now();
    let later: Vec<_> = [HOUR, HOUR * 2, HOUR * 3, Duration::MAX]
        .into_iter()
        .map(|delay| observed.executor.schedule(delay, || ()).unwrap())
        .collect();
    let after = Clock::Monotonic.now();
    assert_eq!(observed.unparks(), unparks);
    assert_eq!(observed.executor.stats().turns, turns, "it still sleeps");
    // Once the loop is awake it knows all of them.
    assert!(first.cancel() && later[0].cancel());
    let until = observed.wait_asleep().until.expect("a deadline");
    assert!(until >= before.plus(HOUR * 2) && until <= after.plus(HOUR * 2));
    assert_eq!(observed.executor.stats().timers, 3);
    shut_down(&observed.executor);
}

#[test]
fn e10_an_earlier_timer_wakes_the_loop_once() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    for sleeps_towards in [None, Some(HOUR)] {
        let timer = sleeps_towards.map(|delay| observed.executor.schedule(delay, || ()).unwrap());
        assert_eq!(observed.wait_asleep().until.is_some(), sleeps_towards.is_some());
        let unparks = observed.unparks();
        let earlier = observed.executor.schedule(HOUR / 2, || ()).unwrap();
        assert_eq!(observed.unparks(), unparks + 1);
        let until = observed.next_park().until.expect("a deadline");
        assert!(until < Clock::Monotonic.now().plus(HOUR / 2));
        assert!(earlier.cancel() && timer.is_none_or(|timer| timer.cancel()));
    }
    shut_down(&observed.executor);
}

#[test]
fn e10_a_timer_of_unlimited_delay_does_not_wake_an_idle_loop() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    observed.wait_asleep();
    let unparks = observed.unparks();
    let never = observed.executor.schedule(Duration::MAX, || ()).unwrap();
    assert_eq!(observed.unparks(), unparks);
    assert!(never.cancel());
    shut_down(&observed.executor);
}

#[test]
fn e10_timers_that_do_not_wake_the_loop_do_not_fill_a_bounded_queue() {
    let observed = ObservedExecutor::new(EventExecutor::builder().queue_bound(16));
    drop(observed.executor.schedule(HOUR, || ()).unwrap());
    observed.wait_asleep();
    // The loop sleeps for an hour and has nothing to do, so every submission must be accepted.
    let timers: Vec<_> = (0..16).map(|_| observed.executor.schedule(HOUR * 2, || ())).collect();
    assert!(timers.iter().all(Result::is_ok));
    let accepted = observed.executor.submit(|| 7).expect("the loop is idle");
    accepted.wait_timeout(TIMEOUT).unwrap();
    assert_eq!(accepted.join().unwrap(), 7);
}

#[test]
fn e11_due_timers_run_behind_the_tasks_that_are_queued() {
    let (clock, mut manual, executor) = manual();
    let log = Log::new();
    let note = |what: &'static str| {
        let log = log.clone();
        move || log.add(what)
    };
    drop(executor.schedule(ms(10), note("second timer")).unwrap());
    drop(executor.schedule(ms(9), note("first timer")).unwrap());
    manual.run_now();
    clock.advance(ms(10));
    executor.execute(note("first task")).unwrap();
    executor.execute(note("second task")).unwrap();
    assert_eq!(manual.run_now(), 4);
    assert_eq!(log.take(), ["first task", "second task", "first timer", "second timer"]);
}

#[test]
fn e11_a_pass_runs_the_timers_due_at_its_start_and_no_others() {
    let (clock, mut manual, executor) = manual();
    let (inner, ran, passing) = (executor.clone(), Counter::new(), clock.clone());
    let at_once = ran.task();
    let slow = move || {
        passing.advance(ms(10));
        drop(inner.schedule(Duration::ZERO, at_once).unwrap());
    };
    drop(executor.schedule(ms(10), slow).unwrap());
    drop(executor.schedule(ms(20), ran.task()).unwrap());
    manual.run_now();
    clock.advance(ms(10));
    assert_eq!((manual.run_now(), ran.ran()), (1, 0));
    assert_eq!((manual.run_now(), ran.ran()), (2, 2));
}

fn resubmit_forever(executor: &EventExecutor) {
    let inner = executor.clone();
    let _ = executor.execute(move || resubmit_forever(&inner));
}

#[test]
fn e11_a_task_that_submits_itself_again_starves_no_timer() {
    let (clock, mut manual, executor) = manual();
    resubmit_forever(&executor);
    let tick = Counter::new();
    let ticked = tick.clone();
    drop(executor.schedule_at_fixed_rate(ms(1), ms(1), move || ticked.task()()).unwrap());
    manual.run_now();
    for pass in 1..=100 {
        clock.advance(ms(1));
        assert_eq!(manual.run_now(), 2, "the task and the timer");
        assert_eq!(tick.ran(), pass);
    }
}

/// A task loop with passes of the given kind.
struct PassLoop(TokenPark, PassLimit);

impl LoopWork<NoExtension> for PassLoop {
    fn turn(&mut self, core: &mut LoopCore<NoExtension>) -> TurnOutcome {
        core.wait(&mut self.0);
        core.run_tasks(self.1, &mut |none| match none {});
        core.check_shutdown()
    }

    fn on_command(&mut self, none: NoExtension) {
        match none {}
    }
}

#[test]
fn e11_a_task_that_submits_itself_again_starves_no_timer_whatever_the_pass() {
    for pass in [PassLimit::Queued, PassLimit::Within(Duration::ZERO), PassLimit::Within(ms(1))] {
        let park = TokenPark::new(Clock::Monotonic);
        let (unpark, builder) = (park.unparker(), EventExecutor::builder());
        let seed =
            Box::new(move || Box::new(PassLoop(park, pass)) as Box<dyn LoopWork<NoExtension>>);
        let executor = builder.build_loop(unpark, seed).unwrap();
        resubmit_forever(&executor);
        let once = executor.schedule(ms(1), || ()).unwrap();
        once.wait_timeout(TIMEOUT).unwrap_or_else(|late| panic!("{pass:?}: {late}"));
        let (tell, told) = mpsc::channel();
        let tick = move || {
            let _ = tell.send(());
        };
        let rate = executor.schedule_at_fixed_rate(ms(1), ms(1), tick).unwrap();
        (0..5).for_each(|_| told.recv_timeout(TIMEOUT).unwrap());
        assert!(rate.cancel());
        drop(executor.shutdown());
        executor.await_termination(TIMEOUT).unwrap();
    }
}

#[test]
fn e12_the_label_of_a_timer_is_in_reports_and_in_running() {
    let faults = FaultLog::new();
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let (nightly, inner) = (executor.labelled("nightly"), executor.clone());
    let doing = nightly.schedule(ms(1), move || inner.running().map(|what| what.to_string()));
    assert_eq!(doing.unwrap().join().unwrap().as_deref(), Some("nightly"));
    let (inner, line) = (executor.clone(), line!() + 1);
    let doing = executor.schedule(ms(1), move || inner.running().and_then(|what| what.location()));
    assert_eq!(doing.unwrap().join().unwrap().map(|at| at.line()), Some(line));
    nightly.schedule(ms(1), || panic_quietly("at night")).unwrap().join().unwrap_err();
    let expected = (UserCode::Timer, "nightly".to_owned(), "at night".to_owned());
    assert_eq!(faults.take_panics(), [expected]);
}

#[test]
fn e10_far_timers_wake_the_loop_once_per_1024_queued_commands() {
    let observed = ObservedExecutor::new(EventExecutor::builder());
    drop(observed.executor.schedule(HOUR, || ()).unwrap());
    observed.wait_asleep();
    for round in 1..=3 {
        let unparks = observed.unparks();
        for _ in 0..511 {
            assert!(observed.executor.schedule(HOUR * 2, || ()).unwrap().cancel());
        }
        drop(observed.executor.schedule(HOUR * 2, || ()).unwrap());
        assert_eq!(observed.unparks(), unparks, "1,023 commands may wait");
        drop(observed.executor.schedule(HOUR * 2, || ()).unwrap());
        assert_eq!(observed.unparks(), unparks + 1, "one more may not");
        observed.next_park();
        let stats = observed.executor.stats();
        assert_eq!((stats.queue_depth, stats.timers), (0, 1 + 2 * round));
    }
    shut_down(&observed.executor);
}

#[test]
fn e10_scheduling_and_cancelling_far_timers_does_not_fill_the_queue() {
    let executor = EventExecutor::builder().build().unwrap();
    drop(executor.schedule(HOUR, || ()).unwrap());
    executor.submit(|| ()).unwrap().join().unwrap();
    for _ in 0..50_000 {
        assert!(executor.schedule(HOUR * 2, || ()).unwrap().cancel());
    }
    let (_never, nothing) = mpsc::channel::<()>();
    let mut looks = 0;
    while executor.stats().queue_depth >= 3 * 1024 {
        looks += 1;
        assert!(looks < 2000, "nobody looks at them: {:?}", executor.stats());
        assert_eq!(nothing.recv_timeout(ms(10)), Err(RecvTimeoutError::Timeout));
    }
    shut_down(&executor);
}
