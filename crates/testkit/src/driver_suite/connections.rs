//! Connecting and accepting (L05).

use waterwheel_channel::driver::{Io, IoEvent, ReadPlan, Role};

use super::bench::{DriverBench, TIMEOUT};
use super::{Fixture, RemoteStream, supports_sockets};

/// Checks that an accepted connect gets `Connected` once, and that the stream can then be used.
pub fn l05_a_connect_is_connected_once(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let dialled = fixture.connect_accepted();
    let token = bench.attach(dialled.io, Role::Connecting(dialled.target.into()));
    bench.until("Connected", |seen| matches!(seen, [IoEvent::Connected(of)] if *of == token));
    let mut remote = (dialled.remote)();
    bench.assert_quiet();
    bench.write(token, b"hello");
    assert_eq!(remote.receive(5), b"hello");
    bench.set_read(token, Some(ReadPlan::default()));
    remote.send(b"hello yourself");
    assert_eq!(bench.read(token, 14), b"hello yourself");
}

/// Checks that `Connected` is delivered before the reads of the same round.
pub fn l05_connected_is_delivered_before_read(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let dialled = fixture.connect_accepted();
    let token = bench.attach(dialled.io, Role::Connecting(dialled.target.into()));
    bench.set_read(token, Some(ReadPlan::default()));
    let mut remote = (dialled.remote)();
    remote.send(b"welcome");
    remote.finish();
    let seen = bench.until("Eof", |seen| matches!(seen.last(), Some(IoEvent::Eof(_))));
    assert!(matches!(seen[..], [IoEvent::Connected(_), IoEvent::Read(..), ..]), "{seen:?}");
}

/// Checks that a listener accepts only while reads are on, at most `max_reads` per round, and eventually all.
pub fn l05_a_listener_accepts_as_planned(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    let (io, mut connector) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    let mut remotes: Vec<Box<dyn RemoteStream>> = (0..5).map(|_| connector.connect()).collect();
    bench.assert_quiet();
    bench.set_read(listener, Some(ReadPlan { max_reads: 2, size: 0 }));
    let accepted = |seen: &[IoEvent]| {
        seen.iter().filter(|event| matches!(event, IoEvent::Accepted(..))).count()
    };
    let seen = bench.until("five Accepted", |seen| accepted(seen) >= 5);
    assert_eq!(accepted(&seen), 5);
    bench.assert_quiet();

    let ios: Vec<Io> = seen.into_iter().filter_map(into_accepted).collect();
    for (io, remote) in ios.into_iter().zip(&mut remotes) {
        let token = bench.attach(io, Role::Stream);
        bench.write(token, b"welcome");
        assert_eq!(remote.receive(7), b"welcome");
    }
}

/// Checks that dropping an accepted connection closes it.
pub fn l05_an_accepted_connection_that_is_dropped_is_closed(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut connector) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    let mut remote = connector.connect();
    assert!(bench.wait(TIMEOUT).ready > 0);
    let mut accepted = bench.round().into_iter().filter_map(into_accepted);
    drop(accepted.next().expect("it was accepted"));
    remote.wait_ended();
}

fn into_accepted(event: IoEvent) -> Option<Io> {
    match event {
        IoEvent::Accepted(_, io, _) => Some(io),
        _ => None,
    }
}
