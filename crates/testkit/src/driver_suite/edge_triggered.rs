//! What the kernel may say only once (L05, L06, L17). A driver whose kernel says when something begins, and not for
//! as long as it lasts, keeps it until somebody wants it. After each of these the peer is silent: whoever has
//! forgotten what was said waits for ever.

use waterwheel_channel::Token;
use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role, Submit};

use super::bench::{Bench, PATIENCE, bytes_of, is_eof, is_finished, wrote};
use super::{Fixture, RemoteStream, supports_sockets};

/// Rounds of two reads of two bytes: eight bytes are two full ones.
const SMALL: ReadPlan = ReadPlan { max_reads: 2, size: 2 };

/// What a full round leaves is read in the next ones, also if the last of them is full as well.
pub fn l05_what_a_full_round_leaves_is_read_though_the_peer_is_silent(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(SMALL));
    for sent in [&b"0123456"[..], b"01234567", b"0123456789abcdefghi"] {
        remote.send(sent);
        assert_eq!(bench.read(token, sent.len()), sent);
    }
}

/// Reads are turned off by a full round, for a while in which nothing happens; on again they go on.
pub fn l05_what_a_full_round_leaves_is_read_when_reads_are_on_again(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"01234567xyz");
    let mut read = Vec::new();
    while read.len() < 11 {
        bench.set_read(token, Some(SMALL));
        let events = bench.turn(PATIENCE);
        assert!(!events.is_empty(), "only {read:?}");
        bench.set_read(token, None);
        read.extend(bytes_of(&events, token));
        bench.assert_quiet();
    }
    assert_eq!(read, b"01234567xyz");
}

/// What came while reads were off, in several pieces, is there when they are on: with and without a wait between.
pub fn l05_what_came_while_reads_were_off_is_read_when_they_are_on(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
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

/// A peer that finished while there was more to read than a round takes: told when reads go off, and the rest and
/// the end are read when they are on.
pub fn l17_a_peer_that_finished_in_the_course_of_full_rounds_is_told(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(SMALL));
    remote.send(b"01234567xyz");
    remote.finish();
    assert_eq!(bytes_of(&bench.turn(PATIENCE), token), b"0123");
    bench.set_read(token, None);
    bench.until("PeerFinished", |seen| seen.iter().any(|event| is_finished(event, token)));
    bench.assert_settles();
    bench.set_read(token, Some(SMALL));
    let seen = bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
    assert_eq!(bytes_of(&seen, token), b"4567xyz");
}

/// Room that comes before the driver waits, and room that comes again and again, is told each time.
pub fn l05_room_is_told_to_every_write_that_waits_for_it(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    for reads in [None, Some(ReadPlan::default()), None] {
        bench.set_read(token, reads);
        let mut queue = OutQueue::new();
        bench.write_until_full(token, &mut queue);
        until_wrote(&mut bench, token, remote.as_mut());
        // Full again, and drained before the kernel is asked.
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

fn until_wrote(bench: &mut Bench<'_>, token: Token, remote: &mut dyn RemoteStream) {
    let deadline = bench.now().plus(PATIENCE);
    loop {
        remote.drain();
        if wrote(&bench.turn(PATIENCE), token).is_some() {
            return;
        }
        assert!(bench.now() < deadline, "no Wrote");
    }
}

/// Accepts that a round did not get to, and those that were off, are made up for.
pub fn l05_connections_that_a_round_leaves_are_accepted_though_nobody_else_connects(
    fixture: &dyn Fixture,
) {
    let mut bench = Bench::open(fixture);
    let (io, mut door) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    let plan = Some(ReadPlan { max_reads: 2, size: 0 });
    bench.set_read(listener, plan);
    bench.assert_quiet();
    for noticed in [false, true] {
        bench.set_read(listener, None);
        let _remotes: Vec<_> = (0..5).map(|_| door.connect()).collect();
        if noticed {
            bench.assert_quiet();
        }
        let mut accepted = 0;
        while accepted < 5 {
            // As a listener does that pauses after each round.
            bench.set_read(listener, plan);
            let events = bench.turn(PATIENCE);
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

/// A round that is left in the middle, as by a loop that has dispatched enough for one turn, goes on after the next
/// wait, which does not block; nobody is forgotten.
pub fn l05_a_round_that_is_left_in_the_middle_goes_on_after_the_next_wait(fixture: &dyn Fixture) {
    const STREAMS: usize = 20;
    if !supports_sockets(fixture, STREAMS) {
        return;
    }
    let mut bench = Bench::open(fixture);
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
    let deadline = bench.now().plus(PATIENCE);
    while missing(&seen) {
        assert!(bench.now() < deadline, "only {seen:?}");
        // No `begin_round`: it is the same one until it is over.
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

/// What was there before a rebuild, and was said then, is there after it: to be read, now or later, and as room.
pub fn l06_a_rebuild_keeps_what_was_said_before(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    bench.set_read(token, None);
    remote.send(b"0123456");
    bench.assert_quiet();
    bench.driver.rebuild().expect("rebuild");
    bench.assert_quiet();
    bench.set_read(token, Some(SMALL));
    assert_eq!(bytes_of(&bench.turn(PATIENCE), token), b"0123");
    bench.driver.rebuild().expect("rebuild");
    assert_eq!(bench.read(token, 3), b"456");
    bench.write_until_full(token, &mut OutQueue::new());
    remote.drain();
    bench.driver.rebuild().expect("rebuild");
    until_wrote(&mut bench, token, remote.as_mut());
}

/// A socket that is released takes along what its first driver was told of it: the second one finds it out.
pub fn l07_what_is_unread_of_a_released_stream_is_read_by_its_next_driver(fixture: &dyn Fixture) {
    let mut first = Bench::open(fixture);
    let (token, mut remote) = first.stream();
    first.set_read(token, Some(SMALL));
    remote.send(b"0123456");
    assert_eq!(bytes_of(&first.turn(PATIENCE), token), b"0123");
    first.set_read(token, None);
    first.assert_quiet();
    let io = first.driver.release(token).expect("release");
    first.checker.leave(token);
    let mut second = Bench::open(fixture);
    let token = second.attach(io, Role::Stream);
    second.assert_quiet();
    second.set_read(token, Some(SMALL));
    assert_eq!(second.read(token, 3), b"456");
    remote.finish();
    second.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
}

/// Datagrams that a full round leaves are received though nobody sends another, and so are those that came while
/// reads were off.
pub fn l05_datagrams_that_a_round_leaves_are_received_though_the_peer_is_silent(
    fixture: &dyn Fixture,
) {
    let mut bench = Bench::open(fixture);
    let (io, mut postman) = fixture.datagrams();
    let token = bench.attach(io, Role::Datagram);
    let received =
        |seen: &[IoEvent]| seen.iter().filter(|it| matches!(it, IoEvent::Datagram(..))).count();
    bench.set_read(token, Some(SMALL));
    bench.assert_quiet();
    for count in [5, 4] {
        (0..count).for_each(|_| postman.send(b"x"));
        bench.until("datagrams", |seen| received(seen) == count);
        bench.assert_settles_but_for(|event| matches!(event, IoEvent::ReadComplete(_)));
        bench.set_read(token, None);
        (0..count).for_each(|_| postman.send(b"x"));
        bench.assert_quiet();
        bench.set_read(token, Some(SMALL));
        bench.until("datagrams", |seen| received(seen) == count);
        bench.assert_settles_but_for(|event| matches!(event, IoEvent::ReadComplete(_)));
    }
}
