//! Rebuilding the selector under a loop (L06).

use waterwheel_channel::driver::Interest;

use super::super::bench::{Bench, TIMEOUT};
use super::probe::{ProbeLog, bench, nothing, register};
use crate::driver_suite::Fixture;
use crate::faulty::{DriverCall, EarlyReturns, FailTimes, LostRegistrations};

/// Checks that a rebuild requested by another thread keeps registrations and interests, and is reported.
pub fn l06_a_requested_rebuild_keeps_registrations(fixture: &dyn Fixture) {
    let mut bench = bench(fixture);
    let logs: Vec<ProbeLog> = (0..3).map(|_| ProbeLog::default()).collect();
    let watched: Vec<_> =
        logs.iter().map(|log| register(&mut bench, fixture, log, nothing)).collect();
    watched[1].1.borrow_mut().make_readable();
    let event_loop = bench.event_loop();
    std::thread::spawn(move || event_loop.rebuild()).join().unwrap().unwrap();
    let reports = bench.reports.clone();
    let mut told = Vec::new();
    bench.until("rebuild", || {
        told.extend(reports.take_texts());
        !told.is_empty()
    });
    assert_eq!(told, ["rebuild requested: selector rebuilt, 3 registrations moved"]);
    assert_eq!(bench.metrics().rebuilds, 1);
    logs.iter().for_each(|log| drop(log.taken()));
    bench.turns(2);
    assert_eq!(logs[1].taken(), ["ready", "ready"], "once a turn, no more");
    assert!(logs[0].len() == 0 && logs[2].len() == 0);
    let changed = watched[2].0.set_interest(Interest::WRITABLE);
    bench.turn();
    assert!(changed.join().is_ok());
    bench.turn();
    assert!(logs[2].count("ready") >= 1, "it can still be changed");
    let gone = watched[0].0.unregister();
    let noted = logs[0].clone();
    bench.until("end", || noted.len() == 1);
    assert!(gone.join().unwrap());
}

/// Checks that a series of early returns rebuilds the selector once, and that the report counts the registrations.
pub fn l06_a_spinning_selector_is_rebuilt(fixture: &dyn Fixture) {
    let mut bench = Bench::over(fixture.open(), |builder| builder.rebuild_after(6));
    let log = ProbeLog::default();
    let watched: Vec<_> = (0..2).map(|_| register(&mut bench, fixture, &log, nothing)).collect();
    bench.faults.return_early(EarlyReturns::UntilRebuild);
    for _ in 0..5 {
        bench.manual.turn(Some(TIMEOUT));
    }
    assert_eq!((bench.metrics().premature_returns, bench.metrics().premature_series), (5, 1));
    assert_eq!(bench.faults.calls(DriverCall::Rebuild), 0);
    bench.manual.turn(Some(TIMEOUT));
    assert_eq!(bench.faults.calls(DriverCall::Rebuild), 1);
    assert_eq!((bench.metrics().premature_returns, bench.metrics().rebuilds), (6, 1));
    let told = bench.reports.take_texts();
    assert_eq!(told, ["the selector spins: selector rebuilt, 2 registrations moved"]);
    drop(watched);
}

/// Checks that a task or an event resets the count of early returns.
pub fn l06_a_task_or_event_resets_the_count_of_early_returns(fixture: &dyn Fixture) {
    let mut bench = Bench::over(fixture.open(), |builder| builder.rebuild_after(4));
    let log = ProbeLog::default();
    let (_handle, source) = register(&mut bench, fixture, &log, nothing);
    bench.faults.return_early(EarlyReturns::Always);
    for round in 0..6 {
        for _ in 0..3 {
            bench.manual.turn(Some(TIMEOUT));
        }
        if round % 2 == 0 {
            bench.event_loop().execute(|| ()).unwrap();
            bench.manual.turn(Some(TIMEOUT));
        } else {
            source.borrow_mut().make_readable();
            bench.manual.turn(Some(TIMEOUT));
            source.borrow_mut().drain();
        }
    }
    assert_eq!(log.len(), 3, "what is ready is told nevertheless");
    assert_eq!(bench.faults.calls(DriverCall::Rebuild), 0);
    assert_eq!(bench.metrics().premature_returns, 18);
    assert_eq!(bench.metrics().premature_series, 0, "three in a row are nothing yet");
}

/// Checks that a threshold below three turns automatic rebuilds off.
pub fn l06_automatic_rebuilds_can_be_turned_off(fixture: &dyn Fixture) {
    for threshold in 0..3 {
        let mut bench = Bench::over(fixture.open(), |builder| builder.rebuild_after(threshold));
        bench.faults.return_early(EarlyReturns::Always);
        for _ in 0..600 {
            bench.manual.turn(Some(TIMEOUT));
        }
        assert_eq!(bench.faults.calls(DriverCall::Rebuild), 0);
        assert_eq!((bench.metrics().premature_returns, bench.metrics().premature_series), (600, 1));
    }
}

/// Checks that a registration that a rebuild loses gets the cause, and that the other registrations lose no event.
pub fn l06_a_registration_that_cannot_be_moved_gets_the_cause(fixture: &dyn Fixture) {
    let (mut bench, lost, kept) = (bench(fixture), ProbeLog::default(), ProbeLog::default());
    let (_lost, source) = register(&mut bench, fixture, &lost, nothing);
    let (_kept, other) = register(&mut bench, fixture, &kept, nothing);
    source.borrow_mut().make_readable();
    other.borrow_mut().make_readable();
    bench.faults.lose_at_rebuild(LostRegistrations::First(1));
    bench.event_loop().rebuild().unwrap();
    let noted = lost.clone();
    bench.until("end", || noted.has("injected fault"));
    let told = lost.taken();
    assert_eq!(told.iter().filter(|entry| entry.starts_with("unregistered")).count(), 1);
    kept.taken();
    bench.turns(3);
    assert_eq!(lost.len(), 0, "a lost registration is not called");
    assert_eq!(kept.taken(), ["ready"; 3]);
    assert_eq!(bench.metrics().registrations, 1);
    assert_eq!(
        bench.reports.take_texts(),
        ["rebuild requested: selector rebuilt, 1 registrations moved"]
    );
}

/// Checks that a failed rebuild keeps the old selector, and is reported.
pub fn l06_a_rebuild_that_fails_keeps_the_old_selector(fixture: &dyn Fixture) {
    let (mut bench, log) = (bench(fixture), ProbeLog::default());
    let (_handle, source) = register(&mut bench, fixture, &log, nothing);
    bench.faults.fail(DriverCall::Rebuild, FailTimes::Next(1), std::io::ErrorKind::OutOfMemory);
    bench.event_loop().rebuild().unwrap();
    bench.turns(2);
    let told = bench.reports.take_texts();
    assert!(told.len() == 1 && told[0].contains("the old selector stays in use"), "{told:?}");
    assert_eq!(bench.metrics().rebuilds, 0);
    source.borrow_mut().make_readable();
    bench.turns(2);
    assert_eq!(log.taken(), ["ready", "ready"]);
}
