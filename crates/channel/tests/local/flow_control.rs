//! Flow control between two local channels (C07, C09).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use waterwheel_channel::local::{self as transport, QUEUED_BYTES, QUEUED_MESSAGES};
use waterwheel_channel::{Channel, ChannelOptions, Completion, Message};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::support::{LocalFixture, Log, RecordingHandler};

/// The size of each message: a divisor of `QUEUED_BYTES`.
const SIZE: usize = 1024;

fn payload() -> Bytes {
    Bytes::from_static(&[7; SIZE])
}

fn without_auto_read() -> ChannelOptions {
    ChannelOptions { auto_read: false, ..ChannelOptions::default() }
}

/// Registers two ends of a connection, the second without auto-read.
fn pair_with_idle_reader(
    fixture: &mut LocalFixture,
    log: &Log,
    options: ChannelOptions,
) -> (Channel, Channel) {
    let (a, b) = transport::pair();
    let a = fixture.register(0, a, RecordingHandler::new("a", log));
    (a, fixture.register(1, b.options(options), RecordingHandler::new("b", log)))
}

/// A message that counts its live instances.
struct Counted(Arc<AtomicUsize>, usize);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>, size: usize) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone(), size)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Message for Counted {
    fn size_hint(&self) -> usize {
        self.1
    }
}

#[test]
fn c07_a_peer_that_does_not_read_makes_the_writer_unwritable_and_memory_stays_bounded() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) = pair_with_idle_reader(fixture, &log, without_auto_read());
        let alive = Arc::new(AtomicUsize::new(0));
        fixture.on(0, |_| {
            for _ in 0..100_000 {
                if !a.is_writable() {
                    break;
                }
                a.send(Counted::new(&alive, SIZE));
            }
        });
        let marks = ChannelOptions::default().water_marks;
        let expected = QUEUED_BYTES / SIZE + marks.high() / SIZE + 1;
        assert_eq!(alive.load(Ordering::Relaxed), expected, "the queue, the buffer, and one more");
        assert!(!a.is_writable());
        assert_eq!(a.pending_bytes(), marks.high() + SIZE);
        assert_eq!(log.of("a")[3..], ["unwritable"]);
    });
}

#[test]
fn c07_the_writer_resumes_when_half_of_the_queue_is_read() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let round = ChannelOptions { reads_per_round: 1, ..without_auto_read() };
        let (a, b) = pair_with_idle_reader(fixture, &log, round);
        let full = QUEUED_BYTES / SIZE;
        fixture.on(0, |_| (0..full + 2).for_each(|_| a.send(payload())));
        assert_eq!(a.pending_bytes(), 2 * SIZE, "two messages found no room");
        for read in 1..=full {
            b.read();
            fixture.run();
            let waits = if read < full / 2 { 2 * SIZE } else { 0 };
            assert_eq!(a.pending_bytes(), waits, "after {read} reads");
        }
        b.set_auto_read(true);
        fixture.run();
        assert_eq!(log.of("b").iter().filter(|entry| *entry == "read complete").count(), full + 2);
    });
}

#[test]
fn c07_messages_of_size_zero_are_counted() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = pair_with_idle_reader(fixture, &log, without_auto_read());
        let alive = Arc::new(AtomicUsize::new(0));
        let wrote = Rc::new(RefCell::new(0));
        fixture.on(0, |here| {
            here.with_pipeline(&a, |pipeline| {
                for _ in 0..QUEUED_MESSAGES + 10 {
                    let wrote = wrote.clone();
                    let count = move |_| *wrote.borrow_mut() += 1;
                    pipeline.write_with(Counted::new(&alive, 0), Completion::local(count));
                }
                pipeline.flush();
            })
        });
        assert_eq!(*wrote.borrow(), QUEUED_MESSAGES);
        b.set_auto_read(true);
        fixture.run();
        assert_eq!(*wrote.borrow(), QUEUED_MESSAGES + 10);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "all were read");
    });
}

#[test]
fn c07_one_message_larger_than_the_queue_passes() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) = pair_with_idle_reader(fixture, &log, ChannelOptions::default());
        let alive = Arc::new(AtomicUsize::new(0));
        for size in [10 * QUEUED_BYTES, usize::MAX / 2, 1] {
            fixture.outcome(a.write_and_flush(Counted::new(&alive, size))).unwrap();
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        assert_eq!(log.count("b: read complete"), 3);
    });
}

#[test]
fn c07_a_waiting_writer_is_closed_with_its_peer() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        for reads in [true, false] {
            let log = Log::default();
            let (a, b) = pair_with_idle_reader(fixture, &log, without_auto_read());
            fixture.on(0, |_| a.set_auto_read(reads));
            let full = QUEUED_BYTES / SIZE;
            fixture.on(0, |_| (0..full).for_each(|_| a.send(payload())));
            log.note("a: wrote", a.write_and_flush(payload()));
            fixture.run();
            assert_eq!(log.of("a")[3..], [""; 0], "the write waits");
            // A channel that reads receives the last messages of a peer that closes.
            b.send("last words".to_owned());
            fixture.outcome(b.close()).unwrap();
            assert!(!a.is_open());
            let told = log.of("a");
            let heard = ["read last words", "read complete", "wrote failed: the channel is closed"];
            let broken =
                ["wrote failed: the channel is closed: the peer has closed the connection"];
            let expected: &[&str] = if reads { &heard } else { &broken };
            assert_eq!(told[3..told.len() - 3], *expected);
            assert_eq!(told[told.len() - 3..], ["inactive", "unregistered", "removed"]);
        }
    });
}

#[test]
fn c07_a_waiting_writer_resumes_after_it_is_registered_again() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = pair_with_idle_reader(fixture, &log, without_auto_read());
        let full = QUEUED_BYTES / SIZE;
        fixture.on(0, |_| (0..full + 1).for_each(|_| a.send(payload())));
        fixture.outcome(a.deregister()).unwrap();
        b.set_auto_read(true);
        fixture.run();
        assert_eq!(a.pending_bytes(), SIZE, "the deregistered writer is not notified");
        fixture.outcome(a.register()).unwrap();
        assert_eq!(a.pending_bytes(), 0);
        assert_eq!(log.count("b: read bytes::bytes::Bytes"), full + 1);
    });
}

#[test]
fn c07_unread_messages_are_dropped_with_the_reader_on_its_loop() {
    struct LogsDrop(Log, Channel);
    impl Message for LogsDrop {}
    impl Drop for LogsDrop {
        fn drop(&mut self) {
            // The destructor may call the channel that is being closed: nothing is locked or borrowed.
            self.1.set_auto_read(false);
            self.1.send("from a destructor".to_owned());
            let (here, open) = (self.1.in_event_loop(), self.1.is_open());
            self.0.add(format!("dropped, on its loop {here}, open {open}"));
        }
    }
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = pair_with_idle_reader(
            fixture,
            &log,
            ChannelOptions { auto_read: true, ..without_auto_read() },
        );
        fixture.on(1, |_| b.set_auto_read(false));
        a.send(LogsDrop(log.clone(), b.clone()));
        a.send(LogsDrop(log.clone(), b.clone()));
        fixture.run();
        fixture.outcome(b.close()).unwrap();
        assert_eq!(log.count("dropped, on its loop true, open false"), 2);
        assert!(!a.is_open());
        assert_eq!(fixture.reports(), [""; 0]);
    });
}

#[test]
fn c07_a_message_that_panics_when_it_is_dropped_does_not_disturb_other_channels() {
    struct PanicsWhenDropped;
    impl Message for PanicsWhenDropped {}
    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic_quietly("destructor panics");
        }
    }
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = pair_with_idle_reader(fixture, &log, without_auto_read());
        let alive = Arc::new(AtomicUsize::new(0));
        a.send(Counted::new(&alive, 1));
        a.send(PanicsWhenDropped);
        a.send(PanicsWhenDropped);
        a.send(Counted::new(&alive, 1));
        fixture.run();
        fixture.outcome(b.close()).unwrap();
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        assert_eq!(log.of("b")[3..], ["inactive", "unregistered", "removed"]);
        assert_eq!(fixture.reports().len(), 2, "one report for each panicking destructor");
        let (c, d) =
            fixture.pair(RecordingHandler::new("c", &log), RecordingHandler::new("d", &log));
        c.send("the loop is well".to_owned());
        fixture.run();
        assert_eq!(log.of("d")[3..], ["read the loop is well", "read complete"]);
        drop(d);
    });
}

#[test]
fn c09_a_local_channel_without_auto_read_reads_only_on_request() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = pair_with_idle_reader(
            fixture,
            &log,
            ChannelOptions { reads_per_round: 2, ..without_auto_read() },
        );
        fixture.on(0, |_| (1..=7).for_each(|n| a.send(format!("{n}"))));
        assert_eq!(log.of("b")[3..], [""; 0]);
        b.read();
        fixture.run();
        assert_eq!(log.of("b")[3..], ["read 1", "read 2", "read complete"]);
        b.read();
        fixture.run();
        assert_eq!(log.of("b")[6..], ["read 3", "read 4", "read complete"]);
        b.set_auto_read(true);
        fixture.run();
        let rest = ["read 5", "read 6", "read complete", "read 7", "read complete"];
        assert_eq!(log.of("b")[9..], rest);
        fixture.on(1, |_| b.set_auto_read(false));
        a.send("8".to_owned());
        fixture.outcome(a.close()).unwrap();
        assert_eq!(log.of("b").len(), 14, "the end of the stream is not read either");
        assert!(b.is_active());
        b.read();
        fixture.run();
        b.read();
        fixture.run();
        let end = ["read 8", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log.of("b")[14..], end);
    });
}

#[test]
fn c09_auto_read_switched_off_in_a_round_stops_the_round() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let stops = RecordingHandler::new("b", &log).on_read(|ctx, msg| {
            if msg.get::<String>().is_some_and(|text| text == "2") {
                ctx.channel().set_auto_read(false);
            }
            Ok(())
        });
        let (a, b) = fixture.pair(RecordingHandler::new("a", &log), stops);
        fixture.on(0, |here| {
            here.with_pipeline(&a, |pipeline| {
                (1..=4).for_each(|n| pipeline.write(format!("{n}")));
                pipeline.flush();
            })
        });
        assert_eq!(log.of("b")[3..], ["read 1", "read 2", "read complete"]);
        fixture.on(1, |_| b.set_auto_read(true));
        assert_eq!(log.of("b")[6..], ["read 3", "read 4", "read complete"]);
    });
}

#[test]
fn c09_a_turn_reads_one_round() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = pair_with_idle_reader(fixture, &log, without_auto_read());
        fixture.on(0, |_| (0..64).for_each(|_| a.send("flood".to_owned())));
        b.set_auto_read(true);
        for turn in 1..=4 {
            fixture.bench(1).turn();
            assert_eq!(log.count("b: read flood"), turn * 16);
            assert_eq!(log.count("b: read complete"), turn);
        }
    });
}

#[test]
fn c09_two_flooded_channels_of_one_loop_alternate() {
    const MESSAGES: usize = 64;
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let mut ends = Vec::new();
        for who in ["x", "y"] {
            let (a, b) = transport::pair();
            let a = fixture.register(0, a, RecordingHandler::new("writer", &log));
            let b = fixture.register(
                1,
                b.options(without_auto_read()),
                RecordingHandler::new(who, &log),
            );
            fixture.on(0, |_| (0..MESSAGES).for_each(|n| a.send(format!("{n}"))));
            ends.push((a, b));
        }
        log.take();
        // Both reads are turned on inside one call into a channel: the deferred work runs after both channels read.
        let readers: Vec<_> = ends.iter().map(|(_, b)| b.clone()).collect();
        let begin = || readers.iter().for_each(|b| b.set_auto_read(true));
        fixture.bench(1).here(|here| here.with_pipeline(&readers[0], |_| begin()));
        fixture.run();
        let entries = log.take();
        let rounds: Vec<_> =
            entries.iter().filter_map(|entry| entry.strip_suffix(": read complete")).collect();
        assert_eq!(rounds, ["x", "y"].repeat(MESSAGES / 16));
    });
}
