//! Streams that connect or are refused, and resets in the middle of reads and writes (C02).

use std::io::ErrorKind;
use std::net::SocketAddr;

use waterwheel_channel::{
    Channel, ChannelOptions, Completion, ConnectTarget, Ctx, Edit, Events, Handler, HandlerResult,
    NewChannel, Stream,
};
use waterwheel_executor::Error;
use waterwheel_testkit::faulty::{DriverCall, FailTimes};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::{Manual, PendingConnect};

use crate::support::{Log, RecordingHandler, StreamFixture, over_both_drivers};

/// Connects in `on_registered` and logs the outcome.
struct ConnectsWhenRegistered(Log);

impl Handler for ConnectsWhenRegistered {
    fn interest(&self) -> Events {
        Events::REGISTERED
    }

    fn on_registered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let log = self.0.clone();
        let note = move |result: Result<(), Error>| {
            let text = result
                .map_or_else(|error| format!("not connected: {error}"), |()| "connected".into());
            log.borrow_mut().push(text);
        };
        ctx.connect_with(ConnectTarget::from(unused_address()), Completion::local(note));
        ctx.fire_registered();
        Ok(())
    }
}

fn unused_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

fn dial(manual: &Manual) -> (Bench, Channel, PendingConnect, Log) {
    let mut bench = Bench::new(manual);
    let log = Log::default();
    let add = |edit: &mut Edit<'_>| {
        edit.add_last("probe", RecordingHandler::new(&log))?;
        edit.add_first("connects", ConnectsWhenRegistered(log.clone()))?;
        Ok(())
    };
    let sockets = manual.sockets();
    let new = NewChannel::new(Stream::new(sockets.clone()));
    let channel = bench.here(|here| here.register_with(new, add)).unwrap();
    bench.turns(3);
    let dial = sockets.next_connect().expect("the channel connects");
    (bench, channel, dial, log)
}

#[test]
fn c02_the_connect_of_a_stream_completes_before_on_active() {
    over_both_drivers(|manual| {
        let (mut bench, channel, dial, log) = dial(&manual);
        assert_eq!((dial.target(), channel.is_active()), (Some(unused_address()), false));
        let peer = dial.accept();
        peer.send("early");
        bench.turns(5);
        let order = ["added", "registered", "connected", "active", "read 5", "read complete"];
        assert_eq!(*log.borrow(), order);
        assert!(channel.is_active());
    });
}

#[test]
fn c02_a_refused_connect_closes_a_channel_that_never_was_active() {
    for why in [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset] {
        over_both_drivers(|manual| {
            let (mut bench, channel, dial, log) = dial(&manual);
            dial.refuse(why);
            bench.turns(5);
            let refused = format!(
                "not connected: cannot connect to {}: {}",
                unused_address(),
                std::io::Error::from(why)
            );
            let order = ["added", "registered", &*refused, "unregistered", "removed"];
            assert_eq!(*log.borrow(), order);
            assert!(channel.closed().is_done());
        });
    }
}

#[test]
fn c02_a_close_fails_the_connect_that_is_under_way() {
    over_both_drivers(|manual| {
        let (mut bench, channel, dial, log) = dial(&manual);
        bench.here(|_| drop(channel.close()));
        bench.turns(5);
        let order = [
            "added",
            "registered",
            "not connected: the channel is closed",
            "unregistered",
            "removed",
        ];
        assert_eq!(*log.borrow(), order);
        assert!(channel.closed().is_done() && dial.is_closed());
    });
}

/// Checks that a reset closed the channel once and that the writes had these outcomes.
fn assert_reset(fixture: &StreamFixture, write_outcomes: &[(usize, bool)]) {
    let log = fixture.take_log();
    let end: Vec<&str> = log.iter().rev().take(3).rev().map(String::as_str).collect();
    assert_eq!(end, ["inactive", "unregistered", "removed"], "{log:?}");
    assert_eq!(log.iter().filter(|entry| *entry == "inactive").count(), 1, "{log:?}");
    assert_eq!(fixture.write_outcomes(), write_outcomes);
    assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
    assert_eq!(fixture.channel.pending_bytes(), 0);
}

#[test]
fn c02_a_reset_in_the_middle_of_a_read_closes_the_channel() {
    over_both_drivers(|manual| {
        let options = ChannelOptions::default();
        let mut fixture = StreamFixture::with(&manual, &manual, options, |_, peer| peer.reset());
        fixture.peer.send("hello");
        fixture.run();
        let log = fixture.log.borrow().clone();
        assert!(log.contains(&"read 5".into()), "{log:?}");
        assert!(log.iter().any(|entry| entry.starts_with("error connection reset")), "{log:?}");
        assert_reset(&fixture, &[]);
    });
}

#[test]
fn c02_a_reset_fails_writes_that_were_not_flushed() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.write(0, "hello", false);
        fixture.peer.reset();
        fixture.run();
        assert_reset(&fixture, &[(0, false)]);
    });
}

#[test]
fn c02_a_reset_fails_the_flush_that_meets_it() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.write(0, "hello", false);
        fixture.write(1, "world", false);
        fixture.peer.reset();
        fixture.on_loop(|channel| channel.flush());
        fixture.write(2, "late", true);
        fixture.run();
        assert_eq!(fixture.write_outcomes().len(), 3);
        let mut write_outcomes = fixture.write_outcomes();
        write_outcomes.sort_unstable();
        assert_eq!(write_outcomes, [(0, false), (1, false), (2, false)]);
        let write_outcomes = fixture.write_outcomes();
        assert_reset(&fixture, &write_outcomes);
    });
}

#[test]
fn c02_a_reset_fails_a_write_that_waits_for_room() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(3);
        fixture.write(0, "abc", true);
        fixture.run();
        fixture.write(1, "hello", true);
        fixture.run();
        fixture.peer.reset();
        fixture.run();
        assert_reset(&fixture, &[(0, true), (1, false)]);
    });
}

#[test]
fn c02_what_fails_after_a_broken_write_says_why() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.bench.faults.fail(DriverCall::Write, FailTimes::Next(1), ErrorKind::BrokenPipe);
        let (first, second) = fixture.on_loop(|channel| {
            (
                channel.write_and_flush(bytes::Bytes::from("x")),
                channel.write(bytes::Bytes::from("y")),
            )
        });
        fixture.run();
        let error = first.join().unwrap_err().to_string();
        assert!(error.starts_with("the channel is closed: ") && error.contains("pipe"), "{error}");
        assert!(second.join().is_err());
        assert_reset(&fixture, &[]);
    });
}
