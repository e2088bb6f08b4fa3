//! What must not spin (L17). After each of these there is silence; where the kernel reports something
//! that nobody wants to know, after a few turns.

use std::io::ErrorKind;
use std::net::Shutdown;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role};

use super::bench::{Bench, PATIENCE, bytes_of, is_eof, is_failed, is_finished, wrote};
use super::event_checker::RegistrationKind;
use super::{Fixture, supports_sockets};

/// A driver with idle registrations of every kind is idle.
pub fn l17_idle_registrations_do_not_spin(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 3) {
        return;
    }
    let mut bench = Bench::open(fixture);
    bench.assert_quiet();
    let (_off, _remote_off) = bench.stream();
    let (_on, _remote_on) = bench.reading_stream();
    let (io, _door) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    bench.assert_quiet();
}

/// The peer has finished while reads are off: that is told once, and the end when they are on.
pub fn l17_a_finished_peer_with_reads_off_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
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

/// Reads that were on and are off again do not spin either.
pub fn l17_reads_turned_off_again_do_not_spin(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    bench.set_read(token, None);
    remote.send(b"x");
    remote.finish();
    until_finished(&mut bench, token);
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(bench.read(token, 1), b"x");
}

/// A write that is pending does not hide it, and neither does a round that reads are turned off in; it is
/// not told again, and not after the own input was shut down.
pub fn l17_that_a_peer_has_finished_is_told_once_while_reads_are_off(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.write_until_full(token, &mut OutQueue::new());
    remote.finish();
    until_finished(&mut bench, token);
    bench.assert_settles();
    bench.detach(token);

    let (token, mut remote) = bench.reading_stream();
    remote.send(b"xy");
    bench.set_read(token, Some(ReadPlan { max_reads: 16, size: 1 }));
    assert!(bench.wait(PATIENCE).ready > 0);
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

fn until_finished(bench: &mut Bench<'_>, token: Token) {
    bench.until("PeerFinished", |seen| seen.iter().any(|event| is_finished(event, token)));
}

/// The peer has reset while reads are off: told once at most, and silence.
pub fn l17_a_reset_with_reads_off_fails_once(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.reset();
    bench.until("Failed", |seen| seen.iter().any(|event| is_failed(event, token)));
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    bench.assert_settles();
    bench.detach(token);
}

/// Both directions are over, with reads on and with reads off.
pub fn l17_a_stream_that_is_over_in_both_directions_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
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

/// A refused connect fails, at once or by one event, and then there is silence.
pub fn l17_a_refused_connect_fails_once(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, target) = fixture.connect_refused();
    let token = bench.checker.enter(RegistrationKind::Connecting);
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

/// Once connected, a stream that is writable all the time does not say so.
pub fn l17_a_connected_stream_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let dialled = fixture.connect_accepted();
    let token = bench.attach(dialled.io, Role::Connecting(dialled.target.into()));
    bench.until("Connected", |seen| matches!(seen, [IoEvent::Connected(_)]));
    let _remote = (dialled.remote)();
    bench.assert_quiet();
    bench.set_read(token, Some(ReadPlan::default()));
    bench.assert_quiet();
}

/// Room is told once to a write that waits for it, and not again.
pub fn l17_room_is_told_once(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.write_until_full(token, &mut OutQueue::new());
    let deadline = bench.now().plus(PATIENCE);
    remote.drain();
    while wrote(&bench.turn(PATIENCE), token).is_none() {
        assert!(bench.now() < deadline, "no Wrote");
        remote.drain();
    }
    remote.drain();
    bench.assert_quiet();
}

/// Connections wait in the backlog of a listener that does not accept: silence.
pub fn l17_a_full_backlog_with_accepts_off_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, mut door) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    bench.set_read(listener, None);
    let _remotes = [door.connect(), door.connect()];
    bench.assert_quiet();
    bench.set_read(listener, Some(ReadPlan::default()));
    bench.until("Accepted", |seen| seen.iter().any(|it| matches!(it, IoEvent::Accepted(..))));
}
