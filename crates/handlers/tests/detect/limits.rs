//! The limits of bytes and of time.

use std::time::Duration;

use waterwheel_handlers::{AtLimit, Detection, ProtocolDetector, ProtocolDetectorBuilder};
use waterwheel_testkit::recorder::Log;

use crate::support::{Bench, begins, colours, record, taken_over};

const SECOND: Duration = Duration::from_secs(1);

/// Needs more bytes, however many there are.
fn never_decides(_: &[u8]) -> Detection {
    Detection::NeedMore
}

fn never(log: &Log) -> ProtocolDetectorBuilder {
    ProtocolDetector::builder().protocol("never", never_decides, record(log, "never"))
}

#[test]
fn k13_at_the_limit_of_bytes_a_later_match_or_the_fallback_is_chosen() {
    // In one read, or in several.
    for pieces in [&["redder"][..], &["red", "de", "r"]] {
        let mut bench = Bench::new(|log| {
            never(log).protocol("red", begins("red"), record(log, "red")).max_bytes(6)
        });
        for piece in pieces {
            bench.send(piece);
        }
        assert_eq!(bench.lines()[2], "red on_read redder");
        let mut bench = Bench::new(|log| never(log).otherwise(record(log, "other")).max_bytes(6));
        for piece in pieces {
            assert_eq!(bench.lines(), [""; 0]);
            bench.send(piece);
        }
        assert_eq!(bench.lines()[2], "other on_read redder");
    }
}

#[test]
fn k13_at_the_limit_of_bytes_the_channel_is_closed_if_asked_or_without_a_choice() {
    let error =
        "detection: the protocol is unknown after the limit of 6 bytes, which begin with 'redder'";
    let mut bench = Bench::new(|log| never(log).max_bytes(6));
    bench.send("redde");
    assert!(bench.is_open());
    bench.send("r");
    assert_eq!(bench.error(), error);
    assert!(!bench.is_open());
    let mut bench = Bench::new(|log| {
        let other = never(log).otherwise(record(log, "other"));
        other.max_bytes(6).at_max_bytes(AtLimit::Close)
    });
    bench.send("redder");
    assert_eq!(bench.error(), error);
    assert!(!bench.is_open());
    assert_eq!(bench.lines(), [""; 0]);
}

#[test]
fn k13_probes_see_no_byte_beyond_the_limit() {
    // The choice would otherwise depend on how much was read at once.
    let mut bench = Bench::new(|log| colours(log).otherwise(record(log, "other")).max_bytes(4));
    bench.send("green and more");
    assert_eq!(bench.lines(), taken_over("other", "green and more"));
}

#[test]
fn k13_at_the_limit_of_time_the_channel_is_closed_by_default() {
    let mut bench = Bench::new(|log| colours(log).otherwise(record(log, "other")));
    bench.send("gr");
    bench.channel.advance(SECOND * 10 - Duration::from_nanos(1));
    bench.send("e");
    assert!(bench.is_open());
    bench.channel.advance(Duration::from_nanos(1));
    assert_eq!(bench.error(), "detection: the protocol is unknown after 10s and 3 bytes: 'gre'");
    assert!(!bench.is_open());
    assert_eq!(bench.lines(), [""; 0]);
    assert_eq!(bench.timers(), 0);
}

#[test]
fn k13_at_the_limit_of_time_the_fallback_is_chosen_if_asked() {
    let make = |log: &Log| {
        let other = colours(log).otherwise(record(log, "other"));
        other.timeout(SECOND).at_timeout(AtLimit::Decide)
    };
    // The client of a server that speaks first is silent.
    let mut bench = Bench::new(make);
    bench.channel.advance(SECOND);
    assert_eq!(bench.lines(), ["other on_added", "other on_active"]);
    bench.send("hello");
    assert_eq!(bench.lines(), ["other on_read hello", "other on_read_complete"]);
    // Bytes that came are not lost.
    let mut bench = Bench::new(make);
    bench.send("gre");
    bench.channel.advance(SECOND);
    assert_eq!(bench.lines(), taken_over("other", "gre"));
    bench.send("y");
    assert_eq!(bench.lines(), ["other on_read y", "other on_read_complete"]);
}

#[test]
fn k13_at_the_limit_of_time_a_later_probe_that_matches_is_chosen() {
    let mut bench = Bench::new(|log| {
        let red = never(log).protocol("red", begins("red"), record(log, "red"));
        red.timeout(SECOND).at_timeout(AtLimit::Decide)
    });
    bench.send("red");
    bench.channel.advance(SECOND);
    assert_eq!(bench.lines(), taken_over("red", "red"));
    assert!(bench.is_open());
}

#[test]
fn k13_the_timer_is_gone_after_the_choice() {
    let mut bench = Bench::new(colours);
    assert_eq!(bench.timers(), 1);
    bench.send("red");
    assert_eq!(bench.timers(), 0);
    let mut bench = Bench::new(|log| colours(log).timeout(Duration::MAX));
    bench.channel.advance(SECOND * 1000);
    bench.send("red");
    assert_eq!(bench.lines(), taken_over("red", "red"));
    let mut bench = Bench::new(|log| colours(log).no_timeout());
    bench.channel.advance(SECOND * 1000);
    bench.send("red");
    assert_eq!(bench.lines(), taken_over("red", "red"));
}

#[test]
fn k13_a_silent_connection_is_closed_with_an_error_that_says_so() {
    let mut bench = Bench::new(|log| colours(log).timeout(SECOND));
    bench.channel.advance(SECOND);
    assert_eq!(bench.error(), "detection: the protocol is unknown after 1s and 0 bytes: ''");
    assert!(!bench.is_open());
}
