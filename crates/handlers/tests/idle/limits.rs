//! What can be asked for.

use std::time::Duration;

use waterwheel_handlers::{IdleHandler, IdleKind, InvalidIdle};

use crate::bench::{MS, bench, idle};

#[test]
fn c14_a_limit_of_zero_is_an_error_that_names_it() {
    for (builder, kind) in [
        (idle().reader(Duration::ZERO), IdleKind::Reader),
        (idle().reader(MS).writer(Duration::ZERO), IdleKind::Writer),
        (idle().all(Duration::ZERO).reader(MS), IdleKind::All),
    ] {
        assert_eq!(builder.build().unwrap_err(), InvalidIdle::Zero { kind });
    }
    let error = idle().writer(Duration::ZERO).build().unwrap_err();
    assert_eq!(error.to_string(), "the idle limit `writer` is zero; leave it out to have none");
}

#[test]
fn c14_to_watch_nothing_is_an_error() {
    assert_eq!(idle().build().unwrap_err(), InvalidIdle::NothingWatched);
    let error = idle().reader(MS).close_on(IdleKind::All).build().unwrap_err();
    assert_eq!(error, InvalidIdle::ClosesUnwatched { kind: IdleKind::All });
    assert_eq!(error.to_string(), "to be closed on `all`, which has no idle limit");
}

#[test]
fn c14_a_limit_may_be_longer_than_time_itself() {
    let mut bench = bench(idle().reader(Duration::MAX).writer(MS * 10));
    bench.advance(MS * 10);
    assert_eq!(bench.told(), [(10, IdleKind::Writer, true)]);
    bench.read();
    bench.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    assert!(bench.told().iter().all(|(_, kind, _)| *kind == IdleKind::Writer));
}

#[test]
fn c14_limits_are_shown() {
    let handler: IdleHandler = idle().reader(MS).all(MS * 2).build().unwrap();
    assert_eq!(
        format!("{handler:?}"),
        "IdleHandler { reader: Some(1ms), writer: None, all: Some(2ms), .. }"
    );
}
