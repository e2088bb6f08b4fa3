//! Lifetime of the handler: when idleness is measured.

use bytes::Bytes;
use waterwheel_channel::{Address, Ctx, Handler, HandlerResult};
use waterwheel_handlers::{IdleHandler, IdleKind};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Bench, EventRecorder, MS, bench, bench_with, idle};

const READER: IdleKind = IdleKind::Reader;

#[test]
fn c14_time_counts_from_when_the_channel_is_active() {
    let mut bench = bench_with(
        Embedded::builder().stream().unconnected(),
        idle().reader(MS * 10).writer(MS * 10),
    );
    bench.advance(MS * 50);
    assert_eq!((bench.events(), bench.timers()), (vec![], 0));
    bench.on_loop(|channel| drop(channel.connect(Address::local("there"))));
    bench.run();
    assert!(bench.channel().is_active());
    bench.advance(MS * 9);
    assert_eq!(bench.events(), []);
    bench.advance(MS);
    assert_eq!(bench.events(), [(60, READER, true), (60, IdleKind::Writer, true)]);
}

#[test]
fn c14_time_counts_from_when_the_handler_is_added_to_an_active_channel() {
    let recorder = EventRecorder::default();
    let told = recorder.0.clone();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("recorder", recorder)?;
        Ok(())
    });
    let mut bench = Bench::of(channel.unwrap(), told);
    bench.write();
    bench.advance(MS * 50);
    bench.with_pipeline(|pipeline| {
        let handler = idle().reader(MS * 10).writer(MS * 20).build().unwrap();
        pipeline.add_first("idle", handler).unwrap();
    });
    bench.advance(MS * 10);
    bench.advance(MS * 10);
    let told = [(60, READER, true), (70, READER, false), (70, IdleKind::Writer, true)];
    let mut found = bench.events();
    found.sort_by_key(|(at, kind, _)| (*at, *kind as u32));
    assert_eq!(found, told);
}

#[test]
fn c14_a_removed_handler_fires_no_more_events() {
    let mut bench = bench(idle().reader(MS * 10).writer(MS * 10).all(MS * 10));
    bench.advance(MS * 5);
    bench.with_pipeline(|pipeline| pipeline.remove("idle").unwrap());
    assert_eq!(bench.timers(), 0);
    bench.advance(MS * 100);
    assert_eq!(bench.events(), []);
}

#[test]
fn c14_a_handler_that_is_added_again_restarts() {
    let handler = idle().reader(MS * 10).writer(MS * 10).build().unwrap();
    let mut bench = bench(idle().reader(MS * 10).writer(MS * 10));
    bench.write();
    bench.advance(MS * 10);
    let told = [(10, READER, true), (10, IdleKind::Writer, true)];
    assert_eq!(bench.events(), told);
    bench.advance(MS * 4);
    let again = handler.clone();
    bench.with_pipeline(move |pipeline| pipeline.replace("idle", "idle", again).unwrap());
    assert_eq!(bench.timers(), 2, "those of the one before are gone");
    bench.advance(MS * 9);
    assert_eq!(bench.events(), []);
    bench.advance(MS);
    let told = [(24, READER, true), (24, IdleKind::Writer, true)];
    assert_eq!(bench.events(), told, "the first it tells, and not what it was told before");
}

#[test]
fn c14_a_clone_has_fresh_state() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.advance(MS * 10);
    let clone = bench.with_pipeline(|pipeline| {
        let slot = pipeline.slot("idle").unwrap();
        pipeline.with_handler(slot, |idle: &mut IdleHandler| idle.clone())
    });
    let clone = clone.flatten().unwrap();
    bench.with_pipeline(move |pipeline| pipeline.replace("idle", "idle", clone).unwrap());
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(10, READER, true), (20, READER, true)]);
}

#[test]
fn c14_a_closed_channel_is_not_idle() {
    let mut bench = bench(idle().reader(MS * 10).writer(MS * 10).all(MS * 10));
    bench.advance(MS * 5);
    bench.close();
    assert_eq!(bench.timers(), 0);
    bench.advance(MS * 100);
    assert_eq!(bench.events(), []);
}

#[test]
fn c14_the_end_of_the_stream_ends_the_events() {
    let mut bench = bench(idle().reader(MS * 10));
    bench.finish_inbound();
    bench.advance(MS * 100);
    assert_eq!((bench.events(), bench.timers()), (vec![], 0));
}

/// Adds an idle handler while `on_active` is being fired.
struct Adds(Option<EventRecorder>);

impl Handler for Adds {
    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        assert!(ctx.is_active(), "and about to say so");
        if let Some(recorder) = self.0.take() {
            ctx.pipeline().add_last("idle", idle().reader(MS * 10).build()?)?;
            ctx.pipeline().add_last("recorder", recorder)?;
        }
        Ok(())
    }
}

#[test]
fn c14_a_handler_that_is_added_while_the_channel_becomes_active_starts_once() {
    let recorder = EventRecorder::default();
    let told = recorder.0.clone();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("adds", Adds(Some(recorder)))?;
        Ok(())
    });
    let mut bench = Bench::of(channel.unwrap(), told);
    assert_eq!(bench.timers(), 1);
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(10, READER, true)]);
}

#[test]
fn c14_messages_and_read_completes_are_passed_on() {
    let mut bench = bench(idle().reader(MS * 10).all(MS * 10));
    bench.write_inbound(Bytes::from_static(b"in"));
    assert_eq!(bench.read_inbound::<Bytes>().unwrap(), "in");
    bench.write();
    assert_eq!(bench.read_outbound::<Bytes>().unwrap(), "out");
    assert_eq!(bench.unread(), 0, "the end of the round has reached whoever reads on");
    bench.write_inbound(Bytes::from_static(b"more"));
    assert_eq!(bench.read_inbound::<Bytes>().unwrap(), "more");
}
