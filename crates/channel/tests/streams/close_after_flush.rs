//! Closing a stream after what was flushed (C05).

use bytes::Bytes;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::faulty::DriverCall;

use crate::support::{Line, both};

#[test]
fn c05_write_and_flush_then_close_delivers_also_when_completions_come_late() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.write(0, "hello", true);
        line.here(|channel| drop(channel.close()));
        line.run();
        assert_eq!(line.peer.received(), "hello");
        assert_eq!(line.told(), [(0, true)]);
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
        let name = manual.open().unwrap().name();
        assert_eq!(line.channel.pending_bytes(), 0, "{name}");
    });
}

#[test]
fn c05_a_close_waits_for_flushed_bytes_behind_a_write_in_flight() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.write(0, "first ", true);
        line.write(1, "second ", true);
        line.write(2, "third", true);
        line.write(3, "never flushed", false);
        line.here(|channel| drop(channel.close()));
        line.write(4, "after the close", true);
        line.run();
        assert_eq!(line.peer.received(), "first second third");
        let mut told = line.told();
        told.sort_unstable();
        assert_eq!(told, [(0, true), (1, true), (2, true), (3, false), (4, false)]);
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
    });
}

#[test]
fn c05_a_close_does_not_wait_for_a_peer_that_reads_nothing() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.peer.set_limit(3);
        line.write(0, "hello", true);
        line.write(1, "world", true);
        line.here(|channel| drop(channel.close()));
        line.run();
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
        assert_eq!(line.peer.received(), "hel");
        assert_eq!(line.told(), [(0, false), (1, false)]);
        assert_eq!(line.channel.pending_bytes(), 0);
        assert!(line.bench.faults.calls(DriverCall::Write) <= 4);
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
    both(|manual| {
        let mut line = Line::new(&manual);
        manual.hold_completions();
        line.write(0, "hello", true);
        line.here(|channel| drop(channel.close()));
        line.peer.reset();
        manual.release();
        line.run();
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
        assert_eq!(line.told().len(), 1);
    });
}
