//! Foreign descriptors (L08).

use waterwheel_channel::driver::{Interest, IoEvent, Readiness};

use super::Fixture;
use super::bench::{Bench, GLANCES, PATIENCE};

/// It is told in every round, until it is ready no longer.
pub fn l08_readiness_is_told_as_long_as_it_lasts(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    bench.assert_quiet();
    for _ in 0..2 {
        source.make_readable();
        for _ in 0..GLANCES {
            let events = bench.turn(PATIENCE);
            let [IoEvent::Foreign(of, ready)] = events[..] else { panic!("{events:?}") };
            assert!(of == token && ready.contains(Readiness::READABLE), "{events:?}");
        }
        source.drain();
        bench.assert_quiet();
    }
}

/// The interest decides what is told, and can be changed.
pub fn l08_the_interest_can_be_changed(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    bench.assert_quiet();
    let told = |bench: &mut Bench<'_>, interest| {
        bench.checker.change_interest(token, interest);
        bench.driver.set_interest(token, interest).expect("set_interest");
        let events = bench.turn(PATIENCE);
        let [IoEvent::Foreign(_, ready)] = events[..] else { panic!("{interest:?}: {events:?}") };
        ready
    };
    assert_eq!(told(&mut bench, Interest::WRITABLE), Readiness::WRITABLE);
    source.make_readable();
    assert_eq!(told(&mut bench, Interest::WRITABLE), Readiness::WRITABLE);
    let both = told(&mut bench, Interest::READABLE | Interest::WRITABLE);
    assert_eq!(both, Readiness::READABLE | Readiness::WRITABLE);
    assert_eq!(told(&mut bench, Interest::READABLE), Readiness::READABLE);
    source.drain();
    bench.assert_quiet();
}

/// An interest in nothing is refused; a registration keeps the interest it had.
pub fn l08_an_interest_in_nothing_is_an_error(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    assert!(bench.driver.set_interest(token, Interest::NONE).is_err());
    source.make_readable();
    let events = bench.turn(PATIENCE);
    assert!(
        matches!(events[..], [IoEvent::Foreign(..)]),
        "the interest is what it was: {events:?}"
    );
    bench.detach(token);

    let (io, _source) = fixture.foreign();
    let token = bench.register(io, Interest::WRITABLE);
    bench.detach(token);
    let (io, _source) = fixture.foreign();
    assert!(bench.driver.register_foreign(token, io, Interest::NONE).is_err());
    bench.assert_quiet();
}

/// A hang-up is told to everyone.
pub fn l08_a_hang_up_is_told_whatever_the_interest_is(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    bench.assert_quiet();
    source.hang_up();
    let events = bench.turn(PATIENCE);
    let [IoEvent::Foreign(of, ready)] = events[..] else { panic!("{events:?}") };
    assert!(of == token && ready.contains(Readiness::HANG_UP), "{events:?}");
    assert!(ready.is_readable());
    bench.detach(token);
    bench.assert_quiet();
}

/// A detached one says nothing, however ready it is.
pub fn l08_a_detached_descriptor_says_nothing(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE | Interest::WRITABLE);
    source.make_readable();
    assert!(!bench.turn(PATIENCE).is_empty());
    bench.detach(token);
    bench.assert_quiet();
    assert!(bench.driver.set_interest(token, Interest::READABLE).is_err());
}

/// A foreign descriptor is no stream, and a stream is not foreign.
pub fn l08_foreign_descriptors_and_streams_are_not_mixed_up(fixture: &dyn Fixture) {
    let mut bench = Bench::open(fixture);
    let (io, _source) = fixture.foreign();
    let foreign = bench.register(io, Interest::READABLE);
    let (stream, mut remote) = bench.stream();
    let mut queue = waterwheel_channel::driver::OutQueue::new();
    queue.push("x".into());
    assert!(bench.driver.write(foreign, &queue).is_err());
    assert!(bench.driver.shutdown(foreign, std::net::Shutdown::Write).is_err());
    assert!(bench.driver.set_interest(stream, Interest::READABLE).is_err());
    bench.driver.set_read(foreign, Some(Default::default()));
    remote.send(b"x");
    bench.assert_quiet();
}
