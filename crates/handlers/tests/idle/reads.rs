//! Reader idleness: nothing is read.

use bytes::{Buf, Bytes};
use waterwheel_channel::{Decode, Decoder};
use waterwheel_executor::Error;
use waterwheel_handlers::IdleKind;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Bench, EventRecorder, MS, NS, bench, idle};

const READER: IdleKind = IdleKind::Reader;

#[test]
fn c14_a_channel_is_idle_at_the_limit_and_not_before() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 10 - NS);
    assert_eq!(bench.events(), []);
    bench.advance(NS);
    assert_eq!(bench.events(), [(10, READER, true)]);
}

#[test]
fn c14_a_read_restarts_the_limit_to_the_nanosecond() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 4);
    bench.read();
    bench.advance(MS * 3);
    bench.read();
    bench.advance(MS * 3);
    assert_eq!(bench.events(), [], "the timer has looked, and found it was read from");
    bench.advance(MS * 7 - NS);
    assert_eq!(bench.events(), []);
    bench.advance(NS);
    assert_eq!(bench.events(), [(17, READER, true)]);
}

#[test]
fn c14_a_read_just_before_the_limit_counts() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 10 - NS);
    bench.read();
    bench.advance(MS * 10 - NS);
    assert_eq!(bench.events(), []);
    bench.advance(NS);
    assert_eq!(bench.events().len(), 1);
}

#[test]
fn c14_the_event_repeats_and_the_first_one_is_marked() {
    let mut bench = bench(idle().reader(MS * 10));
    for _ in 0..3 {
        bench.advance(MS * 10);
    }
    assert_eq!(bench.events(), [(10, READER, true), (20, READER, false), (30, READER, false)]);
    bench.advance(MS * 5);
    bench.read();
    for _ in 0..4 {
        bench.advance(MS * 5);
    }
    assert_eq!(bench.events(), [(45, READER, true), (55, READER, false)], "since the read at 35");
}

#[test]
fn c14_a_read_at_the_time_of_the_event_makes_the_next_one_the_first_again() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 10);
    bench.read();
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(10, READER, true), (20, READER, true)]);
}

#[test]
fn c14_a_channel_is_not_idle_during_a_read_round() {
    let mut bench = bench(idle().reader(MS * 10).all(MS * 10));
    bench.advance(MS * 5);
    bench.with_pipeline(|pipeline| pipeline.fire_read(Bytes::from_static(b"first")));
    for _ in 0..30 {
        bench.advance(MS);
    }
    assert_eq!(bench.events(), [], "it takes its time");
    bench.with_pipeline(|pipeline| {
        pipeline.fire_read(Bytes::from_static(b"second"));
        pipeline.fire_read_complete();
    });
    for _ in 0..10 {
        bench.advance(MS);
    }
    assert_eq!(
        bench.events(),
        [(45, READER, true), (45, IdleKind::All, true)],
        "it counts from the end of the round, at 35"
    );
}

#[test]
fn c14_a_read_round_without_a_message_does_not_count() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 5);
    bench.with_pipeline(|pipeline| pipeline.fire_read_complete());
    bench.advance(MS * 5);
    assert_eq!(bench.events(), [(10, READER, true)]);
}

#[test]
fn c14_writes_do_not_count_as_reads() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 5);
    bench.write();
    bench.advance(MS * 5);
    assert_eq!(bench.events(), [(10, READER, true)]);
}

#[test]
fn c14_reading_sets_no_timer() {
    let mut bench = bench(idle().reader(MS * 10).writer(MS * 10).all(MS * 10));
    assert_eq!(bench.timers(), 3);
    for _ in 0..100 {
        bench.read();
        bench.write();
        bench.advance(MS / 100);
    }
    assert_eq!(bench.timers(), 3);
    assert_eq!(bench.events(), []);
}

#[test]
fn c14_after_a_decoder_a_partial_message_does_not_count() {
    /// A decoder of messages of two bytes.
    struct Pairs;

    impl Decoder for Pairs {
        type Out = u16;

        fn decode(&mut self, buf: &mut Bytes) -> Result<Option<u16>, Error> {
            Ok((buf.len() >= 2).then(|| buf.get_u16()))
        }
    }

    let recorder = EventRecorder::default();
    let told = recorder.0.clone();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("pairs", Decode::new(Pairs))?;
        edit.add_last("idle", idle().reader(MS * 10).build()?)?;
        edit.add_last("recorder", recorder)?;
        Ok(())
    });
    let mut bench = Bench::of(channel.unwrap(), told);
    bench.advance(MS * 5);
    bench.write_inbound(Bytes::from_static(b"a"));
    bench.advance(MS * 5);
    assert_eq!(bench.events(), [(10, READER, true)], "a slow one does not pass for a busy one");
    bench.write_inbound(Bytes::from_static(b"b"));
    bench.advance(MS * 9);
    assert_eq!(bench.events(), []);
    bench.advance(MS);
    assert_eq!(bench.events(), [(20, READER, true)]);
}
