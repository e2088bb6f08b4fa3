//! Reading (L05).

use waterwheel_channel::driver::{IoEvent, ReadPlan};

use super::bench::{Bench, PATIENCE, bytes_of, is_eof, is_failed};
use super::{Fixture, supports_sockets};

/// Nothing is read before reads are turned on; then everything is.
pub fn l05_reads_are_off_at_first(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"hello");
    bench.assert_quiet();
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(bench.read(token, 5), b"hello");
}

/// What was read is followed by one `ReadComplete`, and then there is silence.
pub fn l05_a_round_of_reads_ends_with_one_read_complete(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    for _ in 0..3 {
        remote.send(b"hello");
        let events = bench.turn(PATIENCE);
        assert!(
            matches!(events[..], [IoEvent::Read(..), IoEvent::ReadComplete(_)]),
            "{token:?}: {events:?}"
        );
        bench.assert_quiet();
    }
}

/// A `LastRead` ends its round: nothing of that token follows in it, and others are told what is theirs.
pub fn l05_a_last_read_ends_its_round(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    let (other, mut other_remote) = bench.reading_stream();
    for _ in 0..3 {
        remote.send(b"hello");
        other_remote.send(b"hello");
        let ends = |seen: &[IoEvent], of| {
            seen.iter()
                .filter(|event| matches!(event, IoEvent::ReadComplete(it) if *it == of))
                .count()
        };
        let seen = bench
            .until("the ends of two rounds", |seen| ends(seen, token) > 0 && ends(seen, other) > 0);
        for reader in [token, other] {
            assert_eq!(bytes_of(&seen, reader), b"hello");
            assert_eq!(ends(&seen, reader), 1, "{seen:?}");
        }
        bench.assert_quiet();
    }
}

/// The end of a round that is owed to somebody who is detached is not given out either.
pub fn l07_a_detached_stream_has_no_read_complete(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"hello");
    assert!(bench.wait(PATIENCE).ready > 0);
    let read = bench.next();
    assert!(matches!(&read, Some(IoEvent::Read(of, _)) if *of == token), "{read:?}");
    bench.detach(token);
    let left = bench.round();
    assert!(left.is_empty(), "{left:?}");
    bench.assert_quiet();
}

/// At most so many reads in a round, of so many bytes each; what is left comes in later rounds.
pub fn l05_a_plan_bounds_a_round(fixture: &dyn Fixture) {
    const SENT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxy";
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(ReadPlan { max_reads: 3, size: 4 }));
    remote.send(SENT);
    let seen = bench.until("bytes", |seen| bytes_of(seen, token).len() >= SENT.len());
    assert_eq!(bytes_of(&seen, token), SENT);
    let rounds = seen.iter().filter(|event| matches!(event, IoEvent::ReadComplete(_))).count();
    assert!(rounds >= 3, "35 bytes in {rounds} rounds of 12 at most");
    bench.assert_quiet();
}

/// A peer that sends as fast as it is read cannot keep a round from ending, nor others from being
/// read.
pub fn l05_a_flooding_peer_cannot_keep_a_round_going(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = Bench::open(fixture);
    let (flooded, mut flood) = bench.reading_stream();
    let (other, mut remote) = bench.reading_stream();
    remote.send(b"me too");
    flood.send(&[b'x'; 4096]);
    let mut read = Vec::new();
    for _ in 0..3 {
        assert!(bench.wait(PATIENCE).ready > 0);
        let mut of_flood = 0;
        while let Some(event) = bench.next() {
            of_flood += usize::from(event.token() == flooded);
            assert!(of_flood <= 17, "16 reads and their end are a round");
            read.extend(bytes_of(&[event], other));
            flood.send(&[b'x'; 4096]);
        }
    }
    assert_eq!(read, b"me too");
}

/// Turning reads off in the middle of a round stops them there; nothing is lost.
pub fn l05_reads_that_are_turned_off_stop_in_the_middle_of_a_round(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    let plan = Some(ReadPlan { max_reads: 16, size: 1 });
    bench.set_read(token, plan);
    remote.send(b"abc");
    assert!(bench.wait(PATIENCE).ready > 0);
    let first = bench.next();
    assert!(matches!(&first, Some(IoEvent::Read(_, bytes)) if bytes == "a"), "{first:?}");
    bench.set_read(token, None);
    let left = bench.round();
    assert!(matches!(left[..], [IoEvent::ReadComplete(_)]), "{left:?}");
    bench.assert_quiet();
    bench.set_read(token, plan);
    assert_eq!(bench.read(token, 2), b"bc");
}

/// The end comes after everything that was sent, once.
pub fn l05_eof_comes_once_and_last(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(ReadPlan { max_reads: 2, size: 2 }));
    remote.send(b"goodbye");
    remote.finish();
    let seen = bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
    assert_eq!(bytes_of(&seen, token), b"goodbye");
    assert!(matches!(seen[..], [.., IoEvent::ReadComplete(_), IoEvent::Eof(_)]), "{seen:?}");
    bench.assert_quiet();
    bench.set_read(token, None);
    bench.set_read(token, Some(ReadPlan::default()));
    bench.assert_quiet();
}

/// Reads that are turned off by each `ReadComplete`, and on again after the round, come to the end.
pub fn l05_whoever_asks_for_one_round_after_the_other_learns_of_the_end(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"bye");
    remote.finish();
    let mut seen = Vec::new();
    for _ in 0..4 {
        bench.set_read(token, Some(ReadPlan::default()));
        bench.wait(PATIENCE);
        while let Some(event) = bench.next() {
            if matches!(event, IoEvent::ReadComplete(_)) {
                bench.set_read(token, None);
            }
            seen.push(event);
        }
        if seen.iter().any(|event| is_eof(event, token)) {
            assert_eq!(bytes_of(&seen, token), b"bye");
            return bench.assert_quiet();
        }
    }
    panic!("the end was not told: {seen:?}");
}

/// A stream whose peer has finished can still be written to.
pub fn l05_a_stream_that_has_ended_is_still_written_to(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.finish();
    bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
    bench.write(token, b"still here");
    assert_eq!(remote.receive(10), b"still here");
}

/// A reset breaks the stream: `Failed`, and nothing after it.
pub fn l05_a_reset_fails_a_stream_once(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    let (other, mut alive) = bench.reading_stream();
    remote.reset();
    let seen = bench.until("Failed", |seen| seen.iter().any(|event| is_failed(event, token)));
    assert!(!seen.iter().any(|event| is_eof(event, token)), "a reset is no end: {seen:?}");
    bench.assert_quiet();
    alive.send(b"x");
    assert_eq!(bench.read(other, 1), b"x");
    bench.detach(token);
}
