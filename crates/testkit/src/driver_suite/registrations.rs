//! Attaching and detaching (L07).

use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Detach, Interest, Io, IoEvent, OutQueue, ReadPlan, Role};

use super::bench::{Bench, PATIENCE, bytes_of, is_detached};
use super::event_checker::RegistrationKind;
use super::{Fixture, ForeignTrigger, RemoteStream, supports_sockets};

/// A crowd of readable streams; the first that speaks detaches the rest: none of them speaks.
pub fn l07_streams_detached_by_the_first_event_say_nothing(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, fixture.crowd_size()) {
        return;
    }
    let mut bench = Bench::open(fixture);
    let mut crowd: Vec<(Token, Box<dyn RemoteStream>)> =
        (0..fixture.crowd_size()).map(|_| bench.reading_stream()).collect();
    crowd.iter_mut().for_each(|(_, remote)| assert_eq!(remote.send(b"x"), 1));
    assert!(bench.wait(PATIENCE).ready > 0);
    let first = bench.next().expect("somebody speaks").token();
    detach_all_but(&mut bench, first, crowd.iter().map(|(token, _)| *token));
    crowd.iter_mut().filter(|(token, _)| *token != first).for_each(|(_, it)| it.wait_ended());
}

/// The same with foreign descriptors.
pub fn l07_foreign_descriptors_detached_by_the_first_event_say_nothing(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let mut crowd: Vec<(Token, Box<dyn ForeignTrigger>)> = Vec::new();
    for _ in 0..fixture.crowd_size() {
        let (io, source) = fixture.foreign();
        crowd.push((bench.register(io, Interest::READABLE), source));
    }
    crowd.iter_mut().for_each(|(_, source)| source.make_readable());
    assert!(bench.wait(PATIENCE).ready > 0);
    let first = bench.next().expect("somebody speaks").token();
    detach_all_but(&mut bench, first, crowd.iter().map(|(token, _)| *token));
}

/// Detaches, lets the round go on, and expects one `Detached` of each that is pending.
fn detach_all_but(bench: &mut Bench<'_>, one: Token, all: impl Iterator<Item = Token>) {
    let others = all.filter(|token| *token != one);
    let pending: Vec<Token> =
        others.filter(|token| bench.begin_detach(*token) == Detach::Pending).collect();
    let mut seen = bench.round();
    let all_gone = |seen: &[IoEvent]| {
        seen.iter().filter(|event| matches!(event, IoEvent::Detached(_))).count() >= pending.len()
    };
    if !all_gone(&seen) {
        let before = seen.len();
        seen.extend(bench.until("Detached", |later| {
            all_gone(later) || later.len() + before > 2 * pending.len()
        }));
    }
    let strangers = seen.iter().filter(|event| event.token() != one);
    let strangers = strangers.filter(|event| !matches!(event, IoEvent::Detached(_)));
    assert_eq!(strangers.count(), 0, "a detached registration spoke");
}

/// What was waiting to be said is not said after a detach, nor by whoever gets the same index, or the
/// same descriptor, in the same round.
pub fn l07_a_successor_does_not_inherit_events(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = Bench::open(fixture);
    for _ in 0..20 {
        let (a, mut of_a) = bench.reading_stream();
        let (b, mut of_b) = bench.reading_stream();
        of_a.send(b"x");
        of_b.send(b"x");
        assert!(bench.wait(PATIENCE).ready > 0);
        let speaking = bench.next().expect("somebody speaks").token();
        let silent = if speaking == a { b } else { a };
        let pending = bench.begin_detach(silent) == Detach::Pending;
        let (successor, mut remote) = bench.reading_stream();
        let later = bench.round();
        assert!(later.iter().all(|event| event.token() != successor), "inherited: {later:?}");
        if pending && !later.iter().any(|event| is_detached(event, silent)) {
            bench.until("Detached", |seen| seen.iter().any(|event| is_detached(event, silent)));
        }
        remote.send(b"mine");
        assert_eq!(bench.read(successor, 4), b"mine");
        bench.detach(speaking);
        bench.detach(successor);
    }
}

/// A detach is done, or one `Detached` follows; then the descriptor is closed and the token unknown.
pub fn l07_a_detach_is_done_or_one_detached_follows(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 3) {
        return;
    }
    let mut bench = Bench::open(fixture);
    let (reading, mut of_reading) = bench.reading_stream();
    let (idle, mut of_idle) = bench.stream();
    let (io, _door) = fixture.listener();
    let listener = bench.attach(io, Role::Listener);
    bench.set_read(listener, Some(ReadPlan::default()));
    let (io, _source) = fixture.foreign();
    let foreign = bench.register(io, Interest::READABLE);
    of_reading.send(b"unread");
    for token in [reading, idle, listener, foreign] {
        bench.detach(token);
        assert_eq!(bench.driver.detach(token), Detach::Done, "it is gone");
    }
    bench.assert_quiet();
    of_reading.wait_ended();
    of_idle.wait_ended();
}

/// A detach while a write is pending ends it: `Detached` is all that is said.
pub fn l07_a_pending_write_dies_with_its_registration(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (token, mut remote) = bench.stream();
    let mut queue = OutQueue::new();
    bench.write_until_full(token, &mut queue);
    bench.detach(token);
    remote.drain();
    bench.assert_quiet();
}

/// Calls with tokens that are not attached are errors or do nothing.
pub fn l07_a_call_with_an_unknown_token_does_nothing(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (gone, _remote) = bench.stream();
    bench.detach(gone);
    let (attached, mut remote) = bench.reading_stream();
    let far = Token::from_bits(u64::from(u32::MAX) << 32 | 70_000);
    let mut queue = OutQueue::new();
    queue.push("x".into());
    for unknown in [gone, far] {
        assert!(bench.driver.write(unknown, &queue).is_err());
        assert!(bench.driver.shutdown(unknown, Shutdown::Both).is_err());
        assert!(bench.driver.set_interest(unknown, Interest::READABLE).is_err());
        bench.driver.set_read(unknown, Some(ReadPlan::default()));
        assert_eq!(bench.driver.detach(unknown), Detach::Done);
    }
    bench.assert_quiet();
    remote.send(b"x");
    assert_eq!(bench.read(attached, 1), b"x", "the others are well");
}

/// What a driver does not know is handed back in the error, and the token stays free.
pub fn l07_a_failed_attach_leaves_nothing(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let target: std::net::SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let token = bench.checker.enter(RegistrationKind::Stream);
    for role in [Role::Stream, Role::Listener, Role::Connecting(target.into())] {
        let strange = Arc::new(());
        let refused = bench.driver.attach(token, Io::new(strange.clone()), role.clone());
        assert!(refused.is_err(), "{role:?}: nobody knows what that is");
        assert_eq!(Arc::strong_count(&strange), 2, "{role:?}: it was dropped by the driver");
        drop(refused);
        assert_eq!(Arc::strong_count(&strange), 1, "{role:?}: it was kept");
    }
    let strange = Arc::new(());
    let io = Io::new(strange.clone());
    let refused = bench.driver.register_foreign(token, io, Interest::READABLE);
    assert!(refused.is_err(), "foreign: nobody knows what that is");
    assert_eq!(Arc::strong_count(&strange), 2, "foreign: it was dropped by the driver");
    drop(refused);
    assert_eq!(Arc::strong_count(&strange), 1, "foreign: it was kept");
    bench.assert_quiet();

    let (io, mut remote) = fixture.pair();
    bench.driver.attach(token, io, Role::Stream).expect("the token is free");
    bench.set_read(token, Some(ReadPlan::default()));
    remote.send(b"x");
    assert_eq!(bench.read(token, 1), b"x");
}

/// Streams that come and go under the same index are told apart.
pub fn l07_tokens_of_one_index_are_told_apart(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let mut before: Option<Token> = None;
    for n in 0..50_u8 {
        let (token, mut remote) = bench.reading_stream();
        if let Some(before) = before {
            assert_ne!(token, before);
            assert_eq!(token.index(), before.index(), "the suite uses indices again");
            bench.driver.set_read(before, None);
            assert_eq!(bench.driver.detach(before), Detach::Done);
        }
        remote.send(&[n]);
        let seen = bench.until("bytes", |seen| !bytes_of(seen, token).is_empty());
        assert_eq!(bytes_of(&seen, token), [n]);
        bench.detach(token);
        before = Some(token);
    }
}
