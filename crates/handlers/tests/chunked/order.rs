//! Messages and chunks leave in the order in which they were written.

use std::fs::File;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_channel::{
    Completion, Ctx, FileRegion, Handler, HandlerResult, In, InboundHandler, Msg, Offloaded,
    RemoteCtx, RemoteHandler, Types,
};
use waterwheel_executor::ManualExecutor;
use waterwheel_handlers::{ChunkedMessage, ChunkedWriter, FileChunks};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{bench, failure, is_written};

#[test]
fn k11_messages_written_behind_a_source_wait_for_its_end() {
    let mut bench = bench();
    bench.send("head ").join().unwrap();
    let (source, mut chunked) = bench.send_source();
    let mut trailer = bench.send(" trailer");
    assert_eq!(bench.sent(), "head ");
    source.give_all(&["a", "b"]);
    bench.run();
    assert_eq!(bench.sent(), "ab");
    source.give_all(&["c"]);
    bench.run();
    assert_eq!(bench.sent(), "c");
    assert!(!chunked.is_done() && !trailer.is_done());
    source.finish();
    bench.run();
    assert_eq!(bench.sent(), " trailer");
    assert!(is_written(&mut chunked) && is_written(&mut trailer) && source.is_dropped());
}

#[test]
fn k11_sources_follow_one_another() {
    let mut bench = bench();
    let (first, first_done) = bench.send_source();
    let (second, second_done) = bench.send_source();
    second.give_all(&["2"]);
    second.finish();
    bench.run();
    assert_eq!((bench.sent().as_str(), second.polls()), ("", 0));
    first.give_all(&["1"]);
    first.finish();
    bench.run();
    assert_eq!(bench.sent(), "12");
    assert!(first_done.is_done() && second_done.is_done());
    drop(bench.send("direct"));
    assert_eq!(bench.sent(), "direct", "the queue is empty: messages pass at once");
}

#[test]
fn k11_nothing_of_the_queue_is_sent_before_a_flush_covers_it() {
    let mut bench = bench();
    let chunks = ["a", "b"].map(Bytes::from);
    let mut first = bench.write(ChunkedMessage::from_chunks(chunks));
    let mut second = bench.write(Bytes::from_static(b"c"));
    bench.run();
    assert_eq!(bench.sent(), "");
    bench.flush();
    let third = bench.write(Bytes::from_static(b"d"));
    assert_eq!(bench.sent(), "abc");
    assert!(is_written(&mut first) && is_written(&mut second) && !third.is_done());
    bench.flush();
    assert_eq!(bench.sent(), "d");
}

/// Turns numbers into text, nearer to the transport than the chunked writer.
struct Numbers;

impl Handler for Numbers {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.take::<u32>() {
            Ok(number) => ctx.write_with(Bytes::from(format!("<{number}>")), done.take()),
            Err(other) => ctx.write_with(other, done.take()),
        }
        Ok(())
    }
}

#[test]
fn k11_chunks_are_messages_of_any_type_for_the_handlers_before() {
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("numbers", Numbers)?;
            edit.add_last("chunks", ChunkedWriter::new())?;
            Ok(())
        })
        .unwrap();
    channel.write_outbound(ChunkedMessage::from_chunks([1u32, 2, 3])).join().unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect();
    assert_eq!(sent.concat(), b"<1><2><3>");
}

#[test]
fn k11_empty_chunks_are_skipped_and_an_empty_source_completes() {
    let mut bench = bench();
    let writes = bench.writes();
    bench.write_outbound(ChunkedMessage::from_chunks(Vec::<Bytes>::new())).join().unwrap();
    let nothing = FileRegion::new(File::open("Cargo.toml").unwrap(), 0..0);
    bench.write_outbound(ChunkedMessage::new(FileChunks::new(nothing.unwrap()))).join().unwrap();
    assert_eq!(bench.writes(), writes);
    let chunks = ["", "a", "", ""].map(Bytes::from);
    bench.write_outbound(ChunkedMessage::from_chunks(chunks)).join().unwrap();
    assert_eq!(bench.read_outbound::<Bytes>().unwrap(), "a");
    assert!(bench.read_outbound_any().is_none());
}

#[test]
fn k11_a_file_is_passed_on_in_regions() {
    let mut bench = bench();
    let region = FileRegion::new(File::open("Cargo.toml").unwrap(), 3..40);
    let expected = std::fs::read_to_string("Cargo.toml").unwrap()[3..40].to_owned();
    let chunks = FileChunks::new(region.unwrap()).piece_len(10).unwrap();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let log = steps.clone();
    let message = ChunkedMessage::new(chunks)
        .on_progress(move |now| log.lock().unwrap().push((now.bytes, now.total_bytes)));
    bench.write_outbound(message).join().unwrap();
    assert_eq!(bench.sent(), expected);
    let total = Some(37);
    assert_eq!(*steps.lock().unwrap(), [(10, total), (20, total), (30, total), (37, total)]);
}

/// Declares that it answers with chunked messages.
struct Answers;

impl InboundHandler for Answers {
    type In = Bytes;

    fn answers(&self) -> Types {
        Types::of::<ChunkedMessage>()
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, _: Bytes) -> HandlerResult {
        ctx.write_and_flush(ChunkedMessage::from_chunks([Bytes::from_static(b"answer")]));
        Ok(())
    }
}

#[test]
fn k11_a_pipeline_without_the_handler_refuses_chunked_answers() {
    let missing = Embedded::builder().stream().build(|edit| {
        edit.add_last("app", In(Answers))?;
        Ok(())
    });
    let error = missing.unwrap_err().to_string();
    assert!(error.contains("`app` after it emits"), "{error}");
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("chunks", ChunkedWriter::new())?;
            edit.add_last("app", In(Answers))?;
            Ok(())
        })
        .unwrap();
    channel.write_inbound(Bytes::from_static(b"question"));
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "answer");
    let mut bare = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    let refused = bare.write_outbound(ChunkedMessage::from_chunks([Bytes::new()]));
    assert!(failure(refused).contains("ChunkedMessage cannot be written"));
}

/// Answers each read with chunks, from an executor of its own.
struct RemoteAnswers;

impl RemoteHandler for RemoteAnswers {
    fn on_read(&mut self, ctx: &RemoteCtx, _: Msg) -> HandlerResult {
        ctx.write(ChunkedMessage::from_chunks(["a", "b"].map(Bytes::from)));
        ctx.write_and_flush(Bytes::from_static(b"c"));
        ctx.close();
        Ok(())
    }
}

#[test]
fn k11_offloaded_handlers_before_and_after_keep_the_order() {
    let mut executor = ManualExecutor::new();
    let passes = Offloaded::on(executor.executor(), || Passes);
    let answers = Offloaded::on(executor.executor(), || RemoteAnswers);
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("passes", passes)?;
            edit.add_last("chunks", ChunkedWriter::new())?;
            edit.add_last("answers", answers)?;
            Ok(())
        })
        .unwrap();
    channel.write_inbound(Bytes::from_static(b"question"));
    for _ in 0..20 {
        executor.run_now();
        channel.run();
    }
    let sent: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect();
    assert_eq!(sent.concat(), b"abc");
    assert!(!channel.channel().is_open(), "closed after the last of them");
}

/// Passes everything on.
struct Passes;

impl RemoteHandler for Passes {}
