//! Waiting and waking (L02).

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use waterwheel_channel::driver::{Driver, IoEvent, ReadPlan, WaitSummary};
use waterwheel_executor::Nanos;

use super::Fixture;
use super::bench::{Bench, GLANCE, PATIENCE, bytes_of};

/// More looks than a byte needs to get through a loopback device: on a real clock half a second.
const GLANCES_AT_MOST: usize = 500_000;

const WOKEN: WaitSummary = WaitSummary { ready: 0, woken: true };

/// A driver has a name, the same in every copy.
pub fn l02_a_driver_says_what_it_is(fixture: &dyn Fixture) {
    let name = fixture.open().name();
    assert!(!name.is_empty());
    assert_eq!(fixture.open().name(), name);
}

/// Never early, and late by no more than the kernel's resolution. A busy machine adds to that, so
/// this looks for a wrong unit, not for a missed microsecond.
pub fn l02_a_wait_ends_at_its_deadline(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    for limit in [50, 1_000, 1_500, 20_000].map(Duration::from_micros) {
        let deadline = bench.now().plus(limit);
        let waited = bench.driver.wait(Some(deadline)).expect("wait");
        let now = bench.now();
        assert_eq!(waited, WaitSummary::default());
        assert!(now >= deadline, "{limit:?}: {:?} early", deadline.since(now));
        assert!(now.since(deadline) < PATIENCE, "{limit:?}: {:?} late", now.since(deadline));
    }
}

/// With a deadline in the past a wait is a glance: it finds what there is, and blocks never.
pub fn l02_a_wait_whose_time_has_come_only_looks(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    assert_eq!(bench.wait_until(Nanos(0)), WaitSummary::default());
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"x");
    // Counted, because no time passes on a virtual clock while nothing waits.
    let found = (0..GLANCES_AT_MOST).any(|_| bench.wait_until(Nanos(0)).ready > 0);
    assert!(found, "what has arrived is not found");
    assert_eq!(bytes_of(&bench.round(), token), b"x");
}

/// A wait returns at once as long as there are events of the last round.
pub fn l02_a_wait_does_not_block_while_events_are_left(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(ReadPlan { max_reads: 16, size: 1 }));
    remote.send(b"xy");
    assert!(bench.wait(PATIENCE).ready > 0);
    assert!(matches!(bench.next(), Some(IoEvent::Read(..))));
    let deadline = bench.now().plus(PATIENCE);
    let waited = bench.driver.wait(Some(deadline)).expect("wait");
    assert!(waited.ready > 0 && bench.now() < deadline, "a read was left");
    let left = bench.round();
    assert_eq!(bytes_of(&left, token), b"y", "{left:?}");
    let is_over = matches!(left.last(), Some(IoEvent::ReadComplete(of)) if *of == token);
    assert!(is_over, "{left:?}");
    bench.assert_quiet();
}

/// An unpark that comes before the wait ends it at once, and only it.
pub fn l02_an_unpark_ends_the_next_wait_and_no_other(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    for _ in 0..3 {
        bench.driver.waker().unpark();
        let deadline = bench.now().plus(PATIENCE);
        assert_eq!(bench.wait_until(deadline), WOKEN);
        assert!(bench.now() < deadline, "it waited nevertheless");
        assert!(bench.round().is_empty(), "a wake is no event");
        assert_eq!(bench.wait(GLANCE), WaitSummary::default(), "one unpark, one wake");
    }
}

/// A thousand unparks from several threads, all before the wait, end one wait.
pub fn l02_many_unparks_end_one_wait(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let waker = bench.driver.waker();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| waker.unpark()));
        }
    });
    assert_eq!(bench.wait(PATIENCE), WOKEN);
    bench.assert_quiet();
}

/// Each of many unparks from another thread ends a wait that has no deadline.
pub fn l02_an_unpark_from_another_thread_ends_a_wait(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let waker = bench.driver.waker();
    let (go, going) = mpsc::channel();
    let other = thread::spawn(move || going.iter().for_each(|()| waker.unpark()));
    for _ in 0..500 {
        go.send(()).expect("the other thread lives");
        assert_eq!(bench.driver.wait(None).expect("wait"), WOKEN);
    }
    drop(go);
    other.join().expect("the other thread is well");
    bench.assert_quiet();
}

/// A wake and an event at the same time: both are told.
pub fn l02_a_wake_and_an_event_do_not_hide_each_other(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"x");
    bench.driver.waker().unpark();
    let (mut wakes, mut read) = (0, Vec::new());
    let deadline = bench.now().plus(PATIENCE);
    while wakes == 0 || read.is_empty() {
        assert!(bench.now() < deadline, "{wakes} wakes, {read:?} read");
        wakes += usize::from(bench.wait_until(deadline).woken);
        read.extend(bytes_of(&bench.round(), token));
    }
    assert_eq!((wakes, &read[..]), (1, &b"x"[..]));
    bench.assert_quiet();
}

/// A waker that outlived its driver does nothing, and harms no other driver.
pub fn l02_the_waker_may_outlive_its_driver(fixture: &dyn Fixture) {
    let driver: Box<dyn Driver> = fixture.open();
    let waker = driver.waker();
    drop(driver);
    let mut next = Bench::open(fixture);
    waker.unpark();
    thread::spawn(move || waker.unpark()).join().expect("an unpark into the void");
    next.assert_quiet();
}
