//! Rebuilding (L06).

use waterwheel_channel::driver::{
    Detach, Interest, IoEvent, OutQueue, ReadPlan, Role, WaitSummary,
};

use super::bench::{DriverBench, TIMEOUT, bytes_of, is_detached, wrote};
use super::{Fixture, supports_sockets};

/// Checks that all registrations keep their token and interest.
pub fn l06_a_rebuild_keeps_registrations_and_their_interest(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 3) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    assert_eq!(bench.driver.rebuild().expect("rebuild"), 0);
    let (reading, mut of_reading) = bench.reading_stream();
    let (silent, mut of_silent) = bench.stream();
    let (io, mut connector) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    let (io, mut source) = fixture.foreign();
    let foreign = bench.register(io, Interest::READABLE);
    for _ in 0..3 {
        assert_eq!(bench.driver.rebuild().expect("rebuild"), 4);
    }
    bench.assert_quiet();

    of_silent.send(b"later");
    of_reading.send(b"now");
    assert_eq!(bench.read(reading, 3), b"now");
    let _remote = connector.connect();
    let is_accepted = |it: &IoEvent| matches!(it, IoEvent::Accepted(of, ..) if *of == listener);
    bench.until("Accepted", |seen| seen.iter().any(is_accepted));
    source.make_readable();
    let is_ready = |it: &IoEvent| matches!(it, IoEvent::Foreign(of, _) if *of == foreign);
    bench.until("Foreign", |seen| seen.iter().any(is_ready));
    source.drain();
    bench.set_read(silent, Some(ReadPlan::default()));
    assert_eq!(bench.read(silent, 5), b"later");
}

/// Checks that pending events, including events of the current round, are delivered once after the rebuild.
pub fn l06_a_rebuild_loses_no_event(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    let (first, mut of_first) = bench.reading_stream();
    let (second, mut of_second) = bench.reading_stream();
    of_first.send(b"first");
    of_second.send(b"second");
    assert!(bench.wait(TIMEOUT).ready > 0);
    let mut seen: Vec<IoEvent> = bench.next().into_iter().collect();
    assert_eq!(bench.driver.rebuild().expect("rebuild"), 2);
    let missing = |seen: &[IoEvent]| {
        bytes_of(seen, first).len() + bytes_of(seen, second).len() < b"firstsecond".len()
    };
    let deadline = bench.now().plus(TIMEOUT);
    while missing(&seen) {
        assert!(bench.now() < deadline, "only {seen:?}");
        bench.wait_until(deadline);
        seen.extend(bench.round());
    }
    assert_eq!(bytes_of(&seen, first), b"first");
    assert_eq!(bytes_of(&seen, second), b"second");
    bench.assert_quiet();
}

/// Checks that a write that waits for room gets `Wrote` after the rebuild.
pub fn l06_a_rebuild_keeps_a_pending_write(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.write_until_full(token, &mut OutQueue::new());
    assert_eq!(bench.driver.rebuild().expect("rebuild"), 1);
    bench.assert_quiet();
    let deadline = bench.now().plus(TIMEOUT);
    remote.drain();
    while wrote(&bench.turn(TIMEOUT), token).is_none() {
        assert!(bench.now() < deadline, "no Wrote");
        remote.drain();
    }
}

/// Checks that a connect in flight gets `Connected` after the rebuild.
pub fn l06_a_rebuild_keeps_a_pending_connect(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let dialled = fixture.connect_accepted();
    let token = bench.attach(dialled.io, Role::Connecting(dialled.target.into()));
    assert_eq!(bench.driver.rebuild().expect("rebuild"), 1);
    bench.until("Connected", |seen| matches!(seen, [IoEvent::Connected(of)] if *of == token));
    let mut remote = (dialled.remote)();
    bench.write(token, b"hello");
    assert_eq!(remote.receive(5), b"hello");
}

/// Checks that wakers created before the rebuild still end waits, and that a wake before it is not lost.
pub fn l06_the_waker_survives_a_rebuild(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let waker = bench.driver.waker();
    let woken = WaitSummary { ready: 0, woken: true };
    waker.unpark();
    bench.driver.rebuild().expect("rebuild");
    assert_eq!(bench.wait(TIMEOUT), woken, "used before the rebuild");
    bench.assert_quiet();
    waker.unpark();
    assert_eq!(bench.wait(TIMEOUT), woken, "used after the rebuild");
    bench.assert_quiet();
}

/// Checks that a registration that is being detached is not moved, and still gets `Detached`.
pub fn l06_a_rebuild_does_not_restore_detached_registrations(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"x");
    let pending = bench.begin_detach(token) == Detach::Pending;
    assert_eq!(bench.driver.rebuild().expect("rebuild"), 0);
    if pending {
        bench.until("Detached", |seen| seen.iter().any(|event| is_detached(event, token)));
    }
    bench.assert_quiet();
    remote.wait_ended();
}
