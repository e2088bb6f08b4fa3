//! Cancelled chunked writes.

use std::thread;

use bytes::Bytes;
use waterwheel_handlers::ChunkedMessage;

use crate::support::{SourceControl, bench, is_written};

#[test]
fn k11_a_cancel_drops_the_source_and_later_messages_go_on() {
    let mut bench = bench();
    let (source, future) = bench.send_source();
    source.give_all(&["begun "]);
    bench.run();
    let mut behind = bench.send("behind");
    assert!(future.cancel());
    source.give_all(&["never"]);
    bench.run();
    assert!(source.is_dropped() && future.is_cancelled());
    assert_eq!(bench.sent(), "begun behind");
    assert!(is_written(&mut behind) && bench.channel().is_open());
}

#[test]
fn k11_a_cancel_from_another_thread_drops_the_source_on_the_loop() {
    let mut bench = bench();
    let (source, future) = bench.send_source();
    thread::scope(|scope| {
        scope.spawn(|| future.cancel());
    });
    assert!(!source.is_dropped(), "the loop has not run since");
    bench.run();
    assert!(source.is_dropped());
}

#[test]
fn k11_a_write_behind_others_is_cancelled_at_once() {
    let mut bench = bench();
    let (first, _first_done) = bench.send_source();
    let (second, second_done) = bench.send_source();
    let pending = bench.channel().pending_bytes();
    drop(bench.send("behind"));
    second_done.cancel();
    bench.run();
    assert!(second.is_dropped() && !first.is_dropped());
    let held = ChunkedMessage::PENDING_BYTES;
    assert_eq!(bench.channel().pending_bytes(), pending - held + "behind".len());
    first.give_all(&["first "]);
    first.finish();
    bench.run();
    assert_eq!(bench.sent(), "first behind");
}

#[test]
fn k11_a_write_is_cancelled_before_its_flush() {
    let mut bench = bench();
    let source = SourceControl::default();
    let future = bench.write(source.message());
    let later = bench.write(Bytes::from_static(b"later"));
    future.cancel();
    bench.run();
    assert!(source.is_dropped() && source.polls() == 0);
    bench.flush();
    assert_eq!(bench.sent(), "later");
    assert!(later.is_done());
}

#[test]
fn k11_a_write_that_was_cancelled_before_it_arrives_is_not_begun() {
    let mut bench = bench();
    let source = SourceControl::default();
    let future = bench.channel().write_and_flush(source.message()); // From outside of the loop.
    future.cancel();
    bench.run();
    assert!(source.is_dropped() && source.polls() == 0);
    drop(bench.send("next"));
    assert_eq!(bench.sent(), "next");
}

#[test]
fn k11_a_queued_message_is_cancelled_until_it_is_flushed() {
    let mut bench = bench();
    let (source, _chunked) = bench.send_source();
    let cancelled = bench.write(Bytes::from_static(b"cancelled"));
    let kept = bench.write(Bytes::from_static(b"kept"));
    assert!(cancelled.cancel());
    bench.flush();
    source.finish();
    bench.run();
    assert_eq!(bench.sent(), "kept");
    assert!(kept.is_done());
}

#[test]
fn k11_after_the_end_of_the_source_the_write_cannot_be_cancelled() {
    let mut bench = bench();
    bench.set_room(0);
    let (source, mut future) = bench.send_source();
    source.give_all(&["all"]);
    source.finish();
    bench.run();
    assert!(!future.cancel() && !future.is_done());
    bench.set_room(3);
    bench.run();
    assert!(is_written(&mut future));
    assert_eq!(bench.sent(), "all");
}
