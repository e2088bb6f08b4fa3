//! E13: when timers fire, in which order, and how they repeat.

use std::time::Duration;

use waterwheel_executor::{
    ErrorKind, EventExecutor, ManualExecutor, MissedTicks, PromiseFuture, RejectReason, Rejected,
    UserCode, VirtualClock,
};

use crate::support::{Counter, FaultLog, Log, TIMEOUT, panic_quietly, shut_down};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A manual executor on a virtual clock, and the log of its timers.
struct TimerBench {
    clock: VirtualClock,
    manual: ManualExecutor,
    executor: EventExecutor,
    log: Log<(u128, &'static str)>,
}

impl TimerBench {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let manual = ManualExecutor::with_virtual_clock(clock.clone());
        let executor = manual.executor().clone();
        Self { clock, manual, executor, log: Log::new() }
    }

    /// Returns a timer closure that logs its start and then advances the clock by `time`.
    fn taking(&self, time: Duration, what: &'static str) -> impl FnMut() + Send + 'static + use<> {
        let (clock, log) = (self.clock.clone(), self.log.clone());
        move || {
            log.add((Duration::from_nanos(clock.now().0).as_millis(), what));
            clock.advance(time);
        }
    }

    fn note(&self, what: &'static str) -> impl FnMut() + Send + 'static + use<> {
        self.taking(Duration::ZERO, what)
    }

    fn schedule(&self, delay: u64, what: &'static str) {
        drop(self.executor.schedule(ms(delay), self.note(what)).unwrap());
    }

    /// Takes the start times, in milliseconds, logged since the last call.
    fn starts(&self) -> Vec<u128> {
        self.log.take().into_iter().map(|(at, _)| at).collect()
    }
}

#[test]
fn e13_timers_fire_by_deadline_and_equal_ones_in_the_order_of_scheduling() {
    let mut bench = TimerBench::new();
    for (delay, what) in [(30, "d"), (20, "a"), (20, "b"), (10, "first"), (20, "c")] {
        bench.schedule(delay, what);
    }
    bench.manual.run_for(ms(5));
    bench.schedule(15, "scheduled later, due with a, b and c");
    bench.manual.run_for(ms(100));
    let same = [(20, "a"), (20, "b"), (20, "c"), (20, "scheduled later, due with a, b and c")];
    let expected: Vec<_> = [(10, "first")].into_iter().chain(same).chain([(30, "d")]).collect();
    assert_eq!(bench.log.take(), expected);
}

#[test]
fn e13_the_order_is_the_same_for_timers_scheduled_on_the_loop() {
    let mut bench = TimerBench::new();
    bench.schedule(20, "off the loop, before");
    let (inner, on_loop) = (bench.executor.clone(), [bench.note("on the loop"), bench.note("too")]);
    let schedules = move || {
        for note in on_loop {
            drop(inner.schedule(ms(20), note).unwrap());
        }
    };
    bench.executor.execute(schedules).unwrap();
    bench.schedule(20, "off the loop, after");
    bench.schedule(19, "earlier");
    bench.manual.run_for(ms(20));
    let order: Vec<_> = bench.log.take().into_iter().map(|(_, what)| what).collect();
    let expected = ["earlier", "off the loop, before", "on the loop", "too", "off the loop, after"];
    assert_eq!(order, expected);
}

#[test]
fn e13_a_timer_never_fires_early() {
    let (mut bench, nano) = (TimerBench::new(), Duration::from_nanos(1));
    let first = bench.executor.schedule(ms(10), || "due").unwrap();
    let second = bench.executor.schedule(ms(10) + nano, || "due").unwrap();
    assert_eq!(bench.manual.run_for(ms(10) - nano), 0);
    assert_eq!(bench.manual.run_now(), 0, "a nanosecond is left");
    assert_eq!(bench.manual.run_for(nano), 1);
    assert!(first.is_done() && !second.is_done(), "nor because a neighbour is due");
    assert_eq!(bench.manual.run_for(nano), 1);
    assert_eq!((first.join().unwrap(), second.join().unwrap()), ("due", "due"));
}

#[test]
fn e13_a_delay_counts_from_the_call_and_not_from_its_arrival_at_the_loop() {
    let mut bench = TimerBench::new();
    bench.schedule(10, "due at 10");
    bench.clock.advance(ms(7));
    bench.manual.run_for(ms(3));
    assert_eq!(bench.log.take(), [(10, "due at 10")]);
}

#[test]
fn e13_deadlines_in_the_past_fire_at_once_and_in_their_order() {
    let mut bench = TimerBench::new();
    bench.schedule(7, "later");
    bench.schedule(5, "sooner");
    bench.clock.advance(ms(100));
    bench.schedule(0, "now");
    assert_eq!(bench.log.take(), [], "never in place");
    bench.manual.run_for(ms(1));
    assert_eq!(bench.log.take(), [(100, "sooner"), (100, "later"), (100, "now")]);
}

#[test]
fn e13_a_one_shot_runs_once_and_a_dropped_future_only_detaches() {
    let mut bench = TimerBench::new();
    bench.schedule(1, "detached");
    let kept = bench.executor.schedule(ms(2), || 7).unwrap();
    assert_eq!(bench.manual.run_for(YEAR), 2);
    assert_eq!(bench.log.take(), [(1, "detached")]);
    assert_eq!(kept.join().unwrap(), 7);
    assert_eq!(bench.executor.stats().timers, 0);
}

#[test]
fn e13_a_fixed_rate_does_not_drift_however_long_its_runs_take() {
    let mut bench = TimerBench::new();
    let tick = bench.taking(ms(3), "tick");
    let future = bench.executor.schedule_at_fixed_rate(ms(5), ms(10), tick).unwrap();
    bench.manual.run_for(ms(45));
    assert_eq!(bench.starts(), [5, 15, 25, 35, 45]);
    assert!(!future.is_done());
}

/// Runs a timer every 10 ms, starting at 10, whose runs take `run_times`; returns when the runs started.
fn ticks(run_times: &'static [u64], schedule: impl FnOnce(&TimerBench, BoxedTick)) -> Vec<u128> {
    let mut bench = TimerBench::new();
    let (clock, log, mut runs) = (bench.clock.clone(), bench.log.clone(), run_times.iter());
    let tick = move || {
        log.add((Duration::from_nanos(clock.now().0).as_millis(), ""));
        clock.advance(ms(runs.next().copied().unwrap_or(0)));
    };
    schedule(&bench, Box::new(tick));
    bench.manual.run_for(ms(70));
    bench.starts()
}

type BoxedTick = Box<dyn FnMut() + Send>;

#[test]
fn e13_missed_ticks_catch_up_are_skipped_or_delay_the_rest() {
    // The first run lasts from 10 to 44: the ticks at 20, 30 and 40 are missed.
    let after_a_slow_run = |missed| {
        ticks(&[34], move |bench, tick| {
            let future = bench.executor.schedule_at_fixed_rate_with(missed, ms(10), ms(10), tick);
            drop(future.unwrap());
        })
    };
    assert_eq!(after_a_slow_run(MissedTicks::CatchUp), [10, 44, 44, 44, 50, 60, 70]);
    assert_eq!(after_a_slow_run(MissedTicks::Skip), [10, 50, 60, 70]);
    assert_eq!(after_a_slow_run(MissedTicks::Delay), [10, 54, 64]);
}

#[test]
fn e13_missed_ticks_catch_up_by_default() {
    let starts = ticks(&[34], |bench, tick| {
        drop(bench.executor.schedule_at_fixed_rate(ms(10), ms(10), tick).unwrap());
    });
    assert_eq!(starts, [10, 44, 44, 44, 50, 60, 70]);
}

#[test]
fn e13_a_run_shorter_than_the_period_misses_nothing_under_any_policy() {
    for missed in [MissedTicks::CatchUp, MissedTicks::Skip, MissedTicks::Delay] {
        let starts = ticks(&[9, 9, 9, 9, 9, 9, 9], |bench, tick| {
            let future = bench.executor.schedule_at_fixed_rate_with(missed, ms(10), ms(10), tick);
            drop(future.unwrap());
        });
        assert_eq!(starts, [10, 20, 30, 40, 50, 60, 70], "{missed:?}");
    }
}

#[test]
fn e13_a_delayed_loop_catches_up_before_it_sleeps_again() {
    let mut bench = TimerBench::new();
    let tick = bench.note("tick");
    drop(bench.executor.schedule_at_fixed_rate(ms(10), ms(10), tick).unwrap());
    bench.manual.run_for(ms(1));
    bench.clock.advance(ms(34)); // The loop did not run meanwhile.
    bench.manual.run_for(ms(5));
    assert_eq!(bench.starts(), [35, 35, 35, 40]);
}

#[test]
fn e13_a_fixed_delay_counts_from_completion() {
    let starts = ticks(&[4, 15, 0, 1], |bench, tick| {
        drop(bench.executor.schedule_with_fixed_delay(ms(0), ms(10), tick).unwrap());
    });
    assert_eq!(starts, [0, 14, 39, 49, 60, 70]);
}

#[test]
fn e13_a_period_of_zero_is_an_error_that_returns_the_closure() {
    fn check<F: FnMut()>(outcome: Result<PromiseFuture<()>, Rejected<F>>, ran: &Counter) {
        let rejected = outcome.unwrap_err();
        assert!(matches!(rejected.reason(), RejectReason::ZeroPeriod), "{rejected}");
        let before = ran.ran();
        rejected.into_task()();
        assert_eq!(ran.ran(), before + 1, "it is the closure that was given");
    }
    fn check_all(executor: &EventExecutor, ran: &Counter) {
        let tick = || {
            let ran = ran.clone();
            move || ran.task()()
        };
        for delay in [Duration::ZERO, ms(1)] {
            check(executor.schedule_at_fixed_rate(delay, Duration::ZERO, tick()), ran);
            check(executor.schedule_with_fixed_delay(delay, Duration::ZERO, tick()), ran);
            let (skip, zero) = (MissedTicks::Skip, Duration::ZERO);
            check(executor.schedule_at_fixed_rate_with(skip, delay, zero, tick()), ran);
        }
    }
    let mut bench = TimerBench::new();
    let ran = Counter::new();
    check_all(&bench.executor, &ran);
    let (inner, on_loop) = (bench.executor.clone(), ran.clone());
    let on_loop = bench.executor.submit(move || check_all(&inner, &on_loop)).unwrap();
    assert_eq!(bench.manual.run_for(YEAR), 1, "nothing was scheduled");
    on_loop.join().unwrap();
    assert_eq!(ran.ran(), 12);
}

#[test]
fn e13_huge_delays_and_periods_saturate_and_mean_never() {
    let mut bench = TimerBench::new();
    bench.clock.advance(ms(1)); // Makes adding the delay overflow unless it saturates.
    let huge = [Duration::MAX, Duration::from_nanos(u64::MAX), Duration::MAX - ms(1)];
    let never: Vec<_> = huge
        .into_iter()
        .map(|delay| bench.executor.schedule(delay, || unreachable!("at the end of time")).unwrap())
        .collect();
    for policy in [MissedTicks::CatchUp, MissedTicks::Skip, MissedTicks::Delay] {
        let (tick, max) = (bench.taking(ms(1), "once"), Duration::MAX);
        drop(bench.executor.schedule_at_fixed_rate_with(policy, ms(1), max, tick).unwrap());
    }
    let tick = bench.note("once");
    drop(bench.executor.schedule_with_fixed_delay(ms(1), Duration::MAX, tick).unwrap());
    assert_eq!(bench.manual.run_for(YEAR * 100), 4);
    assert_eq!(bench.log.take().len(), 4);
    assert_eq!(bench.executor.stats().timers, 7, "they wait");
    assert!(never.iter().all(PromiseFuture::cancel), "and can be cancelled");
    bench.manual.run_now();
    assert_eq!(bench.executor.stats().timers, 4);
}

#[test]
fn e13_a_huge_delay_does_not_delay_other_timers() {
    let executor = EventExecutor::builder().build().unwrap();
    let never = executor.schedule(Duration::MAX, || ()).unwrap();
    for n in 0..10 {
        assert_eq!(executor.schedule(ms(1), move || n).unwrap().join().unwrap(), n);
    }
    assert!(!never.is_done());
    shut_down(&executor);
    assert!(never.join().unwrap_err().is_cancelled());
}

#[test]
fn e13_a_panicking_periodic_timer_stops_and_fails_its_future() {
    let mut bench = TimerBench::new();
    let ran = Counter::new();
    let counted = ran.clone();
    let panics_the_third_time = move || {
        counted.task()();
        if counted.ran() == 3 {
            panic_quietly("third time unlucky");
        }
    };
    let executor = bench.executor.clone();
    let failing = executor.schedule_at_fixed_rate(ms(1), ms(1), panics_the_third_time).unwrap();
    let tick = bench.note("neighbour");
    drop(executor.schedule_with_fixed_delay(ms(1), ms(1), tick).unwrap());
    bench.manual.run_for(ms(10));
    assert_eq!(ran.ran(), 3);
    assert_eq!(bench.log.take().len(), 10, "the neighbour goes on");
    assert_eq!(executor.stats().timers, 1);
    assert!(failing.is_done() && !failing.is_cancelled() && !failing.cancel());
    let error = failing.join().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Panicked { .. }), "{error:?}");
    assert!(error.to_string().contains("third time unlucky"), "{error}");
}

#[test]
fn e12_a_panicking_timer_is_reported_and_the_loop_lives_on() {
    let faults = FaultLog::new();
    let executor = EventExecutor::builder().reporter(faults.clone()).build().unwrap();
    let once = executor.schedule(ms(1), || panic_quietly("once")).unwrap();
    let rate = executor.schedule_at_fixed_rate(ms(1), ms(1), || panic_quietly("rate")).unwrap();
    let line = line!() - 2;
    let period = ms(1);
    let delay = executor.schedule_with_fixed_delay(period, period, || panic_quietly("delay"));
    let delay = delay.unwrap();
    for (future, message) in [(once, "once"), (rate, "rate"), (delay, "delay")] {
        future.wait_timeout(TIMEOUT).unwrap();
        let error = future.join().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Panicked { message: m, .. } if m == message));
    }
    assert_eq!(executor.submit(|| 7).unwrap().join().unwrap(), 7);
    let expected = |(n, message): (u32, &str)| {
        (UserCode::Timer, format!("{}:{}", file!(), line + n), message.to_owned())
    };
    let expected = [(0, "once"), (1, "rate"), (4, "delay")].map(expected);
    assert_eq!(faults.take_panics(), expected);
}

#[test]
fn e12_labelled_periodic_timers_carry_the_label() {
    let mut manual = ManualExecutor::with_virtual_clock(VirtualClock::new());
    let executor = manual.executor().clone();
    let log = Log::new();
    let doing = || {
        let (log, executor, mut left) = (log.clone(), executor.clone(), 2);
        move || {
            log.add(executor.running().unwrap().to_string());
            left -= 1;
            if left == 0 {
                panic_quietly("no more");
            }
        }
    };
    let rate = executor.labelled("rate").schedule_at_fixed_rate(ms(1), ms(2), doing()).unwrap();
    let delay = executor.labelled("delay").schedule_with_fixed_delay(ms(2), ms(2), doing());
    let delay = delay.unwrap();
    assert_eq!(manual.run_for(ms(10)), 4);
    assert_eq!(log.take(), ["rate", "delay", "rate", "delay"]);
    for (future, label) in [(rate, "rate"), (delay, "delay")] {
        let failed = future.join().unwrap_err();
        let ErrorKind::Panicked { origin, message } = failed.kind() else { panic!("{failed}") };
        assert_eq!((origin.to_string().as_str(), message.as_str()), (label, "no more"));
    }
}

#[test]
fn e12_labelled_periodic_timers_refuse_a_period_of_zero() {
    let executor = EventExecutor::builder().build().unwrap();
    let labelled = executor.labelled("hasty");
    let rate = labelled.schedule_at_fixed_rate(ms(1), Duration::ZERO, || ());
    let delay = labelled.schedule_with_fixed_delay(ms(1), Duration::ZERO, || ());
    assert!(matches!(rate.unwrap_err().reason(), RejectReason::ZeroPeriod));
    assert!(matches!(delay.unwrap_err().reason(), RejectReason::ZeroPeriod));
}
