//! Which protocol is chosen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::ChannelOptions;
use waterwheel_handlers::{
    DetectError, Detection, InvalidDetector, ProbeSearch, ProtocolDetector,
    ProtocolDetectorBuilder, SearchOutcome, StockProbe,
};
use waterwheel_testkit::recorder::Log;

use crate::support::{Bench, begins, colours, record, taken_over};

#[test]
fn k13_the_first_bytes_choose_the_pipeline() {
    for (first, name) in [("red 1", "red"), ("green 1", "green"), ("blue 1", "other")] {
        let mut bench = Bench::new(|log| colours(log).otherwise(record(log, "other")));
        bench.send(first);
        assert_eq!(bench.lines(), taken_over(name, first));
        assert_eq!(bench.names(), [name], "the detector has removed itself");
        bench.send(" 2");
        assert_eq!(
            bench.lines(),
            [&*format!("{name} on_read  2"), &*format!("{name} on_read_complete")]
        );
    }
}

#[test]
fn k13_a_match_waits_until_every_earlier_probe_has_not_matched() {
    let make =
        |log: &Log| {
            ProtocolDetector::builder()
                .protocol("long", begins("abcd"), record(log, "long"))
                .protocol("short", begins("ab"), record(log, "short"))
        };
    let mut bench = Bench::new(make);
    bench.send("abc");
    assert_eq!(bench.lines(), [""; 0], "`short` matches, `long` needs more");
    bench.send("x");
    assert_eq!(bench.lines(), taken_over("short", "abcx"));
    let mut bench = Bench::new(make);
    bench.send("abc");
    bench.send("d");
    assert_eq!(bench.lines(), taken_over("long", "abcd"));
}

#[test]
fn k13_without_a_fallback_the_error_shows_the_first_bytes_and_the_channel_is_closed() {
    let mut bench = Bench::new(colours);
    bench.send("\x16\x03\x01\x00 this is none of the protocols");
    assert_eq!(
        bench.error(),
        r"detection: no protocol matches a connection that begins with '\x16\x03\x01\x00 this is none of the'"
    );
    assert!(!bench.is_open());
    assert_eq!(bench.lines(), [""; 0]);
    assert!(bench.channel.read_inbound_any().is_none());
    let cause = bench.channel.write(Bytes::from_static(b"late")).join().unwrap_err();
    assert!(matches!(cause.find(), Some(DetectError::NoMatch { .. })), "{cause}");
}

#[test]
fn k13_a_probe_is_not_asked_again_after_its_decision_nor_without_bytes() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counting = {
        let calls = calls.clone();
        move |bytes: &[u8]| {
            assert!(!bytes.is_empty());
            calls.fetch_add(1, Ordering::Relaxed);
            Detection::NoMatch
        }
    };
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut bench = Bench::with_options(options, |log| {
        ProtocolDetector::builder()
            .protocol("counting", counting, record(log, "counting"))
            .protocol("red", begins("red"), record(log, "red"))
            .otherwise(record(log, "other"))
    });
    bench.send("");
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    for piece in ["r", "e", "x"] {
        bench.send(piece);
    }
    assert_eq!(bench.lines()[2], "other on_read rex");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn k13_a_search_ends_with_the_first_match_after_probes_that_need_more() {
    let probes = [StockProbe::Http1, StockProbe::Proxy, StockProbe::Resp];
    let mut search = ProbeSearch::new(100);
    assert_eq!(search.advance(&probes, b"PR"), SearchOutcome::NeedMore);
    assert_eq!(search.finish(&probes, b"PR"), SearchOutcome::NoMatch);
    // `Http1` needs more; `Proxy` after it matches.
    let mut search = ProbeSearch::new(6);
    assert_eq!(search.advance(&probes, b"PROX"), SearchOutcome::NeedMore);
    assert_eq!(search.advance(&probes, b"PROXY TCP4"), SearchOutcome::LimitReached);
    assert_eq!(search.finish(&probes, b"PROXY TCP4"), SearchOutcome::Match(1));
    assert_eq!(ProbeSearch::new(6).finish(&probes, b""), SearchOutcome::NoMatch);
}

#[test]
fn k13_a_detector_that_cannot_work_is_not_built() {
    let log = Log::new();
    let build = |builder: ProtocolDetectorBuilder| builder.build().unwrap_err();
    let red = |builder: ProtocolDetectorBuilder| {
        builder.protocol("red", begins("red"), record(&log, "red"))
    };
    let empty = ProtocolDetector::builder;
    assert_eq!(build(empty().otherwise(record(&log, "other"))), InvalidDetector::NoProtocol);
    assert_eq!(build(red(empty()).max_bytes(0)), InvalidDetector::ZeroBytes);
    assert_eq!(build(red(empty()).timeout(Duration::ZERO)), InvalidDetector::ZeroTime);
    assert_eq!(
        build(red(red(empty()))).to_string(),
        "two protocols of a detector are called `red`"
    );
    assert!(red(empty()).no_timeout().max_bytes(usize::MAX).build().is_ok());
}
