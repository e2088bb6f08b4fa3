//! Writer and all idleness: nothing is written, or neither read nor written.

use std::thread;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
use waterwheel_handlers::IdleKind;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Bench, EventRecorder, MS, NS, bench, bench_with, idle};

const WRITER: IdleKind = IdleKind::Writer;
const ALL: IdleKind = IdleKind::All;

#[test]
fn c14_a_write_restarts_the_limit_to_the_nanosecond() {
    let mut bench = bench(idle().writer(MS * 10));
    bench.advance(MS * 10 - NS);
    assert_eq!(bench.events(), []);
    bench.advance(NS);
    assert_eq!(bench.events(), [(10, WRITER, true)]);
    bench.advance(MS * 4);
    bench.write();
    bench.advance(MS * 10 - NS);
    assert_eq!(bench.events(), []);
    bench.advance(NS);
    assert_eq!(bench.events(), [(24, WRITER, true)]);
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(34, WRITER, false)]);
}

#[test]
fn c14_reads_do_not_count_as_writes() {
    let mut bench = bench(idle().writer(MS * 10));
    bench.advance(MS * 5);
    bench.read();
    bench.advance(MS * 5);
    assert_eq!(bench.events(), [(10, WRITER, true)]);
}

#[test]
fn c14_an_unflushed_write_does_not_count() {
    let mut bench = bench(idle().writer(MS * 10));
    bench.advance(MS * 5);
    bench.on_loop(|channel| drop(channel.write(Bytes::from_static(b"later"))));
    bench.run();
    bench.advance(MS * 5);
    assert_eq!(bench.events(), [(10, WRITER, true)]);
    bench.on_loop(|channel| channel.flush());
    bench.run();
    bench.advance(MS * 9);
    assert_eq!(bench.events(), []);
    bench.advance(MS);
    assert_eq!(bench.events(), [(20, WRITER, true)]);
}

#[test]
fn c14_a_write_counts_when_the_transport_accepts_any_part_of_it() {
    let mut bench = bench(idle().writer(MS * 10));
    bench.set_room(0);
    bench.write(); // Three bytes.
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(10, WRITER, true)], "it waits");
    bench.advance(MS * 5);
    bench.set_room(1);
    bench.advance(MS * 5);
    bench.set_room(1);
    bench.advance(MS * 9);
    assert_eq!(bench.events(), [], "it is slow, but it goes");
    bench.advance(MS);
    assert_eq!(bench.events(), [(30, WRITER, true)]);
}

#[test]
fn c14_writes_from_another_thread_count() {
    let mut bench = bench(idle().writer(MS * 10));
    bench.advance(MS * 5);
    let channel = bench.channel().clone();
    let other = thread::spawn(move || channel.send(Bytes::from_static(b"from elsewhere")));
    other.join().unwrap();
    bench.run();
    bench.advance(MS * 5);
    assert_eq!(bench.events(), []);
    bench.advance(MS * 5);
    assert_eq!(bench.events(), [(15, WRITER, true)]);
}

#[test]
fn c14_writes_of_earlier_handlers_count() {
    let recorder = EventRecorder::default();
    let told = recorder.0.clone();
    let channel = Embedded::builder().stream().build(|edit| {
        edit.add_last("pings", Pings)?;
        edit.add_last("idle", idle().writer(MS * 10).build()?)?;
        edit.add_last("recorder", recorder)?;
        Ok(())
    });
    let mut bench = Bench::of(channel.unwrap(), told);
    bench.advance(MS * 5);
    bench.read();
    assert!(bench.read_outbound_any().is_some());
    bench.advance(MS * 5);
    assert_eq!(bench.events(), []);
}

/// Replies before the next handler sees the message.
struct Pings;

impl Handler for Pings {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

#[test]
fn c14_messages_other_than_bytes_count() {
    let mut bench = bench_with(Embedded::builder(), idle().writer(MS * 10));
    bench.advance(MS * 5);
    bench.on_loop(|channel| channel.send(()));
    bench.run();
    bench.advance(MS * 5);
    assert_eq!(bench.events(), []);
}

#[test]
fn c14_all_is_idle_when_neither_is_read_nor_written() {
    let mut bench = bench(idle().all(MS * 10));
    bench.advance(MS * 6);
    bench.read();
    bench.advance(MS * 6);
    bench.write();
    bench.advance(MS * 6);
    bench.read();
    bench.advance(MS * 9);
    assert_eq!(bench.events(), []);
    bench.advance(MS);
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(28, ALL, true), (38, ALL, false)]);
    bench.write();
    bench.advance(MS * 10);
    assert_eq!(bench.events(), [(48, ALL, true)]);
}

#[test]
fn c14_each_kind_has_a_limit_of_its_own() {
    let mut bench = bench(idle().reader(MS * 3).writer(MS * 4).all(MS * 5));
    for _ in 0..6 {
        bench.advance(MS);
    }
    let told = [(3, IdleKind::Reader, true), (4, WRITER, true), (5, ALL, true)];
    assert_eq!(bench.events(), [&told[..], &[(6, IdleKind::Reader, false)]].concat());
    bench.write();
    for _ in 0..4 {
        bench.advance(MS);
    }
    let told = [(9, IdleKind::Reader, false), (10, WRITER, true)];
    assert_eq!(bench.events(), told, "the reader has heard nothing since");
}
