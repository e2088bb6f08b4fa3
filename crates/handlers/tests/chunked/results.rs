//! Completion, progress and failures of a chunked write.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_handlers::{
    ChunkedMessage, ChunkedWriteError, ChunkedWriter, FileChunks, InvalidChunkOption, ReaderChunks,
    TransferProgress,
};

use crate::support::{SourceControl, bench, failure, is_written, small_bench};

#[test]
fn k11_the_write_completes_when_the_transport_has_written_the_last_chunk() {
    let mut bench = small_bench();
    bench.set_room(0);
    let mut future =
        bench.write_outbound(ChunkedMessage::from_chunks(["abc", "def"].map(Bytes::from)));
    let mut behind = bench.send("ghi");
    bench.set_room(5);
    bench.run();
    assert!(!future.is_done());
    bench.set_room(1);
    bench.run();
    assert!(is_written(&mut future) && !behind.is_done());
    bench.set_room(3);
    bench.run();
    assert!(is_written(&mut behind));
}

#[test]
fn k11_progress_reports_written_chunks_bytes_and_the_total() {
    let mut bench = bench();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let log = steps.clone();
    let chunks = ["abc", "", "de"].map(Bytes::from);
    let message = ChunkedMessage::from_chunks(chunks)
        .total_bytes(5)
        .on_progress(move |now| log.lock().unwrap().push(now));
    bench.set_room(0);
    let future = bench.write_outbound(message);
    bench.set_room(4);
    bench.run();
    let step = |bytes, chunks| TransferProgress { bytes, chunks, total_bytes: Some(5) };
    assert_eq!(*steps.lock().unwrap(), [step(3, 1)], "half a chunk is not reported");
    bench.set_room(1);
    bench.run();
    assert_eq!(*steps.lock().unwrap(), [step(3, 1), step(5, 2)]);
    assert!(future.is_done());
}

#[test]
fn k11_a_panic_of_the_progress_callback_is_reported_and_harms_nothing() {
    let mut bench = bench();
    let message = ChunkedMessage::from_chunks(["a", "b"].map(Bytes::from))
        .on_progress(|_| panic!("no progress"));
    bench.write_outbound(message).join().unwrap();
    assert_eq!(bench.sent(), "ab");
    let reports = bench.reports.take();
    assert!(reports.len() == 1 && reports[0].contains("no progress"), "{reports:?}");
}

#[test]
fn k11_a_source_that_fails_at_its_start_fails_alone() {
    let mut bench = bench();
    let (source, future) = bench.send_source();
    let mut behind = bench.send("behind");
    source.fail("disk on fire");
    bench.run();
    let error = future.join().unwrap_err();
    assert!(matches!(error.find(), Some(ChunkedWriteError::Source { chunks: 0, .. })));
    assert_eq!(
        error.to_string(),
        "the source of a chunked write failed after 0 chunks: disk on fire"
    );
    assert!(source.is_dropped() && is_written(&mut behind) && bench.channel().is_open());
    assert_eq!(bench.sent(), "behind");
}

#[test]
fn k11_a_source_that_fails_in_the_middle_closes_the_channel() {
    let mut bench = bench();
    let (source, future) = bench.send_source();
    let behind = bench.send("behind");
    let (other, queued) = bench.send_source();
    source.give_all(&["half"]);
    source.fail("disk on fire");
    bench.run();
    let why = "the source of a chunked write failed after 1 chunks: disk on fire";
    assert_eq!(failure(future), why);
    assert_eq!(failure(behind), format!("the channel is closed: {why}"));
    assert_eq!(failure(queued), format!("the channel is closed: {why}"));
    assert!(other.is_dropped() && !bench.channel().is_open());
    assert_eq!(bench.channel().close_cause().unwrap().to_string(), why);
    assert_eq!(bench.sent(), "half");
}

#[test]
fn k11_a_failed_source_leaves_the_channel_open_if_asked_to() {
    let mut bench = bench();
    let source = SourceControl::default();
    let future = bench.write_outbound(source.message().keep_open_on_failure());
    drop(bench.send("behind"));
    source.give_all(&["half "]);
    source.fail("disk on fire");
    bench.run();
    assert!(future.join().is_err() && bench.channel().is_open());
    assert_eq!(bench.sent(), "half behind");
}

/// Refuses one chunk.
struct Refuses(&'static str);

impl Handler for Refuses {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if msg.get::<Bytes>().is_some_and(|bytes| bytes == self.0) {
            return Err(Error::new("cannot be encoded"));
        }
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

#[test]
fn k11_a_refused_chunk_ends_the_write() {
    for (refused, sent, is_open) in [("a", "behind", true), ("b", "a", false), ("c", "ab", false)] {
        let mut bench = bench();
        bench.with_pipeline(|pipeline| pipeline.add_first("refuses", Refuses(refused)).unwrap());
        let (source, future) = bench.send_source();
        let behind = bench.send("behind");
        for chunk in ["a", "b", "c"] {
            source.give_all(&[chunk]);
            bench.run();
        }
        assert_eq!(failure(future), "cannot be encoded");
        assert!(source.is_dropped());
        assert_eq!((bench.sent().as_str(), bench.channel().is_open()), (sent, is_open));
        assert_eq!(behind.join().is_ok(), is_open);
    }
}

#[test]
fn k11_a_refused_last_chunk_closes_the_channel_too() {
    let mut bench = bench();
    bench.with_pipeline(|pipeline| pipeline.add_first("refuses", Refuses("b")).unwrap());
    let chunks = ["a", "b"].map(Bytes::from);
    let future = bench.write_outbound(ChunkedMessage::from_chunks(chunks));
    assert_eq!(failure(future), "cannot be encoded");
    assert!(!bench.channel().is_open());
}

#[test]
fn k11_without_a_completion_an_error_goes_to_on_error() {
    let mut bench = bench();
    let source = SourceControl::default();
    source.fail("disk on fire");
    bench.with_pipeline(|pipeline| {
        pipeline.write(source.message());
        pipeline.flush();
    });
    assert!(bench.read_error().unwrap().to_string().ends_with("disk on fire"));
    bench.with_pipeline(|pipeline| pipeline.add_first("refuses", Refuses("b")).unwrap());
    let (source, _future) = bench.send_source();
    bench.with_pipeline(|pipeline| {
        pipeline.write(Bytes::from_static(b"b"));
        pipeline.flush();
    });
    source.finish();
    bench.run();
    assert_eq!(bench.read_error().unwrap().to_string(), "cannot be encoded");
}

#[test]
fn k11_a_channel_that_is_not_connected_fails_the_write() {
    let mut channel = waterwheel_testkit::embedded::Embedded::builder()
        .stream()
        .unconnected()
        .build(|edit| {
            edit.add_last("chunks", ChunkedWriter::new())?;
            Ok(())
        })
        .unwrap();
    let chunks = ["a", "b"].map(Bytes::from);
    let future = channel.write_outbound(ChunkedMessage::from_chunks(chunks));
    assert_eq!(failure(future), "the channel is not connected yet");
}

#[test]
fn k11_a_failed_transport_fails_everything_queued_with_its_error() {
    let mut bench = bench();
    bench.fail_write(io::Error::from(io::ErrorKind::BrokenPipe));
    let (source, future) = bench.send_source();
    let behind = bench.send("behind");
    source.give_all(&["a"]);
    bench.run();
    assert!(failure(future).contains("broken pipe"));
    assert!(failure(behind).contains("broken pipe"));
    assert!(source.is_dropped() && !bench.channel().is_open());
}

#[test]
fn k11_options_of_zero_are_refused() {
    let refused = |option| Some(InvalidChunkOption { option });
    assert_eq!(ChunkedWriter::builder().bytes_per_turn(0).build().err(), refused("bytes_per_turn"));
    let manual = waterwheel_executor::ManualExecutor::new();
    let reader = ReaderChunks::on(manual.executor(), io::empty()).chunk_size(0);
    assert_eq!(reader.err(), refused("chunk_size"));
    let file = waterwheel_channel::FileRegion::whole(std::fs::File::open("Cargo.toml").unwrap());
    assert_eq!(FileChunks::new(file.unwrap()).piece_len(0).err(), refused("piece_len"));
    let text = InvalidChunkOption { option: "chunk_size" }.to_string();
    assert_eq!(text, "`chunk_size` is zero; a chunked write needs at least 1");
}

#[test]
fn k11_a_message_of_which_every_chunk_is_refused_leaves_the_channel_open() {
    let mut bench = bench();
    let numbers = ChunkedMessage::from_chunks([1u32, 2, 3]);
    assert!(failure(bench.write_outbound(numbers)).contains("u32"), "the transport takes bytes");
    assert!(bench.channel().is_open(), "the peer has seen nothing of the message");
    let mixed = [Msg::new(1u32), Bytes::from_static(b"second").into()];
    assert!(failure(bench.write_outbound(ChunkedMessage::from_chunks(mixed))).contains("u32"));
    assert!(!bench.channel().is_open(), "the beginning is missing");
}
