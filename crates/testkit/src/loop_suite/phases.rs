//! The phases of a turn (L03, L04).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_channel::driver::{OpenDriver, TaskOnly};
use waterwheel_channel::{EventLoopGroup, LoopBuildError, SelectMode, StrategyInput};
use waterwheel_executor::UserCode;

use super::bench::{Bench, TIMEOUT, panic_quietly};
use crate::faulty::{DriverCall, FailTimes};

/// Checks that the strategy is called once per turn, and sees whether tasks are queued.
pub fn l03_a_strategy_is_asked_in_every_turn(drivers: &dyn OpenDriver) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let strategy = move |outlook: &StrategyInput| {
        sees.lock().unwrap().push((outlook.has_tasks, outlook.registrations));
        SelectMode::Wait
    };
    let mut bench = Bench::with(drivers, |builder| builder.strategy(strategy));
    bench.turn();
    bench.event_loop().execute(|| ()).unwrap();
    bench.turns(2);
    assert_eq!(*seen.lock().unwrap(), [(false, 0), (true, 0), (false, 0)]);
}

/// Checks that `Continue` skips the driver's wait.
pub fn l03_continue_leaves_the_driver_alone(drivers: &dyn OpenDriver) {
    let mut bench = Bench::with(drivers, |builder| builder.strategy(|_: &_| SelectMode::Continue));
    for _ in 0..3 {
        let ran = bench.event_loop().submit(|| ()).unwrap();
        bench.manual.turn(None);
        assert!(ran.is_done());
    }
    assert_eq!(bench.waits(), 0);
}

/// Checks that `BusyWait` polls the driver without blocking, even with a distant limit.
pub fn l03_busy_wait_looks_and_does_not_block(drivers: &dyn OpenDriver) {
    let mut bench = Bench::with(drivers, |builder| builder.strategy(|_: &_| SelectMode::BusyWait));
    let before = bench.now();
    bench.manual.turn(Some(TIMEOUT));
    assert!(bench.now().since(before) < TIMEOUT);
    assert_eq!(bench.waits(), 1);
}

/// Checks that `Wait` blocks until a timer is due and runs it in the same turn.
pub fn l03_wait_blocks_until_there_is_something_to_do(drivers: &dyn OpenDriver) {
    let mut bench = Bench::with(drivers, |builder| builder.strategy(|_: &_| SelectMode::Wait));
    bench.turn();
    let waits = bench.waits();
    let rang = bench.event_loop().schedule(Duration::from_millis(3), || ()).unwrap();
    bench.turn(); // The timer arrives, and is not due.
    assert!(!rang.is_done());
    bench.manual.turn(Some(TIMEOUT));
    assert!(rang.is_done());
    assert!(bench.waits() - waits <= 2, "it slept instead of looking again and again");
}

/// Checks that `Wait` polls without blocking when tasks are queued.
pub fn l03_wait_does_not_block_if_there_is_something_to_do(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    let before = bench.now();
    let ran = bench.event_loop().submit(|| ()).unwrap();
    bench.manual.turn(Some(TIMEOUT));
    assert!(ran.is_done() && bench.now().since(before) < TIMEOUT);
    assert_eq!(bench.waits(), 1, "the driver is asked nevertheless");
}

/// Checks that a panic of the strategy is reported, and that the loop then waits.
pub fn l03_a_strategy_that_panics_is_reported_and_the_loop_waits(drivers: &dyn OpenDriver) {
    let strategy = |_: &StrategyInput| panic_quietly("no idea");
    let mut bench = Bench::with(drivers, |builder| builder.strategy(strategy));
    let ran = bench.event_loop().submit(|| ()).unwrap();
    bench.turn();
    assert!(ran.is_done());
    assert_eq!(bench.reports.take_panics(), [(UserCode::Strategy, "no idea".to_owned())]);
    assert_eq!(bench.waits(), 1);
}

/// Checks that turns are counted under every strategy.
pub fn o01_turns_are_counted_whatever_the_strategy(drivers: &dyn OpenDriver) {
    for strategy in [SelectMode::Wait, SelectMode::BusyWait, SelectMode::Continue] {
        let mut bench = Bench::with(drivers, |builder| builder.strategy(move |_: &_| strategy));
        bench.turns(5);
        assert_eq!(bench.metrics().turns, 5, "{strategy:?}");
        let lags: u64 = bench.metrics().lag.iter().sum();
        assert_eq!(lags, 5, "{strategy:?}");
    }
}

/// Checks that tasks, timers and futures run in a turn whose wait fails.
pub fn l03_a_failed_wait_skips_neither_tasks_nor_timers(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    bench.faults.fail(DriverCall::Wait, FailTimes::Next(1), std::io::ErrorKind::InvalidInput);
    let ran = bench.event_loop().submit(|| ()).unwrap();
    let rang = bench.here(|here| here.handle().schedule(Duration::ZERO, || ()).unwrap());
    let tailed = Arc::new(AtomicUsize::new(0));
    let tail = tailed.clone();
    let _tail = bench.event_loop().execute_after_turn(move || {
        tail.fetch_add(1, Ordering::SeqCst);
    });
    let future = bench.event_loop().spawn(async {}).unwrap();
    bench.turn();
    assert!(ran.is_done() && rang.is_done() && future.is_done());
    assert_eq!(tailed.load(Ordering::SeqCst), 1);
    assert_eq!(bench.metrics().failed_waits, 1);
    let told = bench.reports.take_texts();
    assert!(told.iter().any(|text| text.contains("the wait failed")), "{told:?}");
}

/// Checks that a loop whose driver always fails can be shut down.
pub fn l03_a_loop_that_cannot_wait_still_shuts_down(drivers: &dyn OpenDriver) {
    let mut bench = Bench::new(drivers);
    bench.faults.fail(DriverCall::Wait, FailTimes::Always, std::io::ErrorKind::InvalidInput);
    bench.turns(2);
    let ran = bench.event_loop().submit(|| ()).unwrap();
    let ended = bench.event_loop().shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
    bench.turns(5);
    assert!(ran.is_done() && bench.manual.is_terminated() && ended.is_done());
}

/// Checks that an I/O ratio out of range is an error that names it.
pub fn l04_a_ratio_out_of_range_is_an_error(_: &dyn OpenDriver) {
    for ratio in [0, 101, 255] {
        let built = EventLoopGroup::builder(TaskOnly).io_ratio(ratio).build();
        let error = built.expect_err("a ratio out of range");
        assert!(matches!(error, LoopBuildError::IoRatio { ratio: named } if named == ratio));
        assert!(error.to_string().contains(&ratio.to_string()), "{error}");
    }
    for ratio in [1, 50, 100] {
        assert!(EventLoopGroup::builder(TaskOnly).io_ratio(ratio).build_manual().is_ok());
    }
}

/// Checks that a turn without events runs one batch of 64 tasks, or all queued tasks at a ratio of 100.
pub fn l04_without_events_one_batch_runs(drivers: &dyn OpenDriver) {
    for (ratio, runs) in [(1, 64), (50, 64), (99, 64), (100, 150)] {
        let mut bench = Bench::with(drivers, |builder| builder.io_ratio(ratio));
        for _ in 0..150 {
            bench.event_loop().execute(|| ()).unwrap();
        }
        bench.turn();
        assert_eq!(bench.metrics().tasks, runs, "at {ratio}");
        bench.turns(2);
        assert_eq!(bench.metrics().tasks, 150, "at {ratio}");
    }
}
