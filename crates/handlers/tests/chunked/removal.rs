//! A chunked writer that is removed while it holds messages.

use bytes::Bytes;
use waterwheel_channel::Channel;
use waterwheel_handlers::{ChunkedMessage, ChunkedWriteError, ChunkedWriter};

use crate::support::{Bench, SourceControl, bench, is_written};

fn remove(bench: &mut Bench) {
    bench.with_pipeline(|pipeline| pipeline.remove("chunks").unwrap()).unwrap();
}

#[test]
fn k11_a_removed_handler_passes_its_messages_on_and_fails_its_sources() {
    let mut bench = bench();
    let (source, chunked) = bench.send_source();
    let mut flushed = bench.send("flushed");
    let unflushed = bench.write(Bytes::from_static(b" unflushed"));
    remove(&mut bench);
    let error = chunked.join().unwrap_err();
    assert!(matches!(error.find(), Some(ChunkedWriteError::Removed)));
    assert!(source.is_dropped() && is_written(&mut flushed) && !unflushed.is_done());
    assert_eq!(bench.sent(), "flushed");
    bench.flush();
    assert_eq!(bench.sent(), " unflushed");
    assert_eq!(bench.channel().pending_bytes(), 0);
    source.wake();
    bench.run();
    assert!(bench.channel().is_open());
}

#[test]
fn k11_a_handler_removed_in_the_middle_of_a_source_closes_the_channel() {
    for keeps_open in [false, true] {
        let mut bench = bench();
        let source = SourceControl::default();
        let message = source.message();
        let message = if keeps_open { message.keep_open_on_failure() } else { message };
        let chunked = bench.write_outbound(message);
        source.give_all(&["half"]);
        bench.run();
        let behind = bench.send(" behind");
        remove(&mut bench);
        assert!(chunked.join().is_err());
        assert_eq!((bench.channel().is_open(), behind.join().is_ok()), (keeps_open, keeps_open));
        assert_eq!(bench.sent(), if keeps_open { "half behind" } else { "half" });
    }
}

#[test]
fn k11_operations_behind_a_source_are_passed_on_at_the_removal() {
    let mut bench = bench();
    let (_source, _chunked) = bench.send_source();
    let closed = bench.on_loop(Channel::close);
    remove(&mut bench);
    assert!(closed.is_done() && !bench.channel().is_open());

    let mut bench = self::bench();
    let (_source, _chunked) = bench.send_source();
    let ended = bench.on_loop(Channel::shutdown_output);
    remove(&mut bench);
    assert!(ended.is_done());
}

#[test]
fn k11_written_chunks_of_a_removed_handler_still_complete_their_write() {
    let mut bench = bench();
    bench.set_room(0);
    let mut chunked =
        bench.write_outbound(ChunkedMessage::from_chunks([Bytes::from_static(b"all")]));
    remove(&mut bench);
    bench.set_room(3);
    bench.run();
    assert!(is_written(&mut chunked));
}

#[test]
fn k11_a_replaced_handler_leaves_nothing_to_the_next_one() {
    let mut bench = bench();
    let (_source, chunked) = bench.send_source();
    bench
        .with_pipeline(|pipeline| {
            pipeline.replace("chunks", "chunks", ChunkedWriter::new()).unwrap()
        })
        .unwrap();
    assert!(chunked.join().is_err());
    bench
        .write_outbound(ChunkedMessage::from_chunks([Bytes::from_static(b"fresh")]))
        .join()
        .unwrap();
    assert_eq!(bench.sent(), "fresh");
}

/// Removes the handler while one of its chunks is on its way.
struct RemovesWriter;

impl waterwheel_channel::Handler for RemovesWriter {
    fn write(
        &mut self,
        ctx: &waterwheel_channel::Ctx<'_>,
        msg: waterwheel_channel::Msg,
        done: &mut waterwheel_channel::Completion,
    ) -> waterwheel_channel::HandlerResult {
        ctx.pipeline().remove_if_present("chunks")?;
        ctx.write_with(msg, done.take());
        Ok(())
    }
}

#[test]
fn k11_a_handler_removed_by_its_own_chunk_requests_no_more() {
    let mut bench = bench();
    bench.with_pipeline(|pipeline| pipeline.add_first("removes", RemovesWriter).unwrap());
    let (source, chunked) = bench.send_source();
    source.give_all(&["a", "b"]);
    bench.run();
    assert!(source.is_dropped() && chunked.join().is_err());
    assert_eq!(bench.sent(), "a");
    assert!(!bench.channel().is_open(), "half of the message was sent");
}
