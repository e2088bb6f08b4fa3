//! One direction of a stream is over (C10).

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

use crate::support::{Line, both};

const ENDED: [&str; 3] = ["inactive", "unregistered", "removed"];

fn half_closable(manual: &Manual) -> Line {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut line = Line::with(manual, manual, options, |_, _| ());
    line.run();
    line.taken_log();
    line
}

/// What became of it, in words; nothing if that is still open.
type Outcome = Arc<Mutex<Option<String>>>;

fn outcome(future: ChannelFuture) -> Outcome {
    let outcome = Outcome::default();
    let tell = outcome.clone();
    future.on_complete(move |result| {
        let words = result.map_or_else(|error| error.to_string(), |()| "done".into());
        assert!(tell.lock().unwrap().replace(words).is_none(), "told once");
    });
    outcome
}

fn said(outcome: &Outcome) -> Option<String> {
    outcome.lock().unwrap().clone()
}

fn shut_output(line: &mut Line) -> Outcome {
    line.here(|channel| outcome(channel.shutdown_output()))
}

#[test]
fn c10_without_half_closure_the_end_of_the_stream_closes_the_channel() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.peer.send("last");
        line.peer.finish();
        line.run();
        let log = line.taken_log();
        let order = ["read 4", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log[log.len() - 5..], order);
        assert!(!log.iter().any(|entry| entry.contains("over")), "{log:?}");
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
    });
}

#[test]
fn c10_with_half_closure_the_end_is_fired_once_and_writes_continue() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.peer.send("last");
        line.peer.finish();
        line.run();
        assert_eq!(line.taken_log(), ["read 4", "read complete", "Input over"]);
        assert!(line.channel.is_active());
        line.here(|channel| channel.read());
        line.here(|channel| channel.set_auto_read(false));
        line.here(|channel| channel.set_auto_read(true));
        line.write(0, "answer", true);
        line.run();
        assert_eq!(line.peer.received(), "answer");
        assert_eq!((line.taken_log(), line.told()), (vec![], vec![(0, true)]));
        let done = shut_output(&mut line);
        line.run();
        assert_eq!(line.taken_log(), ["Output over", "inactive", "unregistered", "removed"]);
        assert_eq!(said(&done).as_deref(), Some("done"));
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
    });
}

#[test]
fn c10_shutting_the_output_sends_flushed_bytes_first_however_slow_the_peer() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.peer.set_limit(3);
        line.write(0, "flushed ", true);
        line.write(1, "too", true);
        line.write(2, "never flushed", false);
        let done = shut_output(&mut line);
        line.write(3, "late", true);
        line.run();
        assert_eq!(said(&done), None, "the peer has not read all of it");
        assert_eq!(line.taken_log(), [""; 0]);
        let mut seen = Vec::new();
        while !line.peer.is_ended() {
            seen.extend_from_slice(&line.peer.received());
            line.run();
            assert!(seen.len() < 20, "{seen:?}");
        }
        seen.extend_from_slice(&line.peer.received());
        assert_eq!(seen, b"flushed too");
        assert_eq!(said(&done).as_deref(), Some("done"));
        assert_eq!(line.taken_log(), ["Output over"]);
        let mut told = line.told();
        told.sort_unstable();
        assert_eq!(told, [(0, true), (1, true), (2, false), (3, false)]);
        assert_eq!(line.channel.pending_bytes(), 0);
        line.peer.send("still read");
        line.run();
        assert_eq!(line.taken_log(), ["read 10", "read complete"]);
    });
}

#[test]
fn c10_a_refused_write_says_that_the_output_is_shut_down() {
    both(|manual| {
        let mut line = half_closable(&manual);
        let held = line.here(|channel| channel.write(Bytes::from("never flushed")));
        let done = shut_output(&mut line);
        line.run();
        let late = line.here(|channel| channel.write_and_flush(Bytes::from("late")));
        line.run();
        for write in [held, late] {
            let error = write.join().unwrap_err();
            let kind = error.find::<ChannelError>();
            assert!(matches!(kind, Some(ChannelError::OutputShutDown)), "{error}");
        }
        assert_eq!(said(&done).as_deref(), Some("done"));
        assert_eq!(line.peer.received(), "");
        assert!(line.peer.is_ended() && !line.peer.is_closed());
    });
}

#[test]
fn c10_a_second_shutdown_completes_with_the_first() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.peer.set_limit(1);
        line.write(0, "slow", true);
        let waiting = [shut_output(&mut line), shut_output(&mut line)];
        line.run();
        assert!(waiting.iter().all(|done| said(done).is_none()));
        line.peer.set_limit(100);
        line.run();
        let late = shut_output(&mut line);
        line.run();
        for done in waiting.iter().chain([&late]) {
            assert_eq!(said(done).as_deref(), Some("done"));
        }
        assert_eq!(line.taken_log(), ["Output over"]);
        assert_eq!(manual.counts().shutdowns, 1);
    });
}

#[test]
fn c10_a_shut_input_reads_nothing_more_and_is_fired_once() {
    both(|manual| {
        let mut line = half_closable(&manual);
        let (first, second) = line
            .here(|channel| (outcome(channel.shutdown_input()), outcome(channel.shutdown_input())));
        line.peer.send("thrown away");
        line.peer.finish();
        line.run();
        assert_eq!(line.taken_log(), ["Input over"]);
        assert_eq!(
            (said(&first).as_deref(), said(&second).as_deref()),
            (Some("done"), Some("done"))
        );
        line.here(|channel| channel.read());
        line.write(0, "answer", true);
        line.run();
        assert_eq!(line.taken_log(), [""; 0]);
        assert_eq!(line.peer.received(), "answer");
        shut_output(&mut line);
        line.run();
        assert_eq!(line.taken_log(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c10_shutting_both_directions_is_fired_before_on_inactive() {
    both(|manual| {
        let mut line = half_closable(&manual);
        let (input, output) = line.here(|channel| {
            let output = outcome(channel.shutdown_output());
            (outcome(channel.shutdown_input()), output)
        });
        line.run();
        let mut log = line.taken_log();
        log[..2].sort();
        assert_eq!(log, ["Input over", "Output over", "inactive", "unregistered", "removed"]);
        assert_eq!(
            (said(&input).as_deref(), said(&output).as_deref()),
            (Some("done"), Some("done"))
        );
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
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
        assert_eq!(said(outcome).as_deref(), Some("the channel is not connected yet"));
    }
    bench.here(|_| drop(channel.close()));
    let late = bench.here(|_| [channel.shutdown_output(), channel.shutdown_input()].map(outcome));
    bench.turns(2);
    let after = bench.here(|_| [channel.shutdown_output(), channel.shutdown_input()].map(outcome));
    for outcome in late.iter().chain(&after) {
        assert_eq!(said(outcome).as_deref(), Some("the channel is closed"));
    }
}

#[test]
fn c10_a_close_fails_the_shutdown_that_waits_for_the_peer() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.peer.set_limit(3);
        line.write(0, "too much", true);
        line.run();
        let closed = line.channel.closed();
        let done = line.here(|channel| {
            let mut shut = channel.shutdown_output();
            shut.add_listener(move |_| assert!(!closed.is_done(), "told before the close future"));
            outcome(shut)
        });
        line.run();
        assert_eq!(said(&done), None);
        line.here(|channel| drop(channel.close()));
        line.run();
        assert_eq!(said(&done).as_deref(), Some("the channel is closed"));
        assert_eq!(
            (line.taken_log(), line.told()),
            (ENDED.map(Into::into).into(), vec![(0, false)])
        );
    });
}

#[test]
fn c10_a_reset_fails_the_shutdown_that_waits_for_the_peer() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.peer.set_limit(3);
        line.write(0, "too much", true);
        let done = shut_output(&mut line);
        line.run();
        line.peer.reset();
        line.run();
        let words = said(&done).expect("told");
        assert!(words.starts_with("the channel is closed: ") && words.contains("reset"), "{words}");
    });
}

#[test]
fn c10_a_write_that_fails_during_a_shutdown_fails_it_with_the_cause() {
    let manual = Manual::readiness();
    let mut line = half_closable(&manual);
    line.bench.faults.fail(DriverCall::Write, FailTimes::Next(1), ErrorKind::BrokenPipe);
    let done = line.here(|channel| {
        drop(channel.write(Bytes::from("x")));
        channel.flush();
        outcome(channel.shutdown_output())
    });
    line.run();
    let words = said(&done).expect("told");
    assert!(words.starts_with("the channel is closed: "), "{words}");
    assert_eq!(line.taken_log(), ENDED);
}

#[test]
fn c10_a_shutdown_that_the_kernel_refuses_changes_nothing() {
    let manual = Manual::readiness();
    let mut line = half_closable(&manual);
    line.bench.faults.fail(DriverCall::Shutdown, FailTimes::Next(2), ErrorKind::NotConnected);
    let (input, output) = line
        .here(|channel| (outcome(channel.shutdown_input()), outcome(channel.shutdown_output())));
    line.run();
    assert!(said(&input).is_some_and(|words| words != "done"));
    assert!(said(&output).is_some_and(|words| words != "done"));
    line.peer.send("read");
    line.write(0, "written", true);
    line.run();
    assert_eq!(line.taken_log(), ["read 4", "read complete"]);
    assert_eq!(line.peer.received(), "written");
}

#[test]
fn c10_a_cancelled_shutdown_still_ends_the_output() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.peer.set_limit(1);
        line.write(0, "slow", true);
        let shut = line.here(|channel| channel.shutdown_output());
        line.run();
        shut.cancel();
        line.peer.set_limit(100);
        line.run();
        assert_eq!((line.peer.received(), line.peer.is_ended()), (Bytes::from("slow"), true));
        assert_eq!(line.taken_log(), ["Output over"]);
    });
}

#[test]
fn c10_a_channel_whose_output_is_shut_down_is_not_writable() {
    both(|manual| {
        let mut line = half_closable(&manual);
        let channel = line.channel.clone();
        assert!(channel.is_writable());
        shut_output(&mut line);
        line.run();
        assert!(!channel.is_writable(), "a loop of writes while it is would never end");
        assert_eq!(channel.bytes_before_unwritable(), 0);
        assert_eq!(line.here(|channel| channel.bytes_before_unwritable()), 0);
        assert!(!line.here(|channel| channel.is_writable()));
    });
}

#[test]
fn c10_a_shutdown_during_a_close_is_refused() {
    let manual = Manual::completion();
    let mut line = half_closable(&manual);
    manual.hold_completions();
    line.write(0, "under way", true);
    line.here(|channel| drop(channel.close()));
    let done = shut_output(&mut line);
    line.bench.turns(3);
    assert_eq!(said(&done).as_deref(), Some("the channel is closed"));
    manual.release();
    line.run();
    assert_eq!((line.taken_log(), line.told()), (ENDED.map(Into::into).into(), vec![(0, true)]));
}

#[test]
fn c10_a_close_after_a_shutdown_delivers_the_bytes_and_completes_both() {
    both(|manual| {
        let mut line = half_closable(&manual);
        line.write(0, "hello", true);
        let done = shut_output(&mut line);
        line.here(|channel| drop(channel.close()));
        line.run();
        assert_eq!((line.peer.received(), line.told()), (Bytes::from("hello"), vec![(0, true)]));
        assert_eq!(said(&done).as_deref(), Some("done"));
        assert_eq!(line.taken_log(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

/// Answers a read with three writes and the end of the output, from inside of the call.
struct AnswersAndEnds;

impl Handler for AnswersAndEnds {
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
    both(|manual| {
        let mut bench = Bench::new(&manual);
        let (io, peer) = manual.pair();
        let new = NewChannel::new(Stream::connected(io, None))
            .options(ChannelOptions { allow_half_closure: true, ..Default::default() });
        let add = |edit: &mut waterwheel_channel::Edit<'_>| {
            Ok(edit.add_last("answers", AnswersAndEnds).map(drop)?)
        };
        let channel = bench.here(|here| here.register_with(new, add)).unwrap();
        peer.send("go");
        bench.turns(8);
        assert_eq!((peer.received(), peer.is_ended()), (Bytes::from("one two three"), true));
        assert!(channel.is_active());
    });
}

/// Keeps the end of the output to itself until it is told to go on.
#[derive(Default)]
struct Holds(Option<Completion>);

impl Handler for Holds {
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
struct Go;
impl waterwheel_channel::Message for Go {}

#[test]
fn c10_a_handler_may_delay_a_shutdown_and_write_before_it() {
    both(|manual| {
        let mut line = half_closable(&manual);
        drop(line.here(|channel| {
            channel
                .with_pipeline(|pipeline| pipeline.add_first("holds", Holds::default()).map(drop))
        }));
        let done = shut_output(&mut line);
        line.run();
        assert_eq!((said(&done), line.peer.is_ended()), (None, false));
        line.here(|channel| channel.fire_user_event(Msg::new(Go)));
        line.run();
        assert_eq!((line.peer.received(), line.peer.is_ended()), (Bytes::from("trailer"), true));
        assert_eq!(said(&done).as_deref(), Some("done"));
    });
}

/// Ends both directions as soon as it hears of one.
struct EndsTheOther;

impl Handler for EndsTheOther {
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
    both(|manual| {
        let mut line = half_closable(&manual);
        drop(line.here(|channel| {
            channel.with_pipeline(|pipeline| pipeline.add_first("ends", EndsTheOther).map(drop))
        }));
        line.peer.finish();
        line.run();
        let log = line.taken_log();
        let order = ["Input over", "Output over", "inactive", "unregistered", "removed"];
        assert_eq!((log[0].as_str(), &log[1..]), ("read complete", &order.map(String::from)[..]));
        assert!(line.peer.is_closed());
    });
}
