//! Half-closure of streams (C10).

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_channel::{
    ChannelError, ChannelFuture, ChannelOptions, Completion, Ctx, Events, Handler, HandlerResult,
    Msg, NewChannel, Stream,
};
use waterwheel_executor::Error;
use waterwheel_testkit::faulty::{DriverCall, FailTimes};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::Manual;

use crate::support::{StreamFixture, over_both_drivers};

const CLOSING_EVENTS: [&str; 3] = ["inactive", "unregistered", "removed"];

fn half_closable(manual: &Manual) -> StreamFixture {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut fixture = StreamFixture::with(manual, manual, options, |_, _| ());
    fixture.run();
    fixture.take_log();
    fixture
}

/// The outcome of a future as text; `None` while it is open.
type Outcome = Arc<Mutex<Option<String>>>;

fn outcome(future: ChannelFuture) -> Outcome {
    let outcome = Outcome::default();
    let tell = outcome.clone();
    future.on_complete(move |result| {
        let message = result.map_or_else(|error| error.to_string(), |()| "done".into());
        assert!(tell.lock().unwrap().replace(message).is_none(), "completed once");
    });
    outcome
}

fn outcome_text(outcome: &Outcome) -> Option<String> {
    outcome.lock().unwrap().clone()
}

fn shut_output(fixture: &mut StreamFixture) -> Outcome {
    fixture.on_loop(|channel| outcome(channel.shutdown_output()))
}

#[test]
fn c10_without_half_closure_the_end_of_the_stream_closes_the_channel() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.send("last");
        fixture.peer.finish();
        fixture.run();
        let log = fixture.take_log();
        let order = ["read 4", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log[log.len() - 5..], order);
        assert!(!log.iter().any(|entry| entry.contains("over")), "{log:?}");
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
    });
}

#[test]
fn c10_with_half_closure_the_end_is_fired_once_and_writes_continue() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.peer.send("last");
        fixture.peer.finish();
        fixture.run();
        assert_eq!(fixture.take_log(), ["read 4", "read complete", "Input over"]);
        assert!(fixture.channel.is_active());
        fixture.on_loop(|channel| channel.read());
        fixture.on_loop(|channel| channel.set_auto_read(false));
        fixture.on_loop(|channel| channel.set_auto_read(true));
        fixture.write(0, "answer", true);
        fixture.run();
        assert_eq!(fixture.peer.take_received(), "answer");
        assert_eq!((fixture.take_log(), fixture.write_outcomes()), (vec![], vec![(0, true)]));
        let done = shut_output(&mut fixture);
        fixture.run();
        assert_eq!(fixture.take_log(), ["Output over", "inactive", "unregistered", "removed"]);
        assert_eq!(outcome_text(&done).as_deref(), Some("done"));
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
    });
}

#[test]
fn c10_shutting_the_output_sends_flushed_bytes_first_however_slow_the_peer() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.peer.set_limit(3);
        fixture.write(0, "flushed ", true);
        fixture.write(1, "too", true);
        fixture.write(2, "never flushed", false);
        let done = shut_output(&mut fixture);
        fixture.write(3, "late", true);
        fixture.run();
        assert_eq!(outcome_text(&done), None, "the peer has not read all of it");
        assert_eq!(fixture.take_log(), [""; 0]);
        let mut seen = Vec::new();
        while !fixture.peer.is_ended() {
            seen.extend_from_slice(&fixture.peer.take_received());
            fixture.run();
            assert!(seen.len() < 20, "{seen:?}");
        }
        seen.extend_from_slice(&fixture.peer.take_received());
        assert_eq!(seen, b"flushed too");
        assert_eq!(outcome_text(&done).as_deref(), Some("done"));
        assert_eq!(fixture.take_log(), ["Output over"]);
        let mut write_outcomes = fixture.write_outcomes();
        write_outcomes.sort_unstable();
        assert_eq!(write_outcomes, [(0, true), (1, true), (2, false), (3, false)]);
        assert_eq!(fixture.channel.pending_bytes(), 0);
        fixture.peer.send("still read");
        fixture.run();
        assert_eq!(fixture.take_log(), ["read 10", "read complete"]);
    });
}

#[test]
fn c10_a_refused_write_says_that_the_output_is_shut_down() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        let held = fixture.on_loop(|channel| channel.write(Bytes::from("never flushed")));
        let done = shut_output(&mut fixture);
        fixture.run();
        let late = fixture.on_loop(|channel| channel.write_and_flush(Bytes::from("late")));
        fixture.run();
        for write in [held, late] {
            let error = write.join().unwrap_err();
            let kind = error.find::<ChannelError>();
            assert!(matches!(kind, Some(ChannelError::OutputShutDown)), "{error}");
        }
        assert_eq!(outcome_text(&done).as_deref(), Some("done"));
        assert_eq!(fixture.peer.take_received(), "");
        assert!(fixture.peer.is_ended() && !fixture.peer.is_closed());
    });
}

#[test]
fn c10_a_second_shutdown_completes_with_the_first() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.peer.set_limit(1);
        fixture.write(0, "slow", true);
        let waiting = [shut_output(&mut fixture), shut_output(&mut fixture)];
        fixture.run();
        assert!(waiting.iter().all(|done| outcome_text(done).is_none()));
        fixture.peer.set_limit(100);
        fixture.run();
        let late = shut_output(&mut fixture);
        fixture.run();
        for done in waiting.iter().chain([&late]) {
            assert_eq!(outcome_text(done).as_deref(), Some("done"));
        }
        assert_eq!(fixture.take_log(), ["Output over"]);
        assert_eq!(manual.counts().shutdowns, 1);
    });
}

#[test]
fn c10_a_shut_input_reads_nothing_more_and_is_fired_once() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        let (first, second) = fixture.on_loop(|channel| {
            (outcome(channel.shutdown_input()), outcome(channel.shutdown_input()))
        });
        fixture.peer.send("thrown away");
        fixture.peer.finish();
        fixture.run();
        assert_eq!(fixture.take_log(), ["Input over"]);
        assert_eq!(
            (outcome_text(&first).as_deref(), outcome_text(&second).as_deref()),
            (Some("done"), Some("done"))
        );
        fixture.on_loop(|channel| channel.read());
        fixture.write(0, "answer", true);
        fixture.run();
        assert_eq!(fixture.take_log(), [""; 0]);
        assert_eq!(fixture.peer.take_received(), "answer");
        shut_output(&mut fixture);
        fixture.run();
        assert_eq!(fixture.take_log(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c10_shutting_both_directions_is_fired_before_on_inactive() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        let (input, output) = fixture.on_loop(|channel| {
            let output = outcome(channel.shutdown_output());
            (outcome(channel.shutdown_input()), output)
        });
        fixture.run();
        let mut log = fixture.take_log();
        log[..2].sort();
        assert_eq!(log, ["Input over", "Output over", "inactive", "unregistered", "removed"]);
        assert_eq!(
            (outcome_text(&input).as_deref(), outcome_text(&output).as_deref()),
            (Some("done"), Some("done"))
        );
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
    });
}

#[test]
fn c10_a_shutdown_fails_before_the_connect_and_after_the_close() {
    let manual = Manual::readiness();
    let mut bench = Bench::new(&manual);
    let new = NewChannel::new(Stream::new(manual.sockets()));
    let channel = bench.here(|here| here.register_with(new, |_| Ok(()))).unwrap();
    let early = bench.here(|_| [channel.shutdown_output(), channel.shutdown_input()].map(outcome));
    bench.turns(2);
    for outcome in &early {
        assert_eq!(outcome_text(outcome).as_deref(), Some("the channel is not connected yet"));
    }
    bench.here(|_| drop(channel.close()));
    let late = bench.here(|_| [channel.shutdown_output(), channel.shutdown_input()].map(outcome));
    bench.turns(2);
    let after = bench.here(|_| [channel.shutdown_output(), channel.shutdown_input()].map(outcome));
    for outcome in late.iter().chain(&after) {
        assert_eq!(outcome_text(outcome).as_deref(), Some("the channel is closed"));
    }
}

#[test]
fn c10_a_close_fails_the_shutdown_that_waits_for_the_peer() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.peer.set_limit(3);
        fixture.write(0, "too much", true);
        fixture.run();
        let closed = fixture.channel.closed();
        let done = fixture.on_loop(|channel| {
            let mut shut = channel.shutdown_output();
            shut.add_listener(move |_| assert!(!closed.is_done(), "told before the close future"));
            outcome(shut)
        });
        fixture.run();
        assert_eq!(outcome_text(&done), None);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert_eq!(outcome_text(&done).as_deref(), Some("the channel is closed"));
        assert_eq!(
            (fixture.take_log(), fixture.write_outcomes()),
            (CLOSING_EVENTS.map(Into::into).into(), vec![(0, false)])
        );
    });
}

#[test]
fn c10_a_reset_fails_the_shutdown_that_waits_for_the_peer() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.peer.set_limit(3);
        fixture.write(0, "too much", true);
        let done = shut_output(&mut fixture);
        fixture.run();
        fixture.peer.reset();
        fixture.run();
        let message = outcome_text(&done).expect("the outcome is known");
        assert!(
            message.starts_with("the channel is closed: ") && message.contains("reset"),
            "{message}"
        );
    });
}

#[test]
fn c10_a_write_that_fails_during_a_shutdown_fails_it_with_the_cause() {
    let manual = Manual::readiness();
    let mut fixture = half_closable(&manual);
    fixture.bench.faults.fail(DriverCall::Write, FailTimes::Next(1), ErrorKind::BrokenPipe);
    let done = fixture.on_loop(|channel| {
        drop(channel.write(Bytes::from("x")));
        channel.flush();
        outcome(channel.shutdown_output())
    });
    fixture.run();
    let message = outcome_text(&done).expect("the outcome is known");
    assert!(message.starts_with("the channel is closed: "), "{message}");
    assert_eq!(fixture.take_log(), CLOSING_EVENTS);
}

#[test]
fn c10_a_shutdown_that_the_kernel_refuses_changes_nothing() {
    let manual = Manual::readiness();
    let mut fixture = half_closable(&manual);
    fixture.bench.faults.fail(DriverCall::Shutdown, FailTimes::Next(2), ErrorKind::NotConnected);
    let (input, output) = fixture
        .on_loop(|channel| (outcome(channel.shutdown_input()), outcome(channel.shutdown_output())));
    fixture.run();
    assert!(outcome_text(&input).is_some_and(|message| message != "done"));
    assert!(outcome_text(&output).is_some_and(|message| message != "done"));
    fixture.peer.send("read");
    fixture.write(0, "written", true);
    fixture.run();
    assert_eq!(fixture.take_log(), ["read 4", "read complete"]);
    assert_eq!(fixture.peer.take_received(), "written");
}

#[test]
fn c10_a_cancelled_shutdown_still_ends_the_output() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.peer.set_limit(1);
        fixture.write(0, "slow", true);
        let shut = fixture.on_loop(|channel| channel.shutdown_output());
        fixture.run();
        shut.cancel();
        fixture.peer.set_limit(100);
        fixture.run();
        assert_eq!(
            (fixture.peer.take_received(), fixture.peer.is_ended()),
            (Bytes::from("slow"), true)
        );
        assert_eq!(fixture.take_log(), ["Output over"]);
    });
}

#[test]
fn c10_a_channel_whose_output_is_shut_down_is_not_writable() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        let channel = fixture.channel.clone();
        assert!(channel.is_writable());
        shut_output(&mut fixture);
        fixture.run();
        assert!(!channel.is_writable(), "a loop of writes while it is would never end");
        assert_eq!(channel.bytes_before_unwritable(), 0);
        assert_eq!(fixture.on_loop(|channel| channel.bytes_before_unwritable()), 0);
        assert!(!fixture.on_loop(|channel| channel.is_writable()));
    });
}

#[test]
fn c10_a_shutdown_during_a_close_is_refused() {
    let manual = Manual::completion();
    let mut fixture = half_closable(&manual);
    manual.hold_completions();
    fixture.write(0, "under way", true);
    fixture.on_loop(|channel| drop(channel.close()));
    let done = shut_output(&mut fixture);
    fixture.bench.turns(3);
    assert_eq!(outcome_text(&done).as_deref(), Some("the channel is closed"));
    manual.release();
    fixture.run();
    assert_eq!(
        (fixture.take_log(), fixture.write_outcomes()),
        (CLOSING_EVENTS.map(Into::into).into(), vec![(0, true)])
    );
}

#[test]
fn c10_a_close_after_a_shutdown_delivers_the_bytes_and_completes_both() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        fixture.write(0, "hello", true);
        let done = shut_output(&mut fixture);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert_eq!(
            (fixture.peer.take_received(), fixture.write_outcomes()),
            (Bytes::from("hello"), vec![(0, true)])
        );
        assert_eq!(outcome_text(&done).as_deref(), Some("done"));
        assert_eq!(fixture.take_log(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

/// Answers a read with three writes and a shutdown of the output, inside the call.
struct AnswersAndShutsOutput;

impl Handler for AnswersAndShutsOutput {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(Bytes::from("one "));
        ctx.channel().send(Bytes::from("two "));
        ctx.write_and_flush(Bytes::from("three"));
        ctx.shutdown_output();
        ctx.write_and_flush(Bytes::from(" four"));
        ctx.fire_read(msg);
        Ok(())
    }
}

#[test]
fn c10_a_handler_shuts_the_output_after_its_writes() {
    over_both_drivers(|manual| {
        let mut bench = Bench::new(&manual);
        let (io, peer) = manual.pair();
        let new = NewChannel::new(Stream::connected(io, None))
            .options(ChannelOptions { allow_half_closure: true, ..Default::default() });
        let add = |edit: &mut waterwheel_channel::Edit<'_>| {
            Ok(edit.add_last("answers", AnswersAndShutsOutput).map(drop)?)
        };
        let channel = bench.here(|here| here.register_with(new, add)).unwrap();
        peer.send("go");
        bench.turns(8);
        assert_eq!((peer.take_received(), peer.is_ended()), (Bytes::from("one two three"), true));
        assert!(channel.is_active());
    });
}

/// Holds the shutdown of the output back until a `Resume` event.
#[derive(Default)]
struct HoldsShutdown(Option<Completion>);

impl Handler for HoldsShutdown {
    fn shutdown_output(&mut self, _: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.0 = Some(done.take());
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(done) = self.0.take() {
            ctx.write_and_flush(Bytes::from("trailer"));
            ctx.shutdown_output_with(done);
        }
        ctx.fire_user_event(event);
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Resume;
impl waterwheel_channel::Message for Resume {}

#[test]
fn c10_a_handler_may_delay_a_shutdown_and_write_before_it() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        drop(fixture.on_loop(|channel| {
            channel.with_pipeline(|pipeline| {
                pipeline.add_first("holds", HoldsShutdown::default()).map(drop)
            })
        }));
        let done = shut_output(&mut fixture);
        fixture.run();
        assert_eq!((outcome_text(&done), fixture.peer.is_ended()), (None, false));
        fixture.on_loop(|channel| channel.fire_user_event(Msg::new(Resume)));
        fixture.run();
        assert_eq!(
            (fixture.peer.take_received(), fixture.peer.is_ended()),
            (Bytes::from("trailer"), true)
        );
        assert_eq!(outcome_text(&done).as_deref(), Some("done"));
    });
}

/// Shuts both directions down at the first half-closure event.
struct ShutsBothDirections;

impl Handler for ShutsBothDirections {
    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        ctx.shutdown_output();
        ctx.shutdown_input();
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        panic!("{error}")
    }
}

#[test]
fn c10_shutting_the_second_direction_in_the_event_of_the_first_closes_the_channel() {
    over_both_drivers(|manual| {
        let mut fixture = half_closable(&manual);
        drop(fixture.on_loop(|channel| {
            channel
                .with_pipeline(|pipeline| pipeline.add_first("ends", ShutsBothDirections).map(drop))
        }));
        fixture.peer.finish();
        fixture.run();
        let log = fixture.take_log();
        let order = ["Input over", "Output over", "inactive", "unregistered", "removed"];
        assert_eq!((log[0].as_str(), &log[1..]), ("read complete", &order.map(String::from)[..]));
        assert!(fixture.peer.is_closed());
    });
}
