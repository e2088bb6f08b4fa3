//! The end of a connection before, at and after the choice.

use bytes::Bytes;
use waterwheel_channel::ChannelOptions;
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{Bench, colours, inbound, record, taken_over};

fn half_closing() -> ChannelOptions {
    ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() }
}

/// The end of the input as a recorder writes it.
const END: &str = "waterwheel_channel::channel::lifecycle::half_closure::HalfClosed";

#[test]
fn k13_the_end_of_the_stream_decides_and_no_byte_is_lost() {
    let mut bench = Bench::new(|log| colours(log).otherwise(record(log, "other")));
    bench.send("gre");
    bench.channel.finish_inbound();
    let mut expected = taken_over("other", "gre");
    expected.extend(["other on_inactive", "other on_removed", "other dropped"].map(String::from));
    assert_eq!(bench.lines(), expected);
}

#[test]
fn k13_with_half_closure_the_bytes_come_before_the_end() {
    let mut bench =
        Bench::with_options(half_closing(), |log| colours(log).otherwise(record(log, "other")));
    bench.send("gre");
    bench.channel.finish_inbound();
    let mut expected = taken_over("other", "gre");
    expected.push(format!("other on_user_event {END}"));
    assert_eq!(bench.lines(), expected);
    assert!(bench.is_open());
}

#[test]
fn k13_a_half_close_right_after_the_first_bytes_reaches_the_chosen_handlers() {
    let mut bench = Bench::with_options(half_closing(), colours);
    // One round: the bytes and the end.
    bench.channel.set_room(0);
    bench.send("green");
    bench.channel.finish_inbound();
    let mut expected = taken_over("green", "green");
    expected.push(format!("green on_user_event {END}"));
    assert_eq!(bench.lines(), expected);
    assert!(bench.is_open());
}

#[test]
fn k13_an_undecided_end_without_a_fallback_is_an_error() {
    for options in [ChannelOptions::default(), half_closing()] {
        let mut bench = Bench::with_options(options, colours);
        bench.send("gre");
        bench.channel.finish_inbound();
        assert_eq!(
            bench.error(),
            "detection: the stream ended after 3 bytes that match no protocol: 'gre'"
        );
        assert!(!bench.is_open());
        assert_eq!(bench.lines(), [""; 0]);
        assert!(bench.channel.read_error().is_none(), "one error is enough");
    }
}

#[test]
fn k13_a_connection_without_a_byte_is_closed_without_an_error() {
    for options in [ChannelOptions::default(), half_closing()] {
        let mut bench = Bench::with_options(options, colours);
        bench.channel.finish_inbound();
        assert!(bench.channel.read_error().is_none());
        assert!(!bench.is_open());
        assert_eq!((bench.lines(), bench.faults.take()), (vec![], vec![]));
    }
}

#[test]
fn k13_a_half_closed_connection_without_a_byte_is_given_to_the_fallback() {
    let make = |log: &Log| colours(log).otherwise(record(log, "other"));
    let mut bench = Bench::with_options(half_closing(), make);
    bench.channel.finish_inbound();
    let end = format!("other on_user_event {END}");
    assert_eq!(bench.lines(), ["other on_added", "other on_active", &end]);
    // A closed one is not: nobody could be answered.
    let mut bench = Bench::new(make);
    bench.channel.finish_inbound();
    assert_eq!(bench.lines(), [""; 0]);
}

#[test]
fn k13_handlers_of_a_refused_connection_see_neither_its_beginning_nor_its_end() {
    for first in ["blue", "gre", ""] {
        let log = Log::new();
        let detector = colours(&log).build().unwrap();
        let mut channel = Embedded::new(|edit| {
            edit.add_last("detect", detector)?;
            edit.add_last("app", log.recorder().interest(inbound()))?;
            Ok(())
        })
        .unwrap();
        drop(log.take());
        channel.write_inbound(Bytes::from_static(first.as_bytes()));
        channel.write_inbound(Bytes::from_static(b""));
        channel.finish_inbound();
        assert!(!channel.channel().is_open());
        let lines = log.take();
        let is_told =
            |what: &str| lines.iter().any(|line| line.starts_with(&format!("app {what}")));
        assert_eq!(is_told("on_error"), !first.is_empty(), "{lines:?}");
        assert!(
            !is_told("on_active") && !is_told("on_inactive") && !is_told("on_read "),
            "{lines:?}"
        );
        assert!(is_told("on_removed"), "{lines:?}");
    }
}

#[test]
fn k13_a_reset_before_the_choice_passes_the_error_on() {
    let mut bench = Bench::new(|log| colours(log).otherwise(record(log, "other")));
    bench.send("gre");
    bench.channel.fail(Error::new("reset"));
    assert_eq!(bench.error(), "reset");
    assert_eq!(bench.lines()[2], "other on_read gre", "bytes that came are not lost");
}
