//! Readiness that an edge-triggered kernel (EPOLLET) reports only once (L05, L06, L17). A driver over such a kernel has
//! to remember readiness until it is used. In each test the peer is silent afterwards: a driver that has forgotten the
//! readiness waits for ever.

use waterwheel_channel::Token;
use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role, Submit};

use super::bench::{DriverBench, TIMEOUT, bytes_of, is_eof, is_finished, wrote};
use super::{Fixture, RemoteStream, supports_sockets};

/// Rounds of two reads of two bytes: eight bytes are two full rounds.
const SMALL: ReadPlan = ReadPlan { max_reads: 2, size: 2 };

/// Checks that later rounds read the bytes that a full round has left, even if the last round is full too.
pub fn l05_bytes_left_by_a_full_round_are_read_without_further_readiness(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(SMALL));
    for sent in [&b"0123456"[..], b"01234567", b"0123456789abcdefghi"] {
        remote.send(sent);
        assert_eq!(bench.read(token, sent.len()), sent);
    }
}

/// Checks that reading continues when reads were turned off after a full round and on again later.
pub fn l05_bytes_left_by_a_full_round_are_read_when_reads_are_on_again(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"01234567xyz");
    let mut read = Vec::new();
    while read.len() < 11 {
        bench.set_read(token, Some(SMALL));
        let events = bench.turn(TIMEOUT);
        assert!(!events.is_empty(), "only {read:?}");
        bench.set_read(token, None);
        read.extend(bytes_of(&events, token));
        bench.assert_quiet();
    }
    assert_eq!(read, b"01234567xyz");
}

/// Checks that bytes that arrived in several pieces while reads were off are read later, with and without a wait in
/// between.
pub fn l05_bytes_that_arrived_while_reads_were_off_are_read_later(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    bench.assert_quiet();
    for noticed in [true, false, true] {
        bench.set_read(token, None);
        for piece in [&b"a"[..], b"bc"] {
            remote.send(piece);
            if noticed {
                bench.assert_quiet();
            }
        }
        bench.set_read(token, Some(ReadPlan::default()));
        assert_eq!(bench.read(token, 3), b"abc");
        remote.send(b"d");
        assert_eq!(bench.read(token, 1), b"d");
        bench.assert_quiet();
    }
}

/// Checks a peer that finishes while more bytes are left than one round reads: `PeerFinished` is delivered when reads
/// are turned off, and the other bytes and `Eof` when reads are on again.
pub fn l17_a_peer_that_finished_during_full_rounds_is_reported(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(SMALL));
    remote.send(b"01234567xyz");
    remote.finish();
    assert_eq!(bytes_of(&bench.turn(TIMEOUT), token), b"0123");
    bench.set_read(token, None);
    bench.until("PeerFinished", |seen| seen.iter().any(|event| is_finished(event, token)));
    bench.assert_settles();
    bench.set_read(token, Some(SMALL));
    let seen = bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
    assert_eq!(bytes_of(&seen, token), b"4567xyz");
}

/// Checks that every pending write gets `Wrote`, whether room appears before the wait or several times.
pub fn l05_every_pending_write_gets_wrote_when_there_is_room(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    for reads in [None, Some(ReadPlan::default()), None] {
        bench.set_read(token, reads);
        let mut queue = OutQueue::new();
        bench.write_until_full(token, &mut queue);
        until_wrote(&mut bench, token, remote.as_mut());
        // The buffer is full again, and the peer drains it before the driver waits.
        let mut queue = OutQueue::new();
        queue.push(vec![b'x'; 64 * 1024].into());
        while let Submit::Done(n) = bench.begin_write(token, &mut queue) {
            assert!(n > 0);
            queue.push(vec![b'x'; 64 * 1024].into());
        }
        until_wrote(&mut bench, token, remote.as_mut());
        while !remote.drain().is_empty() {}
        bench.assert_quiet();
    }
}

fn until_wrote(bench: &mut DriverBench<'_>, token: Token, remote: &mut dyn RemoteStream) {
    let deadline = bench.now().plus(TIMEOUT);
    loop {
        remote.drain();
        if wrote(&bench.turn(TIMEOUT), token).is_some() {
            return;
        }
        assert!(bench.now() < deadline, "no Wrote");
    }
}

/// Checks that connections that a round left, or that arrived while accepts were off, are accepted later.
pub fn l05_connections_left_by_a_round_are_accepted_without_further_readiness(
    fixture: &dyn Fixture,
) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut connector) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    let plan = Some(ReadPlan { max_reads: 2, size: 0 });
    bench.set_read(listener, plan);
    bench.assert_quiet();
    for noticed in [false, true] {
        bench.set_read(listener, None);
        let _remotes: Vec<_> = (0..5).map(|_| connector.connect()).collect();
        if noticed {
            bench.assert_quiet();
        }
        let mut accepted = 0;
        while accepted < 5 {
            // Imitates a listener that pauses after each round.
            bench.set_read(listener, plan);
            let events = bench.turn(TIMEOUT);
            bench.set_read(listener, None);
            let is_accepted = |event: &&IoEvent| matches!(event, IoEvent::Accepted(..));
            let in_round = events.iter().filter(is_accepted).count();
            assert!(in_round > 0, "{accepted} of five");
            accepted += in_round;
            bench.assert_quiet();
        }
        bench.set_read(listener, plan);
        bench.assert_settles_but_for(|event| matches!(event, IoEvent::ReadComplete(_)));
    }
}

/// Checks that a round that the loop interrupts continues after the next wait, which does not block, and that no event
/// is lost.
pub fn l05_an_interrupted_round_continues_after_the_next_wait(fixture: &dyn Fixture) {
    const STREAMS: usize = 20;
    if !supports_sockets(fixture, STREAMS) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    let mut streams: Vec<_> = (0..STREAMS).map(|_| bench.stream()).collect();
    for (token, remote) in &mut streams {
        bench.set_read(*token, Some(SMALL));
        remote.send(b"0123456");
    }
    let mut seen = Vec::new();
    let missing = |seen: &[IoEvent]| {
        let all = streams.iter().map(|(token, _)| bytes_of(seen, *token).len());
        all.sum::<usize>() < 7 * STREAMS
    };
    let deadline = bench.now().plus(TIMEOUT);
    while missing(&seen) {
        assert!(bench.now() < deadline, "only {seen:?}");
        // No `begin_round`: it is the same round until it is over.
        let waited = bench.driver.wait(Some(deadline)).expect("wait");
        assert!(waited.ready > 0, "only {seen:?}");
        for _ in 0..7 {
            let Some(event) = bench.driver.next_event() else { break };
            let (event, complete) = event.split();
            seen.push(event);
            seen.extend(complete);
        }
    }
    for (token, _) in &streams {
        assert_eq!(bytes_of(&seen, *token), b"0123456");
    }
}

/// Checks that readiness reported before a rebuild, to read or to write, still holds after it.
pub fn l06_a_rebuild_keeps_readiness_reported_before(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    bench.set_read(token, None);
    remote.send(b"0123456");
    bench.assert_quiet();
    bench.driver.rebuild().expect("rebuild");
    bench.assert_quiet();
    bench.set_read(token, Some(SMALL));
    assert_eq!(bytes_of(&bench.turn(TIMEOUT), token), b"0123");
    bench.driver.rebuild().expect("rebuild");
    assert_eq!(bench.read(token, 3), b"456");
    bench.write_until_full(token, &mut OutQueue::new());
    remote.drain();
    bench.driver.rebuild().expect("rebuild");
    until_wrote(&mut bench, token, remote.as_mut());
}

/// Checks that the next driver of a released socket detects the unread bytes that the first driver knew of.
pub fn l07_unread_bytes_of_a_released_stream_are_read_by_its_next_driver(fixture: &dyn Fixture) {
    let mut first = DriverBench::open(fixture);
    let (token, mut remote) = first.stream();
    first.set_read(token, Some(SMALL));
    remote.send(b"0123456");
    assert_eq!(bytes_of(&first.turn(TIMEOUT), token), b"0123");
    first.set_read(token, None);
    first.assert_quiet();
    let io = first.driver.release(token).expect("release");
    first.checker.remove(token);
    let mut second = DriverBench::open(fixture);
    let token = second.attach(io, Role::Stream);
    second.assert_quiet();
    second.set_read(token, Some(SMALL));
    assert_eq!(second.read(token, 3), b"456");
    remote.finish();
    second.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
}

/// Checks that datagrams left in the socket by a full round, and datagrams that arrived while reads were off, are
/// received without the arrival of another datagram.
pub fn l05_datagrams_left_by_a_round_are_received_without_further_readiness(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut remote) = fixture.datagrams();
    let token = bench.attach(io, Role::Datagram);
    let received =
        |seen: &[IoEvent]| seen.iter().filter(|it| matches!(it, IoEvent::Datagram(..))).count();
    bench.set_read(token, Some(SMALL));
    bench.assert_quiet();
    for count in [5, 4] {
        (0..count).for_each(|_| remote.send(b"x"));
        bench.until("datagrams", |seen| received(seen) == count);
        bench.assert_settles_but_for(|event| matches!(event, IoEvent::ReadComplete(_)));
        bench.set_read(token, None);
        (0..count).for_each(|_| remote.send(b"x"));
        bench.assert_quiet();
        bench.set_read(token, Some(SMALL));
        bench.until("datagrams", |seen| received(seen) == count);
        bench.assert_settles_but_for(|event| matches!(event, IoEvent::ReadComplete(_)));
    }
}
