//! Situations that must not make a driver spin (L17). Each test ends without further events; where the kernel reports
//! readiness that is not wanted, after a few turns.

use std::io::ErrorKind;
use std::net::Shutdown;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role};

use super::bench::{DriverBench, TIMEOUT, bytes_of, is_eof, is_failed, is_finished, wrote};
use super::event_checker::RegistrationKind;
use super::{Fixture, supports_sockets};

/// Checks that a driver with idle registrations of every kind is idle.
pub fn l17_idle_registrations_do_not_spin(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 3) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    bench.assert_quiet();
    let (_off, _remote_off) = bench.stream();
    let (_on, _remote_on) = bench.reading_stream();
    let (io, _door) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    bench.assert_quiet();
}

/// Checks that `PeerFinished` is delivered once while reads are off, and `Eof` when they are on.
pub fn l17_a_finished_peer_with_reads_off_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"bye");
    remote.finish();
    until_finished(&mut bench, token);
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    let seen = bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
    assert_eq!(bytes_of(&seen, token), b"bye");
    bench.assert_settles();
}

/// Checks that unread bytes do not make the driver spin after reads were turned off again.
pub fn l17_reads_turned_off_again_do_not_spin(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    bench.set_read(token, None);
    remote.send(b"x");
    remote.finish();
    until_finished(&mut bench, token);
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(bench.read(token, 1), b"x");
}

/// Checks that `PeerFinished` is delivered despite a pending write or a round in which reads went off, but not twice,
/// and not after the driver's own input was shut down.
pub fn l17_peer_finished_is_delivered_once_while_reads_are_off(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.write_until_full(token, &mut OutQueue::new());
    remote.finish();
    until_finished(&mut bench, token);
    bench.assert_settles();
    bench.detach(token);

    let (token, mut remote) = bench.reading_stream();
    remote.send(b"xy");
    bench.set_read(token, Some(ReadPlan { max_reads: 16, size: 1 }));
    assert!(bench.wait(TIMEOUT).ready > 0);
    assert!(matches!(bench.next(), Some(IoEvent::Read(..))));
    bench.set_read(token, None);
    remote.finish();
    until_finished(&mut bench, token);
    bench.set_read(token, Some(ReadPlan::default()));
    bench.set_read(token, None);
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(bench.read(token, 1), b"y");
    bench.detach(token);

    let (token, mut remote) = bench.stream();
    bench.driver.shutdown(token, Shutdown::Read).expect("shutdown");
    remote.finish();
    bench.assert_settles();
}

fn until_finished(bench: &mut DriverBench<'_>, token: Token) {
    bench.until("PeerFinished", |seen| seen.iter().any(|event| is_finished(event, token)));
}

/// Checks that a reset while reads are off gives at most one event.
pub fn l17_a_reset_with_reads_off_fails_once(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.reset();
    bench.until("Failed", |seen| seen.iter().any(|event| is_failed(event, token)));
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    bench.assert_settles();
    bench.detach(token);
}

/// Checks that a stream closed in both directions does not make the driver spin, with reads on and off.
pub fn l17_a_stream_closed_in_both_directions_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    for reads in [true, false] {
        let (token, mut remote) = bench.stream();
        if reads {
            bench.set_read(token, Some(ReadPlan::default()));
        }
        remote.finish();
        bench.driver.shutdown(token, Shutdown::Write).expect("shutdown");
        remote.wait_ended();
        if reads {
            bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
        } else {
            until_finished(&mut bench, token);
        }
        bench.assert_settles();
        bench.set_read(token, None);
        bench.assert_settles();
        bench.set_read(token, Some(ReadPlan::default()));
        if reads {
            bench.assert_settles();
        } else {
            bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
        }
        bench.detach(token);
    }
}

/// Checks that a refused connect (ECONNREFUSED) fails at once or with one event, and nothing follows.
pub fn l17_a_refused_connect_fails_once(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, target) = fixture.connect_refused();
    let token = bench.checker.add(RegistrationKind::Connecting);
    let error = match bench.driver.attach(token, io, Role::Connecting(target.into())) {
        Err(error) => error,
        Ok(()) => {
            let mut seen = bench.until("Failed", |seen| !seen.is_empty());
            assert_eq!(seen.len(), 1, "{seen:?}");
            let Some(IoEvent::Failed(_, error)) = seen.pop() else { panic!("{seen:?}") };
            error
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    bench.assert_settles();
    bench.detach(token);
}

/// Checks that a connected stream that is always writable gives no events.
pub fn l17_a_connected_stream_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let dialled = fixture.connect_accepted();
    let token = bench.attach(dialled.io, Role::Connecting(dialled.target.into()));
    bench.until("Connected", |seen| matches!(seen, [IoEvent::Connected(_)]));
    let _remote = (dialled.remote)();
    bench.assert_quiet();
    bench.set_read(token, Some(ReadPlan::default()));
    bench.assert_quiet();
}

/// Checks that a pending write gets `Wrote` once.
pub fn l17_a_pending_write_gets_wrote_once(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.write_until_full(token, &mut OutQueue::new());
    let deadline = bench.now().plus(TIMEOUT);
    remote.drain();
    while wrote(&bench.turn(TIMEOUT), token).is_none() {
        assert!(bench.now() < deadline, "no Wrote");
        remote.drain();
    }
    remote.drain();
    bench.assert_quiet();
}

/// Checks that connections in the backlog of a listener with accepts off give no events.
pub fn l17_a_full_backlog_with_accepts_off_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut connector) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    bench.set_read(listener, None);
    let _remotes = [connector.connect(), connector.connect()];
    bench.assert_quiet();
    bench.set_read(listener, Some(ReadPlan::default()));
    bench.until("Accepted", |seen| seen.iter().any(|it| matches!(it, IoEvent::Accepted(..))));
}
