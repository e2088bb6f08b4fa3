//! Attaching and detaching (L07).

use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_channel::Token;
use waterwheel_channel::driver::{Detach, Interest, Io, IoEvent, OutQueue, ReadPlan, Role};

use super::bench::{DriverBench, TIMEOUT, bytes_of, is_detached};
use super::event_checker::RegistrationKind;
use super::{Fixture, ForeignTrigger, RemoteStream, supports_sockets};

/// Checks that many readable streams that are detached at the first event have no events.
pub fn l07_streams_detached_at_the_first_event_have_no_events(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, fixture.crowd_size()) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    let mut crowd: Vec<(Token, Box<dyn RemoteStream>)> =
        (0..fixture.crowd_size()).map(|_| bench.reading_stream()).collect();
    crowd.iter_mut().for_each(|(_, remote)| assert_eq!(remote.send(b"x"), 1));
    assert!(bench.wait(TIMEOUT).ready > 0);
    let first = bench.next().expect("one registration has an event").token();
    detach_all_but(&mut bench, first, crowd.iter().map(|(token, _)| *token));
    crowd.iter_mut().filter(|(token, _)| *token != first).for_each(|(_, it)| it.wait_ended());
}

/// Checks that many ready foreign descriptors that are detached at the first event have no events.
pub fn l07_foreign_descriptors_detached_at_the_first_event_have_no_events(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let mut crowd: Vec<(Token, Box<dyn ForeignTrigger>)> = Vec::new();
    for _ in 0..fixture.crowd_size() {
        let (io, source) = fixture.foreign();
        crowd.push((bench.register(io, Interest::READABLE), source));
    }
    crowd.iter_mut().for_each(|(_, source)| source.make_readable());
    assert!(bench.wait(TIMEOUT).ready > 0);
    let first = bench.next().expect("one registration has an event").token();
    detach_all_but(&mut bench, first, crowd.iter().map(|(token, _)| *token));
}

/// Detaches all tokens but one, finishes the round, and expects one `Detached` for each pending detach.
fn detach_all_but(bench: &mut DriverBench<'_>, one: Token, all: impl Iterator<Item = Token>) {
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
    assert_eq!(strangers.count(), 0, "a detached registration had an event");
}

/// Checks that pending events of a detached stream are not delivered, also not to a registration that gets the same
/// index or descriptor in the same round.
pub fn l07_a_registration_does_not_inherit_events_of_its_predecessor(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 2) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
    for _ in 0..20 {
        let (a, mut of_a) = bench.reading_stream();
        let (b, mut of_b) = bench.reading_stream();
        of_a.send(b"x");
        of_b.send(b"x");
        assert!(bench.wait(TIMEOUT).ready > 0);
        let speaking = bench.next().expect("one registration has an event").token();
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

/// Checks that a detach is done at once or followed by one `Detached`, and that the descriptor is then closed and the
/// token unknown.
pub fn l07_a_detach_is_done_at_once_or_followed_by_one_detached(fixture: &dyn Fixture) {
    if !supports_sockets(fixture, 3) {
        return;
    }
    let mut bench = DriverBench::open(fixture);
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

/// Checks that a detach ends a pending write, with no event but `Detached`.
pub fn l07_a_detach_ends_a_pending_write(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    let mut queue = OutQueue::new();
    bench.write_until_full(token, &mut queue);
    bench.detach(token);
    remote.drain();
    bench.assert_quiet();
}

/// Checks that calls with tokens that are not attached are errors or do nothing.
pub fn l07_a_call_with_an_unknown_token_does_nothing(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
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
    assert_eq!(bench.read(attached, 1), b"x", "other registrations still work");
}

/// Checks that an unknown kind of socket is returned in the error, and that the token stays free.
pub fn l07_a_failed_attach_returns_the_socket_and_leaves_the_token_free(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let target: std::net::SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let token = bench.checker.add(RegistrationKind::Stream);
    for role in [Role::Stream, Role::Listener, Role::Connecting(target.into())] {
        let strange = Arc::new(());
        let refused = bench.driver.attach(token, Io::new(strange.clone()), role.clone());
        assert!(refused.is_err(), "{role:?}: the kind is unknown");
        assert_eq!(Arc::strong_count(&strange), 2, "{role:?}: the driver dropped it");
        drop(refused);
        assert_eq!(Arc::strong_count(&strange), 1, "{role:?}: the driver kept it");
    }
    let strange = Arc::new(());
    let io = Io::new(strange.clone());
    let refused = bench.driver.register_foreign(token, io, Interest::READABLE);
    assert!(refused.is_err(), "foreign: the kind is unknown");
    assert_eq!(Arc::strong_count(&strange), 2, "foreign: the driver dropped it");
    drop(refused);
    assert_eq!(Arc::strong_count(&strange), 1, "foreign: the driver kept it");
    bench.assert_quiet();

    let (io, mut remote) = fixture.pair();
    bench.driver.attach(token, io, Role::Stream).expect("the token is free");
    bench.set_read(token, Some(ReadPlan::default()));
    remote.send(b"x");
    assert_eq!(bench.read(token, 1), b"x");
}

/// Checks that successive streams with the same index are distinguished by their tokens.
pub fn l07_tokens_with_the_same_index_are_distinguished(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
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
