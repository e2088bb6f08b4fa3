//! Back-off after failed waits and rebuilds: the loop pauses its driver calls for longer and longer while tasks,
//! timers and futures continue (L03, L06). On the virtual clock.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::driver::{Interest, Readiness};
use waterwheel_channel::{EventLoopGroup, on_ready};
use waterwheel_testkit::faulty::{DriverCall, EarlyReturns, FailTimes, Faulty};
use waterwheel_testkit::loop_suite::{Bench, Reports};
use waterwheel_testkit::manual::Manual;

const PATIENCE: Duration = Duration::from_secs(20);
const NANO: Duration = Duration::from_nanos(1);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Turns the loop and moves the clock until the driver is called again; returns the length of the pause.
fn pause(bench: &mut Bench, manual: &Manual) -> Duration {
    let (waits, before) = (bench.waits(), manual.clock().now());
    bench.turns(3);
    let step = millis(1);
    while bench.waits() == waits {
        manual.advance(step - NANO);
        bench.turns(2);
        assert_eq!(bench.waits(), waits, "a pause is over within a millisecond");
        manual.advance(NANO);
        bench.turns(1);
        let ended = manual.clock().now();
        assert!(ended.since(before) <= millis(1000), "longer than a second");
        // The turn that ends the pause does not call the driver; the next turn does.
        bench.turn();
    }
    manual.clock().now().since(before)
}

#[test]
fn l03_pauses_after_failed_waits_double_up_to_a_second() {
    let manual = Manual::readiness();
    let mut bench = Bench::new(&manual);
    bench.faults.fail(DriverCall::Wait, FailTimes::Always, ErrorKind::InvalidInput);
    bench.turn();
    let pauses: Vec<u128> = (0..12).map(|_| pause(&mut bench, &manual).as_millis()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
    assert_eq!(bench.metrics().failed_waits, 13);
    assert_eq!(bench.faults.calls(DriverCall::Rebuild), 13, "a wait that failed rebuilds");

    bench.faults.clear();
    pause(&mut bench, &manual);
    bench.turn();
    bench.faults.fail(DriverCall::Wait, FailTimes::Next(2), ErrorKind::InvalidInput);
    bench.turn();
    assert_eq!(pause(&mut bench, &manual), millis(1), "it had recovered");
}

#[test]
fn l03_tasks_timers_and_futures_are_served_in_a_pause() {
    let manual = Manual::readiness();
    let mut bench = Bench::new(&manual);
    bench.faults.fail(DriverCall::Wait, FailTimes::Always, ErrorKind::InvalidInput);
    bench.turn();
    for _ in 0..10 {
        pause(&mut bench, &manual);
    }
    let waits = bench.waits();
    let rang = bench.here(|here| here.handle().schedule(millis(5), || ()).unwrap());
    let slept = bench.event_loop().spawn(waterwheel_channel::sleep(millis(7))).unwrap();
    let ran = bench.event_loop().submit(|| ()).unwrap();
    bench.turn();
    assert!(ran.is_done() && !rang.is_done());
    manual.advance(millis(5));
    bench.turn();
    assert!(rang.is_done() && !slept.is_done());
    manual.advance(millis(2));
    bench.turns(2);
    assert!(slept.is_done());
    assert_eq!(bench.waits(), waits, "the pause lasted all the while");
    let _ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    bench.turns(2);
    assert!(bench.manual.is_terminated(), "and a shutdown is");
}

#[test]
fn l03_other_threads_reach_a_loop_in_a_pause() {
    // The clock stands still: the pause does not end without another thread.
    let manual = Manual::readiness();
    let faulty = Faulty::new(manual.clone());
    let faults = faulty.faults();
    faults.fail(DriverCall::Wait, FailTimes::Always, ErrorKind::InvalidInput);
    let reports = Arc::new(Reports::default());
    let builder = EventLoopGroup::builder(faulty).threads(1).reporter(reports);
    let group = builder.build().unwrap();
    for _ in 0..50 {
        let ran = group.submit(|| ()).unwrap();
        ran.wait_timeout(PATIENCE).expect("a task does not wait for the pause");
    }
    assert_eq!(faults.calls(DriverCall::Wait), 1);
    let ended = group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap();
    ended.wait_timeout(PATIENCE).expect("a shutdown does not wait for the pause either");
}

#[test]
fn l06_pauses_between_repeated_rebuilds_double() {
    let manual = Manual::readiness();
    let builder = |builder: waterwheel_channel::EventLoopGroupBuilder| builder.rebuild_after(3);
    let mut bench = Bench::with(&manual, builder);
    bench.faults.return_early(EarlyReturns::Always);
    let mut pauses = Vec::new();
    for storm in 1..=5 {
        for _ in 0..3 {
            bench.manual.turn(Some(PATIENCE));
        }
        assert_eq!(bench.faults.calls(DriverCall::Rebuild), storm);
        let before = manual.clock().now();
        let waits = bench.waits();
        while bench.waits() == waits {
            manual.advance(millis(1));
            // Once the pause has ended, a turn with a timeout of zero polls the driver and is no premature
            // return.
            bench.turn();
            let over = bench.here(|here| here.now());
            if over.since(before) >= millis(1 << (storm - 1)) {
                break;
            }
        }
        pauses.push(manual.clock().now().since(before).as_millis());
        assert_eq!(bench.waits(), waits, "left alone for that long");
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16]);
    assert_eq!((bench.metrics().premature_returns, bench.metrics().rebuilds), (15, 5));
}

#[test]
fn l06_no_event_is_lost_or_delivered_twice_across_a_failed_wait() {
    for manual in [Manual::readiness(), Manual::completion()] {
        let mut bench = Bench::new(&manual);
        let (io, source) = manual.foreign_source();
        let told = std::rc::Rc::new(std::cell::Cell::new(0));
        let counts = told.clone();
        let handler = on_ready(move |(): &(), _, _| {
            counts.set(counts.get() + 1);
            Ok(())
        });
        let foreign = waterwheel_channel::Foreign::new(Arc::new(()), io);
        bench.here(|here| here.register_foreign(foreign, Interest::READABLE, handler)).unwrap();
        source.set_ready(Readiness::READABLE);
        bench.faults.fail(DriverCall::Wait, FailTimes::Next(1), ErrorKind::InvalidInput);
        bench.turn();
        assert_eq!(told.get(), 0);
        let texts = bench.reports.take_texts();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("the wait failed: invalid input"), "{texts:?}");
        assert_eq!(texts[1], "the wait failed: selector rebuilt, 1 registrations moved");
        bench.turns(2);
        assert_eq!(told.get(), 0, "it is left alone");
        manual.advance(millis(1));
        bench.turn();
        bench.turns(3);
        assert_eq!(told.get(), 3, "once a turn after the pause");
    }
}
