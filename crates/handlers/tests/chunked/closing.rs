//! Close, half-closure, drain and panics in the middle of chunked writes.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, ChannelError, ChannelOptions, DrainOptions, HalfClosed, Msg};
use waterwheel_executor::Error;
use waterwheel_handlers::{ChunkSource, ChunkedMessage, ChunkedWriteError, ChunkedWriter};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{SourceControl, bench, bench_with, failure, is_written};

const SECOND: Duration = Duration::from_secs(1);

fn closed_by_request(error: &Error) -> bool {
    matches!(error.find(), Some(ChannelError::Closed { cause: None }))
}

#[test]
fn k11_a_close_waits_until_everything_flushed_is_written() {
    let mut bench = bench();
    bench.set_room(0);
    let (source, mut chunked) = bench.send_source();
    let mut trailer = bench.send("trailer");
    let closed = bench.on_loop(Channel::close);
    let second = bench.on_loop(Channel::close);
    bench.run();
    let refused = bench.send("too late");
    assert!(closed_by_request(&refused.join().unwrap_err()));
    let refused = bench.write_outbound(ChunkedMessage::from_chunks([Bytes::new()]));
    assert!(closed_by_request(&refused.join().unwrap_err()));
    source.give_all(&["chunk "]);
    source.finish();
    bench.run();
    assert!(bench.channel().is_open(), "nothing is written yet");
    for _ in 0.."chunk trailer".len() {
        assert!(bench.channel().is_open() && !closed.is_done());
        bench.set_room(1);
        bench.run();
    }
    assert!(is_written(&mut chunked) && is_written(&mut trailer));
    assert!(!bench.channel().is_open() && closed.is_done() && second.is_done());
    assert_eq!(bench.sent(), "chunk trailer");
}

#[test]
fn k11_a_close_waits_for_the_last_chunks_of_a_source_that_has_ended() {
    let mut bench = bench();
    bench.set_room(0);
    let chunks = ["abc", "def"].map(Bytes::from);
    let mut future = bench.write_outbound(ChunkedMessage::from_chunks(chunks));
    bench.close();
    assert!(bench.channel().is_open());
    bench.set_room(6);
    bench.run();
    assert!(is_written(&mut future) && !bench.channel().is_open());
}

#[test]
fn k11_a_close_without_chunked_writes_passes_at_once() {
    let mut bench = bench();
    bench.send_source().0.finish();
    bench.run();
    let closed = bench.on_loop(Channel::close);
    assert!(closed.is_done());
}

#[test]
fn k11_a_close_that_stalls_gives_up() {
    let writer = ChunkedWriter::builder().close_stall_limit(SECOND);
    let mut bench = bench_with(Embedded::builder().stream(), writer);
    bench.set_room(0);
    let (source, chunked) = bench.send_source();
    let behind = bench.send("behind");
    source.give_all(&["abcdef"]);
    let closed = bench.on_loop(Channel::close);
    bench.advance(SECOND / 2);
    bench.set_room(1); // One byte is progress.
    bench.run();
    bench.advance(SECOND - Duration::from_millis(1));
    assert!(bench.channel().is_open() && !source.is_dropped());
    bench.advance(Duration::from_millis(1));
    assert!(closed.is_done() && source.is_dropped() && !bench.channel().is_open());
    let text = "not written: nothing was written for 1s while the channel was closing";
    assert_eq!(failure(chunked), text);
    assert_eq!(failure(behind), text);
}

#[test]
fn k11_a_stall_limit_of_zero_discards_what_is_queued() {
    let writer = ChunkedWriter::builder().close_stall_limit(Duration::ZERO);
    let mut bench = bench_with(Embedded::builder().stream(), writer);
    let (source, chunked) = bench.send_source();
    let closed = bench.on_loop(Channel::close);
    assert!(closed.is_done() && source.is_dropped());
    assert!(closed_by_request(&chunked.join().unwrap_err()));
}

#[test]
fn k11_a_disconnect_closes_at_once() {
    let mut bench = bench();
    let (source, chunked) = bench.send_source();
    let behind = bench.send("behind");
    let done = bench.on_loop(Channel::disconnect);
    assert!(done.is_done() && source.is_dropped());
    assert!(closed_by_request(&chunked.join().unwrap_err()));
    assert!(closed_by_request(&behind.join().unwrap_err()));
    assert_eq!(bench.channel().pending_bytes(), 0);
}

#[test]
fn k11_what_is_not_flushed_fails_with_a_close_and_a_shutdown_of_the_output() {
    for closes in [true, false] {
        let mut bench = bench();
        let (flushed, mut flushed_done) = bench.send_source();
        let unflushed = SourceControl::default();
        let futures = [bench.write(unflushed.message()), bench.write(Bytes::from_static(b"m"))];
        let ended = bench.on_loop(|it| if closes { it.close() } else { it.shutdown_output() });
        for future in futures {
            let error = future.join().unwrap_err();
            assert!(matches!(error.find(), Some(ChunkedWriteError::NotFlushed)), "{error}");
        }
        assert!(unflushed.is_dropped() && !ended.is_done());
        flushed.give_all(&["flushed"]);
        flushed.finish();
        bench.run();
        assert!(ended.is_done() && is_written(&mut flushed_done));
        assert_eq!(bench.sent(), "flushed");
    }
}

#[test]
fn k11_a_shutdown_of_the_output_follows_everything_flushed() {
    let mut bench = bench();
    bench.set_room(0);
    let (source, mut chunked) = bench.send_source();
    let mut behind = bench.send("behind");
    let ended = bench.on_loop(Channel::shutdown_output);
    let late = bench.send("late");
    assert!(matches!(late.join().unwrap_err().find(), Some(ChannelError::OutputShutDown)));
    source.give_all(&["chunk "]);
    source.finish();
    bench.advance(1000 * SECOND);
    assert!(!ended.is_done(), "however long the peer takes");
    bench.set_room(100);
    bench.run();
    assert!(ended.is_done() && is_written(&mut chunked) && is_written(&mut behind));
    assert_eq!(bench.sent(), "chunk behind");
    assert!(bench.channel().is_open(), "the other direction goes on");
    assert_eq!(bench.read_inbound::<HalfClosed>(), None);
    let late = bench.write_outbound(ChunkedMessage::from_chunks([Bytes::from_static(b"late")]));
    assert!(matches!(late.join().unwrap_err().find(), Some(ChannelError::OutputShutDown)));
}

#[test]
fn k11_an_output_that_is_shut_down_below_the_handler_fails_what_is_queued() {
    let mut bench = bench();
    let (source, chunked) = bench.send_source();
    let behind = bench.send("behind");
    bench.with_pipeline(|pipeline| {
        pipeline.add_first("below", ShutsDown).unwrap();
        pipeline.fire_read(Bytes::from_static(b"shut down"));
    });
    assert!(source.is_dropped());
    assert!(matches!(chunked.join().unwrap_err().find(), Some(ChannelError::OutputShutDown)));
    assert!(matches!(behind.join().unwrap_err().find(), Some(ChannelError::OutputShutDown)));
}

/// Shuts the output down at a read, behind the back of the handlers after it.
struct ShutsDown;

impl waterwheel_channel::Handler for ShutsDown {
    fn on_read(
        &mut self,
        ctx: &waterwheel_channel::Ctx<'_>,
        _: Msg,
    ) -> waterwheel_channel::HandlerResult {
        ctx.shutdown_output();
        Ok(())
    }
}

#[test]
fn k11_the_end_of_the_peer_fails_what_is_queued_with_the_cause() {
    let mut bench = bench();
    let (source, chunked) = bench.send_source();
    let behind = bench.send("behind");
    bench.fail(Error::new("connection reset"));
    bench.run();
    assert_eq!(failure(chunked), "the channel is closed: connection reset");
    assert_eq!(failure(behind), "the channel is closed: connection reset");
    assert!(source.is_dropped());
    let late = bench.write_outbound(ChunkedMessage::from_chunks([Bytes::new()]));
    assert!(failure(late).starts_with("the channel is closed"));
}

#[test]
fn k11_a_half_closed_peer_still_gets_everything() {
    let options = ChannelOptions { allow_half_closure: true, ..Default::default() };
    let mut bench =
        bench_with(Embedded::builder().stream().options(options), ChunkedWriter::builder());
    let (source, mut chunked) = bench.send_source();
    bench.finish_inbound();
    source.give_all(&["all"]);
    source.finish();
    bench.run();
    assert!(is_written(&mut chunked));
    assert_eq!(bench.sent(), "all");
}

#[test]
fn k11_a_panic_in_a_source_closes_its_channel() {
    let mut bench = bench();
    let mut polled = false;
    let chunked = bench.on_loop(|channel| {
        channel.write_and_flush(ChunkedMessage::from_poll(move |_| {
            assert!(!std::mem::replace(&mut polled, true), "the source is broken");
            std::task::Poll::Ready(Some(Ok(Bytes::from_static(b"a"))))
        }))
    });
    let (other, queued) = {
        let control = SourceControl::default();
        let future = bench.on_loop(|channel| channel.write_and_flush(control.message()));
        (control, future)
    };
    let closed = bench.channel().closed();
    bench.run();
    assert!(closed.is_done() && other.is_dropped() && !bench.channel().is_open());
    for future in [chunked, queued] {
        assert!(failure(future).starts_with("the channel is closed"));
    }
    let cause = bench.channel().close_cause().unwrap().to_string();
    assert!(cause.contains("the source is broken"), "{cause}");
    let reports = bench.reports.take();
    assert!(reports.len() == 1 && reports[0].contains("chunks"), "{reports:?}");
    assert_eq!(bench.channel().pending_bytes(), 0);
}

#[test]
fn k11_sources_are_dropped_while_nothing_is_borrowed() {
    struct Source(Channel);
    impl ChunkSource for Source {
        fn poll_chunk(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Msg, Error>>> {
            std::task::Poll::Pending
        }
    }
    impl Drop for Source {
        fn drop(&mut self) {
            self.0.send(ChunkedMessage::from_chunks([Bytes::from_static(b"from a destructor")]));
            drop(self.0.close());
        }
    }
    for at in 0..4 {
        let mut bench = bench();
        let channel = bench.channel().clone();
        let message = ChunkedMessage::new(Source(channel.clone()));
        let future = bench.write_outbound(message);
        match at {
            0 => _ = future.cancel(),
            1 => bench.fail(Error::new("reset")),
            2 => bench.with_pipeline(|pipeline| pipeline.remove("chunks").unwrap()).unwrap(),
            _ => drop(bench.on_loop(Channel::disconnect)),
        }
        bench.run();
        assert!(!channel.is_open());
        assert_eq!(channel.pending_bytes(), 0);
        assert!(bench.reports.take().iter().all(|it| !it.contains("panicked")));
    }
}

#[test]
fn k11_a_drain_waits_for_queued_chunks() {
    let mut bench = bench();
    let (source, mut chunked) = bench.send_source();
    let options = DrainOptions::within(60 * SECOND).shutdown(Duration::ZERO, SECOND).unwrap();
    let drained = bench.channel().event_loop().drain(options);
    bench.run();
    bench.advance(10 * SECOND);
    assert!(!drained.is_done(), "the source has not ended");
    source.give_all(&["last words"]);
    source.finish();
    bench.run();
    assert!(drained.is_done() && is_written(&mut chunked));
    assert_eq!(bench.sent(), "last words");
}

#[test]
fn k11_an_idle_writer_does_not_hold_a_drain() {
    let mut bench = bench();
    let (source, _chunked) = bench.send_source();
    source.finish();
    bench.run();
    let options = DrainOptions::within(60 * SECOND).shutdown(Duration::ZERO, SECOND).unwrap();
    let drained = bench.channel().event_loop().drain(options);
    bench.run();
    assert!(drained.is_done());
}

#[test]
fn k11_a_write_that_a_shutdown_refused_does_not_hold_a_drain() {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut bench =
        bench_with(Embedded::builder().stream().options(options), ChunkedWriter::builder());
    let source = SourceControl::default();
    let chunked = bench.write(source.message());
    let shut_down = bench.on_loop(Channel::shutdown_output);
    bench.run();
    assert!(shut_down.is_done() && bench.channel().is_open());
    assert!(failure(chunked).contains("not flushed"));
    let options = DrainOptions::within(60 * SECOND).shutdown(Duration::ZERO, SECOND).unwrap();
    let drained = bench.channel().event_loop().drain(options);
    bench.run();
    assert!(drained.is_done(), "nothing is queued any more");
}

#[test]
fn k11_a_failed_source_is_the_cause_of_a_close_that_waited() {
    let mut bench = bench();
    let (source, chunked) = bench.send_source();
    source.give_all(&["part"]);
    bench.run();
    let closed = bench.on_loop(Channel::close);
    bench.run();
    assert!(!closed.is_done());
    source.fail("disk on fire");
    bench.run();
    assert!(closed.is_done() && failure(chunked).contains("disk on fire"));
    let cause = bench.channel().close_cause().expect("the failure is the cause");
    assert!(cause.to_string().contains("disk on fire"), "{cause}");
}

#[test]
fn k11_a_chunked_write_after_a_shutdown_of_the_output_fails_at_once() {
    for has_queue in [false, true] {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let mut bench =
            bench_with(Embedded::builder().stream().options(options), ChunkedWriter::builder());
        if has_queue {
            bench.write_outbound(ChunkedMessage::from_chunks([Bytes::new()])).join().unwrap();
        }
        bench.on_loop(Channel::shutdown_output).join().unwrap();
        let source = SourceControl::default();
        let late = bench.write(source.message());
        assert!(failure(late).contains("shut down"));
        assert!(source.is_dropped() && bench.channel().is_open());
        assert_eq!(bench.channel().pending_bytes(), 0);
    }
}
