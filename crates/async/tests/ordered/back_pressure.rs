//! Limits of the requests and answers that a peer which pipelines, or does not read, can make the handler hold.

use waterwheel_channel::{ChannelOptions, WaterMarks};

use crate::support::{Bench, bench, bench_with};

#[test]
fn c19_ordered_no_more_calls_run_than_allowed() {
    let mut bench = bench(2);
    bench.send([1, 2, 3, 4, 5]);
    assert_eq!(bench.calls.begun(), [1, 2]);
    bench.finish(2);
    assert!(
        bench.calls.begun().is_empty(),
        "an answer that waits for an earlier one takes a place"
    );
    bench.finish(1);
    assert_eq!(bench.calls.begun(), [3, 4]);
    bench.finish_together([3, 4, 5]);
    assert_eq!(bench.answers(), ["a1", "a2", "a3", "a4", "a5"]);
}

#[test]
fn c19_ordered_a_peer_that_pipelines_without_end_is_read_no_further_than_one_read() {
    let mut bench = bench(2);
    for read in 0..100 {
        bench.send(read * 10..read * 10 + 10);
    }
    assert_eq!(bench.calls.begun().len(), 2, "under way");
    assert_eq!(bench.unread(), 99, "nothing was read after the read with the last call to begin");
    // While requests of that read are held, nothing else is read.
    bench.finish_together([0, 1]);
    assert_eq!((bench.calls.begun().len(), bench.unread()), (2, 99));
    bench.finish_together(2..9);
    assert_eq!(bench.unread(), 98, "one call is left, so there is room for another: one more read");
    assert_eq!(bench.calls.begun(), [4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn c19_ordered_reads_pause_when_the_last_call_has_begun_not_at_the_request_after_it() {
    let mut bench = bench(2);
    bench.send([1]);
    bench.send([2]);
    bench.send([3, 4, 5]);
    assert_eq!(bench.unread(), 1);
    bench.finish(1);
    assert_eq!((bench.unread(), bench.calls.begun()), (0, vec![1, 2, 3]));
}

/// A channel whose peer reads nothing, with room for two answers.
fn slow_reader(max_concurrent: usize) -> Bench {
    let options =
        ChannelOptions { water_marks: WaterMarks::new(3, 5).unwrap(), ..ChannelOptions::default() };
    let mut bench = bench_with(options, |builder| builder.max_concurrent(max_concurrent));
    bench.set_room(0);
    bench
}

#[test]
fn c19_ordered_no_call_begins_while_the_channel_is_not_writable() {
    let mut bench = slow_reader(8);
    (1..=9).for_each(|number| bench.calls.finish(number));
    bench.send([1, 2, 3, 4, 5]);
    bench.send([6, 7, 8, 9]);
    assert_eq!(bench.calls.begun(), [1, 2, 3], "three answers are above the mark of five bytes");
    assert_eq!(bench.unread(), 1, "reads are paused, although the channel is not accepted");
    bench.clear_faults();
    let answers: Vec<_> = (1..=9).map(|number| format!("a{number}")).collect();
    assert_eq!(bench.answers(), answers);
}

#[test]
fn c19_ordered_calls_under_way_are_answered_while_the_channel_is_not_writable() {
    let mut bench = slow_reader(4);
    bench.send([1, 2, 3, 4, 5]);
    bench.finish_together([1, 2, 3, 4]);
    assert_eq!(bench.channel().pending_bytes(), 8, "at most `max_concurrent` answers");
    assert_eq!(bench.calls.begun(), [1, 2, 3, 4], "the fifth call has not begun");
    bench.clear_faults();
    assert_eq!(bench.calls.begun(), [5]);
    bench.finish(5);
    assert_eq!(bench.answers(), ["a1", "a2", "a3", "a4", "a5"]);
}

#[test]
fn c19_ordered_answers_beyond_the_mark_are_flushed_at_once_and_the_batch_goes_on() {
    let options =
        ChannelOptions { water_marks: WaterMarks::new(3, 5).unwrap(), ..ChannelOptions::default() };
    let mut bench = bench_with(options, |builder| builder);
    (1..=9).for_each(|number| bench.calls.finish(number));
    bench.send(1..=9);
    assert_eq!(bench.calls.begun().len(), 9);
    assert_eq!(bench.answers().len(), 9);
    bench.calls.finish(10);
    bench.send([10]);
    assert_eq!(bench.answers(), ["a10"], "reads have resumed");
}

#[test]
fn c19_ordered_without_auto_read_requests_are_answered_as_they_are_read() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut bench = bench_with(options, |builder| builder.max_concurrent(1));
    bench.send([1, 2]);
    assert!(bench.calls.begun().is_empty());
    bench.read();
    assert_eq!(bench.calls.begun(), [1]);
    bench.send([3]);
    bench.read();
    bench.finish(1);
    assert_eq!((bench.calls.begun(), bench.unread()), (vec![2], 1), "paused");
    bench.finish(2);
    assert_eq!((bench.calls.begun(), bench.unread()), (vec![3], 0), "the read was kept");
}
