//! Datagrams (L05, L07, L17).

use std::io::ErrorKind;

use waterwheel_channel::driver::{IoEvent, OutQueue, ReadPlan, Role, Submit};
use waterwheel_channel::{Datagram, Token};

use super::bench::{DriverBench, SHORT_WAIT, TIMEOUT, wrote};
use super::{Fixture, RemoteDatagrams};

/// More datagrams than there is room for.
const TOO_MANY: usize = 1000;

fn attach(bench: &mut DriverBench<'_>) -> (Token, Box<dyn RemoteDatagrams>) {
    let (io, remote) = bench.fixture.datagrams();
    (bench.attach(io, Role::Datagram), remote)
}

/// Returns the datagrams that a token has received.
fn received(events: &[IoEvent], of: Token) -> Vec<Datagram> {
    let datagrams = events.iter().filter_map(|event| match event {
        IoEvent::Datagram(token, datagram) if *token == of => Some((**datagram).clone()),
        _ => None,
    });
    datagrams.collect()
}

fn texts(datagrams: &[Datagram]) -> Vec<&[u8]> {
    datagrams.iter().map(|datagram| &datagram.bytes()[..]).collect()
}

/// Turns until `n` datagrams were received, and returns them.
fn receive(bench: &mut DriverBench<'_>, token: Token, n: usize) -> Vec<Datagram> {
    let seen = bench.until("datagrams", |seen| received(seen, token).len() >= n);
    received(&seen, token)
}

/// Sends one datagram; returns `false` if it is pending because there is no room.
fn send(bench: &mut DriverBench<'_>, token: Token, text: &[u8]) -> bool {
    let datagram = Datagram::new(text.to_vec());
    let sent = bench.driver.send_datagrams(token, &mut std::iter::once(&datagram));
    match sent.unwrap_or_else(|error| panic!("send_datagrams: {error}")) {
        Submit::Done(n) => {
            assert_eq!(n, 1, "one was given");
            true
        }
        Submit::Full => {
            bench.checker.entry(token).writing = Some(0);
            false
        }
        Submit::Pending => panic!("a send of datagrams is never Pending"),
    }
}

/// Checks that each datagram, even an empty one, is one event, and that no event follows the `ReadComplete`.
pub fn l05_datagrams_are_read_whole_and_one_read_complete_ends_their_round(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    bench.set_read(token, Some(ReadPlan::default()));
    for texts in [&[&b"one"[..]][..], &[b"two", b"", b"three"]] {
        texts.iter().for_each(|text| remote.send(text));
        let events = bench.turn(TIMEOUT);
        assert!(matches!(events.last(), Some(IoEvent::ReadComplete(_))), "{events:?}");
        assert_eq!(self::texts(&received(&events, token)), texts);
        bench.assert_quiet();
    }
}

/// Checks that a datagram is truncated to the plan's size and reports its whole length.
pub fn l05_a_datagram_is_cut_off_at_the_plans_size(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    bench.set_read(token, Some(ReadPlan { max_reads: 16, size: 4 }));
    for text in [&b"four"[..], b"fives", b"one"] {
        remote.send(text);
    }
    let all = receive(&mut bench, token, 3);
    assert_eq!(texts(&all), [&b"four"[..], b"five", b"one"]);
    assert_eq!(all.iter().map(Datagram::whole_len).collect::<Vec<_>>(), [4, 5, 3]);
}

/// Checks that datagrams beyond the plan are read in the next round.
pub fn l05_a_plan_bounds_a_round_of_datagrams(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    (0..8).for_each(|n| remote.send(&[n]));
    bench.set_read(token, Some(ReadPlan { max_reads: 3, size: 100 }));
    for expected in [&[0, 1, 2][..], &[3, 4, 5], &[6, 7]] {
        let round = received(&bench.turn(TIMEOUT), token);
        assert_eq!(texts(&round).concat(), expected);
    }
    bench.assert_quiet();
}

/// Checks that turning reads off within a round holds datagrams back until reads are on again.
pub fn l05_datagrams_wait_while_reads_are_off(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    (0..5).for_each(|n| remote.send(&[n]));
    for n in 0..5 {
        bench.set_read(token, Some(ReadPlan::default()));
        assert!(bench.wait(TIMEOUT).ready > 0);
        let event = bench.next().expect("a datagram");
        assert_eq!(texts(&received(&[event], token)), [&[n]]);
        bench.set_read(token, None);
        assert!(matches!(bench.round()[..], [IoEvent::ReadComplete(_)]));
        bench.assert_quiet();
    }
}

/// Checks the order of datagrams sent one by one and in batches. A driver takes at least one datagram of a batch.
pub fn l05_datagrams_are_sent_in_order(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    assert!(send(&mut bench, token, b"first"));
    let batch: Vec<_> = (0..5).map(|n| Datagram::new(vec![n])).collect();
    let mut left = &batch[..];
    while !left.is_empty() {
        let sent = bench.driver.send_datagrams(token, &mut left.iter());
        match sent.unwrap_or_else(|error| panic!("send_datagrams: {error}")) {
            Submit::Done(n @ 1..) => left = &left[n..],
            other => panic!("{other:?}, and there is room"),
        }
    }
    assert_eq!(remote.receive(), b"first");
    (0..5).for_each(|n| assert_eq!(remote.receive(), [n]));
    bench.assert_quiet();
}

/// Checks that a send without room is pending without spinning, and that no datagram is lost.
pub fn l05_datagrams_wait_until_there_is_room(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    let sent = (0..TOO_MANY).take_while(|n| send(&mut bench, token, &n.to_be_bytes())).count();
    assert!(sent > 0 && sent < TOO_MANY, "{sent} were sent that nobody receives");
    bench.assert_quiet();
    for n in 0..sent {
        assert_eq!(remote.receive(), n.to_be_bytes());
    }
    let seen = bench.until("Wrote", |seen| wrote(seen, token).is_some());
    assert_eq!(wrote(&seen, token), Some(0), "it is to be repeated");
    assert!(send(&mut bench, token, b"once more"));
    assert_eq!(remote.receive(), b"once more");
}

/// Checks that a socket released within a round continues with the next datagram when it is attached again.
pub fn l07_a_socket_that_is_released_loses_no_datagram(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (mut token, mut remote) = attach(&mut bench);
    (0..4).for_each(|n| remote.send(&[n]));
    for n in 0..4 {
        bench.set_read(token, Some(ReadPlan::default()));
        assert!(bench.wait(TIMEOUT).ready > 0);
        let event = bench.next().expect("a datagram");
        assert_eq!(texts(&received(&[event], token)), [&[n]]);
        let io = bench.driver.release(token).expect("nothing is under way");
        bench.checker.remove(token);
        assert!(bench.round().is_empty(), "it is gone");
        token = bench.attach(io, Role::Datagram);
    }
    bench.turn(SHORT_WAIT);
    remote.send(b"last");
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(texts(&receive(&mut bench, token, 1)), [b"last"]);
}

/// Checks that stream calls on a datagram socket, and the reverse, are refused without effect.
pub fn l07_datagrams_and_streams_are_not_mixed_up(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    let mut queue = OutQueue::new();
    queue.push("x".into());
    assert!(bench.driver.write(token, &queue).is_err(), "a socket for datagrams");
    bench.assert_quiet();
    assert!(send(&mut bench, token, b"y"));
    assert_eq!(remote.receive(), b"y");
    bench.detach(token);

    let (stream, _remote) = bench.stream();
    let datagram = Datagram::new("x");
    let sent = bench.driver.send_datagrams(stream, &mut std::iter::once(&datagram));
    assert_eq!(sent.expect_err("a stream").kind(), ErrorKind::InvalidInput);
    bench.assert_quiet();
}

/// Checks that an unread datagram does not make the driver spin while reads are off.
pub fn l17_a_datagram_that_nobody_reads_does_not_spin(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    remote.send(b"one");
    bench.assert_settles();
    bench.set_read(token, Some(ReadPlan::default()));
    assert_eq!(texts(&receive(&mut bench, token, 1)), [b"one"]);
    bench.set_read(token, None);
    remote.send(b"two");
    bench.assert_settles();
}

/// Checks that a round ends even if a send has consumed the socket error that the wait had reported.
pub fn l05_a_send_that_takes_the_pending_error_does_not_prolong_the_round(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    bench.set_read(token, Some(ReadPlan::default()));
    assert!(send(&mut bench, token, b"lost"));
    remote.close();
    bench.wait(SHORT_WAIT);
    try_to_send(&mut bench, token);
    let mut errors = failures(&bench.round());
    errors += (0..4).map(|_| failures(&bench.turn(SHORT_WAIT))).sum::<usize>();
    assert!(errors > 0, "the closed peer is reported");
    bench.assert_quiet();
}

/// Checks that a round ends when the peer closes while a write waits for room, and the room is used in that round.
pub fn l05_reporting_an_error_or_write_room_adds_no_second_round(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = attach(&mut bench);
    bench.set_read(token, Some(ReadPlan::default()));
    let sent = (0..TOO_MANY).take_while(|n| send(&mut bench, token, &n.to_be_bytes())).count();
    assert!(sent < TOO_MANY, "{sent} were sent that nobody receives");
    remote.close();
    for _ in 0..4 {
        bench.wait(SHORT_WAIT);
        let mut count = 0;
        while let Some(event) = bench.next() {
            count += 1;
            assert!(count < 10, "the round does not end: {event:?}");
            if let IoEvent::Wrote(..) = event {
                try_to_send(&mut bench, token);
            }
        }
    }
    bench.assert_quiet();
}

/// Sends a datagram and ignores the outcome.
fn try_to_send(bench: &mut DriverBench<'_>, token: Token) {
    let datagram = Datagram::new("anybody?");
    if let Ok(Submit::Full) = bench.driver.send_datagrams(token, &mut std::iter::once(&datagram)) {
        bench.checker.entry(token).writing = Some(0);
    }
}

fn failures(events: &[IoEvent]) -> usize {
    events.iter().filter(|event| matches!(event, IoEvent::ReceiveFailed(..))).count()
}
