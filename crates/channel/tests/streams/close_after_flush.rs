//! A close of a stream delivers flushed bytes first (C05).

use bytes::Bytes;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::faulty::DriverCall;

use crate::support::{StreamFixture, over_both_drivers};

#[test]
fn c05_write_and_flush_then_close_delivers_also_when_completions_come_late() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.write(0, "hello", true);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert_eq!(fixture.peer.take_received(), "hello");
        assert_eq!(fixture.write_outcomes(), [(0, true)]);
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
        let name = manual.open().unwrap().name();
        assert_eq!(fixture.channel.pending_bytes(), 0, "{name}");
    });
}

#[test]
fn c05_a_close_waits_for_flushed_bytes_behind_a_write_in_flight() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.write(0, "first ", true);
        fixture.write(1, "second ", true);
        fixture.write(2, "third", true);
        fixture.write(3, "never flushed", false);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.write(4, "after the close", true);
        fixture.run();
        assert_eq!(fixture.peer.take_received(), "first second third");
        let mut write_outcomes = fixture.write_outcomes();
        write_outcomes.sort_unstable();
        assert_eq!(write_outcomes, [(0, true), (1, true), (2, true), (3, false), (4, false)]);
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
    });
}

#[test]
fn c05_a_close_does_not_wait_for_a_peer_that_reads_nothing() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(3);
        fixture.write(0, "hello", true);
        fixture.write(1, "world", true);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
        assert_eq!(fixture.peer.take_received(), "hel");
        assert_eq!(fixture.write_outcomes(), [(0, false), (1, false)]);
        assert_eq!(fixture.channel.pending_bytes(), 0);
        assert!(fixture.bench.faults.calls(DriverCall::Write) <= 4);
    });
}

#[test]
fn c05_a_close_waits_for_more_parts_than_one_flush_takes() {
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    channel.short_writes(1);
    let written = channel.on_loop(|channel| {
        let written = channel.write_and_flush(Bytes::from(vec![7; 50]));
        drop(channel.close());
        written
    });
    channel.run();
    let parts = std::iter::from_fn(|| channel.read_outbound::<Bytes>());
    assert_eq!(parts.map(|part| part.len()).sum::<usize>(), 50);
    assert!(written.join().is_ok() && channel.channel().closed().is_done());
}

#[test]
fn c05_a_reset_ends_a_close_that_waits() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        manual.hold_completions();
        fixture.write(0, "hello", true);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.peer.reset();
        manual.release();
        fixture.run();
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
        assert_eq!(fixture.write_outcomes().len(), 1);
    });
}
