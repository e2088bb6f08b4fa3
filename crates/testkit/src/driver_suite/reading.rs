//! Reading (L05).

use waterwheel_channel::driver::{IoEvent, ReadPlan};

use super::bench::{DriverBench, TIMEOUT, bytes_of, is_eof, is_failed};
use super::{Fixture, supports_sockets};

/// Checks that nothing is read before reads are turned on, and everything afterwards.
pub fn l05_reads_are_off_at_first(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"hello");
    bench.assert_quiet();
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(bench.read(token, 5), b"hello");
}

/// Checks that a round of reads ends with one `ReadComplete`, and that no event follows.
pub fn l05_a_round_of_reads_ends_with_one_read_complete(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    for _ in 0..3 {
        remote.send(b"hello");
        let events = bench.turn(TIMEOUT);
        assert!(
            matches!(events[..], [IoEvent::Read(..), IoEvent::ReadComplete(_)]),
            "{token:?}: {events:?}"
        );
        bench.assert_quiet();
    }
}

/// Checks that a `LastRead` ends the round of its token, and that other tokens get their events.
pub fn l05_a_last_read_ends_its_round(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
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

/// Checks that a stream detached within a round gets no `ReadComplete`.
pub fn l07_a_detached_stream_has_no_read_complete(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.send(b"hello");
    assert!(bench.wait(TIMEOUT).ready > 0);
    let read = bench.next();
    assert!(matches!(&read, Some(IoEvent::Read(of, _)) if *of == token), "{read:?}");
    bench.detach(token);
    let left = bench.round();
    assert!(left.is_empty(), "{left:?}");
    bench.assert_quiet();
}

/// Checks that a round has at most `max_reads` reads of at most `size` bytes, and that later rounds read the rest.
pub fn l05_a_plan_bounds_a_round(fixture: &dyn Fixture) {
    const SENT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxy";
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.set_read(token, Some(ReadPlan { max_reads: 3, size: 4 }));
    remote.send(SENT);
    let seen = bench.until("bytes", |seen| bytes_of(seen, token).len() >= SENT.len());
    assert_eq!(bytes_of(&seen, token), SENT);
    let rounds = seen.iter().filter(|event| matches!(event, IoEvent::ReadComplete(_))).count();
    assert!(rounds >= 3, "35 bytes in {rounds} rounds of 12 at most");
    bench.assert_quiet();
}

/// Checks that a peer that sends as fast as it is read can neither prolong a round nor delay other streams.
pub fn l05_a_flooding_peer_cannot_prolong_a_round(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    let (flooded, mut flood) = bench.reading_stream();
    let (other, mut remote) = bench.reading_stream();
    remote.send(b"me too");
    flood.send(&[b'x'; 4096]);
    let mut read = Vec::new();
    for _ in 0..3 {
        assert!(bench.wait(TIMEOUT).ready > 0);
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

/// Checks that turning reads off within a round stops them at once, and that no bytes are lost.
pub fn l05_reads_that_are_turned_off_stop_in_the_middle_of_a_round(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    let plan = Some(ReadPlan { max_reads: 16, size: 1 });
    bench.set_read(token, plan);
    remote.send(b"abc");
    assert!(bench.wait(TIMEOUT).ready > 0);
    let first = bench.next();
    assert!(matches!(&first, Some(IoEvent::Read(_, bytes)) if bytes == "a"), "{first:?}");
    bench.set_read(token, None);
    let left = bench.round();
    assert!(matches!(left[..], [IoEvent::ReadComplete(_)]), "{left:?}");
    bench.assert_quiet();
    bench.set_read(token, plan);
    assert_eq!(bench.read(token, 2), b"bc");
}

/// Checks that `Eof` is delivered once, after all bytes.
pub fn l05_eof_is_delivered_once_and_last(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
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

/// Checks that `Eof` is delivered to a reader that turns reads off at each `ReadComplete` and on after the round.
pub fn l05_eof_is_delivered_although_reads_go_off_after_each_round(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    remote.send(b"bye");
    remote.finish();
    let mut seen = Vec::new();
    for _ in 0..4 {
        bench.set_read(token, Some(ReadPlan::default()));
        bench.wait(TIMEOUT);
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

/// Checks that a stream whose peer has finished can still be written to.
pub fn l05_a_stream_whose_peer_has_finished_can_be_written_to(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    remote.finish();
    bench.until("Eof", |seen| seen.iter().any(|event| is_eof(event, token)));
    bench.write(token, b"still here");
    assert_eq!(remote.receive(10), b"still here");
}

/// Checks that a reset (ECONNRESET) gives one `Failed` event and nothing after it.
pub fn l05_a_reset_fails_a_stream_once(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
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
