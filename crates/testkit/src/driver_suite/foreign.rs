//! Foreign descriptors (L08).

use waterwheel_channel::driver::{Interest, IoEvent, Readiness};

use super::Fixture;
use super::bench::{DriverBench, SHORT_WAITS, TIMEOUT};

/// Checks that readiness is reported in every round until it ends.
pub fn l08_readiness_is_reported_in_every_round_while_it_lasts(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    bench.assert_quiet();
    for _ in 0..2 {
        source.make_readable();
        for _ in 0..SHORT_WAITS {
            let events = bench.turn(TIMEOUT);
            let [IoEvent::Foreign(of, ready)] = events[..] else { panic!("{events:?}") };
            assert!(of == token && ready.contains(Readiness::READABLE), "{events:?}");
        }
        source.drain();
        bench.assert_quiet();
    }
}

/// Checks that the interest selects the reported readiness, and can be changed.
pub fn l08_the_interest_can_be_changed(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    bench.assert_quiet();
    let told = |bench: &mut DriverBench<'_>, interest| {
        bench.checker.change_interest(token, interest);
        bench.driver.set_interest(token, interest).expect("set_interest");
        let events = bench.turn(TIMEOUT);
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

/// Checks that an empty interest is refused, and that the registration keeps its interest.
pub fn l08_an_empty_interest_is_an_error(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    assert!(bench.driver.set_interest(token, Interest::NONE).is_err());
    source.make_readable();
    let events = bench.turn(TIMEOUT);
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

/// Checks that a hang-up is reported for every interest.
pub fn l08_a_hang_up_is_reported_for_every_interest(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE);
    bench.assert_quiet();
    source.hang_up();
    let events = bench.turn(TIMEOUT);
    let [IoEvent::Foreign(of, ready)] = events[..] else { panic!("{events:?}") };
    assert!(of == token && ready.contains(Readiness::HANG_UP), "{events:?}");
    assert!(ready.is_readable());
    bench.detach(token);
    bench.assert_quiet();
}

/// Checks that a detached descriptor has no events although it is ready.
pub fn l08_a_detached_descriptor_has_no_events(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (io, mut source) = fixture.foreign();
    let token = bench.register(io, Interest::READABLE | Interest::WRITABLE);
    source.make_readable();
    assert!(!bench.turn(TIMEOUT).is_empty());
    bench.detach(token);
    bench.assert_quiet();
    assert!(bench.driver.set_interest(token, Interest::READABLE).is_err());
}

/// Checks that stream calls on a foreign descriptor, and the reverse, are refused.
pub fn l08_foreign_descriptors_and_streams_are_not_mixed_up(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
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
