//! Back-pressure, waiting sources, and the budget of a turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, LocalLoop, Msg, WaterMarks, yield_now};
use waterwheel_handlers::{ChunkedMessage, ChunkedWriter};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{bench, bench_with, failure, is_written, marks, small_bench};

/// Returns a message of `count` chunks of `len` bytes, and the number of chunks that were requested.
fn counted(count: usize, len: usize) -> (ChunkedMessage, Arc<AtomicUsize>) {
    let pulled = Arc::new(AtomicUsize::new(0));
    let counter = pulled.clone();
    let chunks = (0..count).map(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Bytes::from(vec![b'x'; len])
    });
    (ChunkedMessage::from_chunks(chunks), pulled)
}

#[test]
fn k11_the_next_chunk_is_requested_only_while_the_channel_is_writable() {
    let mut bench = small_bench();
    bench.set_room(0);
    let (message, pulled) = counted(100, 10);
    let future = bench.write_outbound(message);
    let pulled = || pulled.load(Ordering::Relaxed);
    assert_eq!((pulled(), bench.channel().pending_bytes()), (11, 110), "beyond the mark of 100");
    bench.set_room(60); // 50 are left: not below the low-water mark.
    bench.run();
    assert_eq!((pulled(), bench.channel().pending_bytes()), (11, 50));
    bench.set_room(1); // Below: the pump goes on to the high-water mark.
    bench.run();
    assert_eq!((pulled(), bench.channel().pending_bytes()), (17, 109));
    let mut most = 0;
    for _ in 0..200 {
        bench.set_room(7);
        bench.run();
        most = most.max(bench.channel().pending_bytes());
    }
    assert!(most <= 110, "{most}");
    assert!(pulled() == 100 && future.is_done());
    assert_eq!(bench.sent().len(), 1000);
}

#[test]
fn k11_a_waiting_source_is_resumed_by_a_wake_from_any_thread() {
    let mut bench = bench();
    let (source, _future) = bench.send_source();
    let polls = source.polls();
    assert_eq!(polls, 1);
    bench.run();
    assert_eq!(source.polls(), polls, "not polled before the wake");
    thread::scope(|scope| {
        scope.spawn(|| source.give_all(&["from afar"]));
    });
    bench.run();
    assert_eq!(bench.sent(), "from afar");
    source.wake();
    bench.run();
    assert_eq!(bench.sent(), "", "a wake without a chunk is no end");
}

/// Runs the loop until `turns` turns have passed and returns what `look` returned after each; then closes the channel.
fn watch_turns(
    channel: &mut Embedded,
    turns: usize,
    look: impl Fn() -> usize + 'static,
) -> Vec<usize> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    channel.on_loop(|channel| {
        let channel = channel.clone();
        let here = LocalLoop::current().expect("on the loop");
        drop(here.spawn_local(async move {
            for _ in 0..turns {
                yield_now().await;
                log.borrow_mut().push(look());
            }
            drop(channel.disconnect());
        }));
    });
    channel.run();
    seen.take()
}

#[test]
fn k11_a_turn_passes_on_at_most_its_bytes() {
    let writer = ChunkedWriter::builder().bytes_per_turn(100);
    let mut bench = bench_with(Embedded::builder().stream(), writer);
    let (message, pulled) = counted(usize::MAX, 30);
    bench.on_loop(|channel| drop(channel.write_and_flush(message)));
    let counts = watch_turns(&mut bench, 8, move || pulled.load(Ordering::Relaxed));
    let steps: Vec<_> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step == 4), "120 bytes a turn: {steps:?}");
}

#[test]
fn k11_empty_chunks_for_ever_leave_the_loop_to_others() {
    let mut bench = bench();
    let (message, pulled) = counted(usize::MAX, 0);
    let future = bench.on_loop(|channel| channel.write_and_flush(message));
    let counts = watch_turns(&mut bench, 8, move || pulled.load(Ordering::Relaxed));
    let steps: Vec<_> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step == 64), "{steps:?}");
    assert!(failure(future).starts_with("the channel is closed"));
}

#[test]
fn k11_a_source_that_wakes_itself_for_ever_leaves_the_loop_to_others() {
    let mut bench = bench();
    let polls = Arc::new(AtomicUsize::new(0));
    let counter = polls.clone();
    let message = ChunkedMessage::from_poll(move |cx| {
        counter.fetch_add(1, Ordering::Relaxed);
        cx.waker().wake_by_ref();
        Poll::<Option<Result<Bytes, _>>>::Pending
    });
    bench.on_loop(|channel| drop(channel.write_and_flush(message)));
    let counts = watch_turns(&mut bench, 8, move || polls.load(Ordering::Relaxed));
    assert!(counts.windows(2).all(|pair| pair[1] - pair[0] == 1), "{counts:?}");
}

#[test]
fn k11_small_chunks_in_flight_are_bounded_by_their_number() {
    let mut bench = bench();
    bench.set_room(0);
    let (message, pulled) = counted(10_000, 1);
    let future = bench.write_outbound(message);
    assert_eq!(pulled.load(Ordering::Relaxed), 256);
    bench.set_room(127);
    bench.run();
    assert_eq!(pulled.load(Ordering::Relaxed), 256, "goes on when half of them are written");
    bench.set_room(1);
    bench.run();
    assert_eq!(pulled.load(Ordering::Relaxed), 384);
    bench.clear_faults();
    bench.set_room(usize::MAX);
    bench.run();
    future.join().unwrap();
    assert_eq!(bench.sent().len(), 10_000);
}

#[test]
fn k11_messages_behind_a_source_count_as_pending_and_do_not_stop_it() {
    let mut bench = small_bench();
    let (source, mut chunked) = bench.send_source();
    assert_eq!(bench.channel().pending_bytes(), 0, "a source that has begun counts by its chunks");
    let behind: Vec<_> =
        (0..3).map(|_| bench.send("0123456789012345678901234567890123456789")).collect();
    assert_eq!((bench.channel().pending_bytes(), bench.channel().is_writable()), (120, false));
    bench.set_room(0);
    (0..20).for_each(|_| source.give(Bytes::from_static(b"abcdefghij")));
    source.finish();
    bench.run();
    let pending = bench.channel().pending_bytes();
    assert_eq!(pending, 170, "the low-water mark of chunks, and the messages behind");
    for _ in 0..40 {
        bench.set_room(10);
        bench.run();
        assert!(bench.channel().pending_bytes() <= pending);
    }
    assert!(is_written(&mut chunked));
    behind.into_iter().for_each(|future| future.join().unwrap());
    assert_eq!(bench.sent().len(), 320);
    assert!(bench.channel().is_writable());
}

#[test]
fn k11_bytes_written_before_the_source_do_not_stop_it_for_ever() {
    let mut bench = small_bench();
    bench.set_room(0);
    bench.on_loop(|channel| channel.send(Bytes::from(vec![b'1'; 90])));
    let (source, mut chunked) = bench.send_source();
    bench.on_loop(|channel| channel.send(Bytes::from(vec![b'3'; 90])));
    bench.run();
    bench.clear_faults();
    bench.set_room(90);
    bench.run();
    assert_eq!(bench.channel().pending_bytes(), 90, "no event announces room");
    source.give_all(&["2222222222", "2222222222"]);
    source.finish();
    bench.set_room(usize::MAX);
    bench.run();
    assert!(is_written(&mut chunked));
    assert_eq!(bench.sent().len(), 200);
}

#[test]
fn k11_waiting_sources_count_as_eight_kib_each() {
    let mut bench = bench();
    let waiting: Vec<_> = (0..10).map(|_| bench.send_source()).collect();
    assert_eq!(bench.channel().pending_bytes(), 9 * ChunkedMessage::PENDING_BYTES);
    assert!(!bench.channel().is_writable());
    for (source, _) in &waiting {
        source.give_all(&["."]);
        source.finish();
    }
    bench.run();
    assert_eq!((bench.sent().as_str(), bench.channel().pending_bytes()), ("..........", 0));
    assert!(waiting.into_iter().all(|(source, future)| source.is_dropped() && future.is_done()));
}

#[test]
fn k11_a_message_beyond_the_hard_cap_is_refused_in_the_queue_too() {
    let cap = WaterMarks::new(50, 100).unwrap().with_hard_cap(10_000).unwrap();
    let options = ChannelOptions { water_marks: cap, ..Default::default() };
    let mut bench =
        bench_with(Embedded::builder().stream().options(options), ChunkedWriter::builder());
    let (source, _chunked) = bench.send_source();
    let kept = bench.on_loop(|channel| channel.write_and_flush(Bytes::from(vec![b'k'; 9900])));
    let refused = bench.on_loop(|channel| channel.write_and_flush(Bytes::from(vec![b'r'; 101])));
    bench.run();
    assert_eq!(
        failure(refused),
        "write of 101 bytes refused: 9900 bytes are pending, the hard cap is 10000"
    );
    let (second, refused) = bench.send_source();
    assert!(failure(refused).contains("8192 bytes refused") && second.is_dropped());
    source.finish();
    bench.run();
    assert!(kept.is_done());
    assert_eq!(bench.sent().len(), 9900);
}

#[test]
fn k11_nothing_is_sent_behind_a_chunk_beyond_the_hard_cap() {
    let cap = WaterMarks::new(50, 100).unwrap().with_hard_cap(10_000).unwrap();
    let options = ChannelOptions { water_marks: cap, ..Default::default() };
    let mut bench =
        bench_with(Embedded::builder().stream().options(options), ChunkedWriter::builder());
    let chunks = [vec![b'a'; 10], vec![b'b'; 10_001], vec![b'c'; 10]].map(Bytes::from);
    let broken = bench.on_loop(|channel| channel.write(ChunkedMessage::from_chunks(chunks)));
    let next = bench.send("next");
    assert_eq!(bench.sent(), "a".repeat(10), "the second chunk is missing");
    assert!(failure(broken).contains("10001 bytes refused") && !bench.channel().is_open());
    assert!(next.join().is_err());
}

#[test]
fn k11_a_declared_unwritable_channel_requests_no_chunk() {
    let mut bench = bench();
    let (message, pulled) = counted(5, 10);
    let declaration = Rc::new(RefCell::new(None));
    let slot = declaration.clone();
    bench.with_pipeline(|pipeline| {
        pipeline.add_first("gate", Declares(slot)).unwrap();
    });
    let future = bench.write_outbound(message);
    assert_eq!(pulled.load(Ordering::Relaxed), 0);
    declaration.take();
    bench.run();
    assert_eq!(pulled.load(Ordering::Relaxed), 5);
    assert!(future.is_done());
}

/// Declares the channel unwritable from the start, until the test takes the declaration.
struct Declares(Rc<RefCell<Option<waterwheel_channel::Unwritable>>>);

impl waterwheel_channel::Handler for Declares {
    fn on_added(&mut self, ctx: &waterwheel_channel::Ctx<'_>) -> waterwheel_channel::HandlerResult {
        *self.0.borrow_mut() = Some(ctx.declare_unwritable());
        Ok(())
    }
}

#[test]
fn k11_messages_without_a_size_keep_flat_memory() {
    struct Sizeless;
    impl waterwheel_channel::Message for Sizeless {}
    let mut bench = bench_with(Embedded::builder().options(marks(1, 2)), ChunkedWriter::builder());
    bench.set_room(0);
    let pulled = Arc::new(AtomicUsize::new(0));
    let counter = pulled.clone();
    let chunks = (0..1000).map(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Msg::from(Sizeless)
    });
    let future = bench.write_outbound(ChunkedMessage::from_chunks(chunks));
    assert_eq!(pulled.load(Ordering::Relaxed), 256);
    bench.set_room(usize::MAX);
    bench.run();
    future.join().unwrap();
}
