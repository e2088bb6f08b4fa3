//! Waiting and waking (L02).

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use waterwheel_channel::driver::{Driver, IoEvent, ReadPlan, WaitSummary};
use waterwheel_executor::Nanos;

use super::Fixture;
use super::bench::{DriverBench, SHORT_WAIT, TIMEOUT, bytes_of};

/// More polls than a byte needs to pass a loopback device: half a second on a real clock.
const MAX_POLLS: usize = 500_000;

const WOKEN: WaitSummary = WaitSummary { ready: 0, woken: true };

/// Checks that all drivers of a fixture have the same, non-empty name.
pub fn l02_a_driver_has_a_name(fixture: &dyn Fixture) {
    let name = fixture.open().name();
    assert!(!name.is_empty());
    assert_eq!(fixture.open().name(), name);
}

/// Checks that a wait is never early, and not much later than its deadline. A busy machine adds delay, so this detects
/// a wrong time unit, not a missed microsecond.
pub fn l02_a_wait_ends_at_its_deadline(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    for limit in [50, 1_000, 1_500, 20_000].map(Duration::from_micros) {
        let deadline = bench.now().plus(limit);
        let waited = bench.driver.wait(Some(deadline)).expect("wait");
        let now = bench.now();
        assert_eq!(waited, WaitSummary::default());
        assert!(now >= deadline, "{limit:?}: {:?} early", deadline.since(now));
        assert!(now.since(deadline) < TIMEOUT, "{limit:?}: {:?} late", now.since(deadline));
    }
}

/// Checks that a wait with a deadline in the past reports ready events and does not block.
pub fn l02_a_wait_with_a_past_deadline_does_not_block(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    assert_eq!(bench.wait_until(Nanos(0)), WaitSummary::default());
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"x");
    // The limit is a count, because a virtual clock does not move while no wait blocks.
    let found = (0..MAX_POLLS).any(|_| bench.wait_until(Nanos(0)).ready > 0);
    assert!(found, "the arrived byte is not reported");
    assert_eq!(bytes_of(&bench.round(), token), b"x");
}

/// Checks that a wait returns at once while events of the last round are left.
pub fn l02_a_wait_does_not_block_while_events_are_left(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(ReadPlan { max_reads: 16, size: 1 }));
    remote.send(b"xy");
    assert!(bench.wait(TIMEOUT).ready > 0);
    assert!(matches!(bench.next(), Some(IoEvent::Read(..))));
    let deadline = bench.now().plus(TIMEOUT);
    let waited = bench.driver.wait(Some(deadline)).expect("wait");
    assert!(waited.ready > 0 && bench.now() < deadline, "a read was left");
    let left = bench.round();
    assert_eq!(bytes_of(&left, token), b"y", "{left:?}");
    let is_over = matches!(left.last(), Some(IoEvent::ReadComplete(of)) if *of == token);
    assert!(is_over, "{left:?}");
    bench.assert_quiet();
}

/// Checks that an unpark before a wait ends that wait at once, and no other.
pub fn l02_an_unpark_ends_the_next_wait_and_no_other(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    for _ in 0..3 {
        bench.driver.waker().unpark();
        let deadline = bench.now().plus(TIMEOUT);
        assert_eq!(bench.wait_until(deadline), WOKEN);
        assert!(bench.now() < deadline, "the wait blocked");
        assert!(bench.round().is_empty(), "a wake is no event");
        assert_eq!(bench.wait(SHORT_WAIT), WaitSummary::default(), "one unpark, one wake");
    }
}

/// Checks that a thousand unparks of several threads before a wait end one wait.
pub fn l02_many_unparks_end_one_wait(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let waker = bench.driver.waker();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| waker.unpark()));
        }
    });
    assert_eq!(bench.wait(TIMEOUT), WOKEN);
    bench.assert_quiet();
}

/// Checks that each of many unparks of another thread ends a wait without deadline.
pub fn l02_an_unpark_from_another_thread_ends_a_wait(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
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

/// Checks that a wake and an event at the same time are both reported.
pub fn l02_a_wake_and_an_event_are_both_reported(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"x");
    bench.driver.waker().unpark();
    let (mut wakes, mut read) = (0, Vec::new());
    let deadline = bench.now().plus(TIMEOUT);
    while wakes == 0 || read.is_empty() {
        assert!(bench.now() < deadline, "{wakes} wakes, {read:?} read");
        wakes += usize::from(bench.wait_until(deadline).woken);
        read.extend(bytes_of(&bench.round(), token));
    }
    assert_eq!((wakes, &read[..]), (1, &b"x"[..]));
    bench.assert_quiet();
}

/// Checks that a waker that outlives its driver has no effect on other drivers.
pub fn l02_the_waker_may_outlive_its_driver(fixture: &dyn Fixture) {
    let driver: Box<dyn Driver> = fixture.open();
    let waker = driver.waker();
    drop(driver);
    let mut next = DriverBench::open(fixture);
    waker.unpark();
    thread::spawn(move || waker.unpark()).join().expect("unpark after the driver was dropped");
    next.assert_quiet();
}
