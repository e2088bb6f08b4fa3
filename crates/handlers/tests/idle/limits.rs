//! Validation of the builder.

use std::time::Duration;

use waterwheel_handlers::{IdleHandler, IdleKind, InvalidIdle};

use crate::support::{MS, bench, idle};

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
    assert_eq!(error.to_string(), "the idle limit `writer` is zero; omit it for no limit");
}

#[test]
fn c14_a_handler_without_limits_is_an_error() {
    assert_eq!(idle().build().unwrap_err(), InvalidIdle::NothingWatched);
    let error = idle().reader(MS).close_on(IdleKind::All).build().unwrap_err();
    assert_eq!(error, InvalidIdle::ClosesUnwatched { kind: IdleKind::All });
    assert_eq!(error.to_string(), "`close_on(all)` needs an idle limit of that kind");
}

#[test]
fn c14_a_huge_limit_saturates() {
    let mut bench = bench(idle().reader(Duration::MAX).writer(MS * 10));
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(10, IdleKind::Writer, true)]);
    bench.read();
    bench.advance(Duration::from_secs(100 * 365 * 24 * 3600));
    assert!(bench.events().iter().all(|(_, kind, _)| *kind == IdleKind::Writer));
}

#[test]
fn c14_debug_shows_the_limits() {
    let handler: IdleHandler = idle().reader(MS).all(MS * 2).build().unwrap();
    assert_eq!(
        format!("{handler:?}"),
        "IdleHandler { reader: Some(1ms), writer: None, all: Some(2ms), .. }"
    );
}
