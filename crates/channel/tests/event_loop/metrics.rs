//! Loop metrics (O01) in scripted steps on the virtual clock; idle loops make no turns (E10).

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{
    Ctx, EventLoopGroup, Foreign, Handler, HandlerResult, local, on_ready, sleep,
};
use waterwheel_testkit::faulty::{DriverCall, EarlyReturns, FailTimes};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::{ClockMode, Manual};

const PATIENCE: Duration = Duration::from_secs(20);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn o01_every_counter_moves_as_described() {
    let manual = Manual::readiness().with_clock_mode(ClockMode::AutoAdvance);
    let mut bench = Bench::new(&manual);
    let mut expected = bench.metrics();
    assert_eq!((expected.turns, expected.time_waiting), (0, Duration::ZERO));
    let clock = manual.clock();

    // A turn without work.
    bench.turn();
    expected.turns += 1;
    expected.lag[0] += 1;
    assert_eq!(bench.metrics(), expected);

    // A wait that ends at its timeout.
    bench.manual.turn(Some(millis(4)));
    expected.turns += 1;
    expected.lag[0] += 1;
    expected.time_waiting += millis(4);
    assert_eq!(bench.metrics(), expected);

    // An event that takes 3 ms.
    let (end, source) = manual.foreign_source();
    let takes = clock.clone();
    let handler = on_ready(move |(): &(), _, _| {
        takes.advance(millis(3));
        Ok(())
    });
    let foreign = Foreign::new(Arc::new(()), end);
    bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
    source.set_ready(Readiness::READABLE);
    bench.manual.turn(Some(PATIENCE));
    source.clear();
    expected.turns += 1;
    expected.wake_ups_by_io += 1;
    expected.ready_events += 1;
    expected.time_in_io += millis(3);
    expected.registrations = 1;
    expected.lag[21] += 1; // 2²¹ ns is 2.1 ms, 2²² twice that.
    assert_eq!(bench.metrics(), expected);

    // Two tasks, a future and a tail task, of 1 ms each.
    for _ in 0..2 {
        let clock = clock.clone();
        bench.event_loop().execute(move || clock.advance(millis(1))).unwrap();
    }
    let takes = clock.clone();
    bench.here(|here| drop(here.spawn_local(async move { takes.advance(millis(1)) })));
    let takes = clock.clone();
    let _tail = bench.event_loop().execute_after_turn(move || takes.advance(millis(1)));
    assert_eq!(bench.metrics().queue_depth, 3, "two tasks and a command");
    bench.turn();
    expected.turns += 1;
    expected.tasks += 2;
    expected.futures_polled += 1;
    expected.time_in_tasks += millis(4);
    expected.lag[21] += 1;
    assert!(bench.metrics().queue_depth <= 3, "given back with the next sleep");
    bench.turn();
    expected.turns += 1;
    expected.lag[0] += 1;
    assert_eq!(bench.metrics(), expected);

    // A wait that ends at a timer's deadline.
    let rang = bench.here(|here| here.handle().schedule(millis(7), || ()).unwrap());
    bench.turn();
    expected.turns += 1;
    expected.lag[0] += 1;
    expected.timers = 1;
    assert_eq!(bench.metrics(), expected);
    bench.manual.turn(None);
    assert!(rang.is_done());
    expected.turns += 1;
    expected.wake_ups_by_timer += 1;
    expected.tasks += 1;
    expected.timers = 0;
    expected.time_waiting += millis(7);
    expected.lag[0] += 1;
    assert_eq!(bench.metrics(), expected);

    // Five early returns, then a wait that fails.
    bench.faults.return_early(EarlyReturns::Next(5));
    for _ in 0..5 {
        bench.manual.turn(Some(PATIENCE));
    }
    expected.turns += 5;
    expected.lag[0] += 5;
    expected.premature_returns += 5;
    expected.premature_series += 1;
    assert_eq!(bench.metrics(), expected);
    bench.faults.fail(DriverCall::Wait, FailTimes::Next(1), ErrorKind::InvalidInput);
    bench.turn();
    expected.turns += 1;
    expected.lag[0] += 1;
    expected.failed_waits += 1;
    expected.rebuilds += 1;
    assert_eq!(bench.metrics(), expected);

    let all = expected.time_waiting + expected.time_in_io + expected.time_in_tasks;
    assert_eq!(all, Duration::from_nanos(clock.now().0), "the times add up");
    assert_eq!(expected.lag.iter().sum::<u64>(), expected.turns);
    let event_loop = bench.event_loop();
    let elsewhere = std::thread::spawn(move || event_loop.metrics()).join().unwrap();
    assert_eq!(elsewhere, expected, "any thread may look");
}

/// Holds a timer until it is removed.
struct HoldsTimer;

impl Handler for HoldsTimer {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(PATIENCE, 0);
        Ok(())
    }
}

#[test]
fn o01_timers_set_or_cancelled_after_the_tasks_of_a_turn_are_counted_in_it() {
    let mut bench = Bench::new(&Manual::readiness());
    bench.here(|here| drop(here.spawn_local(sleep(PATIENCE))));
    bench.turn();
    assert_eq!(bench.metrics().timers, 1, "the future was polled, and sleeps");
    let (ours, _theirs) = local::pair();
    let new = ours.initialiser(|edit| Ok(edit.add_last("patient", HoldsTimer).map(drop)?));
    let registered = bench.event_loop().register(new);
    bench.turns(3);
    assert_eq!(bench.metrics().timers, 2);
    let channel = registered.join().unwrap();
    let closed = channel.close();
    bench.turn();
    assert!(closed.is_done());
    assert_eq!(bench.metrics().timers, 1, "its handlers are gone at the end of the turn");
}

#[test]
fn o01_a_wake_up_by_a_task_is_counted() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let group = EventLoopGroup::builder(manual.clone()).threads(1).build().unwrap();
        let event_loop = group.next();
        event_loop.submit(|| ()).unwrap().wait_timeout(PATIENCE).expect("the task runs");
        manual.wait_idle();
        let before = event_loop.metrics();
        for _ in 0..10 {
            event_loop.execute(|| ()).unwrap();
            manual.wait_idle();
        }
        let after = event_loop.metrics();
        assert_eq!(after.wake_ups_by_task - before.wake_ups_by_task, 10);
        assert_eq!((after.wake_ups_by_timer, after.premature_returns), (0, 0));
        assert_eq!((after.tasks - before.tasks, after.wake_ups_by_io), (10, 0));
    }
}

#[test]
fn e10_an_idle_loop_makes_no_turn() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let group = EventLoopGroup::builder(manual.clone()).threads(1).build().unwrap();
        let (end, _source) = manual.foreign_source();
        let handler = on_ready(|(): &(), _, _| Ok(()));
        let foreign = Foreign::new(Arc::new(()), end);
        let registered = group.next().register_foreign(foreign, Interest::READABLE, handler);
        registered.wait_timeout(PATIENCE).expect("the registration completes");
        manual.wait_idle();
        let (turns, counts) = (group.next().metrics().turns, manual.counts());
        manual.advance(Duration::from_secs(3600));
        manual.wait_idle();
        assert_eq!(group.next().metrics().turns, turns);
        assert_eq!((manual.counts().waits, manual.counts().wakes), (counts.waits, counts.wakes));
    }
}

#[test]
fn e10_only_an_earlier_timer_wakes_a_sleeping_loop() {
    let manual = Manual::readiness();
    let group = EventLoopGroup::builder(manual.clone()).threads(1).build().unwrap();
    let first = group.schedule(millis(50), || ()).unwrap();
    manual.wait_idle();
    let wakes = manual.counts().wakes;
    let later = group.schedule(millis(60), || ()).unwrap();
    assert_eq!(manual.counts().wakes, wakes, "it will be up by then");
    let earlier = group.schedule(millis(40), || ()).unwrap();
    assert_eq!(manual.counts().wakes, wakes + 1);
    manual.wait_idle();
    for (at, timer) in [(40, earlier), (50, first), (60, later)] {
        assert!(!timer.is_done());
        manual.advance_to(waterwheel_executor::Nanos(0).plus(millis(at)));
        timer.wait_timeout(PATIENCE).expect("the timer fires");
        manual.wait_idle();
    }
    let counts = manual.counts();
    assert!(counts.wakes <= counts.sleeps, "{counts:?}");
}
