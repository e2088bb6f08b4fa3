//! A stream leaves its loop and comes back (C04).

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, ReceiveSizes};
use waterwheel_testkit::manual::Manual;

use crate::support::{Line, both};

fn leave(line: &mut Line) {
    let left = line.here(|channel| channel.deregister());
    line.run();
    left.join().expect("nothing is in its way");
}

fn come_back(line: &mut Line) {
    let came = line.here(|channel| channel.register());
    line.run();
    came.join().expect("it is its own loop");
}

#[test]
fn c04_bytes_that_arrive_while_deregistered_are_read_afterwards() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        line.taken_log();
        for round in 0..3 {
            leave(&mut line);
            assert_eq!(line.taken_log(), ["unregistered"], "{round}");
            assert!(line.channel.is_active() && !line.channel.is_registered());
            line.peer.send("meanwhile");
            line.here(|channel| channel.read());
            line.run();
            assert_eq!((line.taken_log(), line.peer.unread()), (vec![], 9), "{round}");
            come_back(&mut line);
            assert_eq!(line.taken_log(), ["registered", "read 9", "read complete"], "{round}");
        }
        line.peer.finish();
        line.run();
        assert_eq!(line.taken_log(), ["read complete", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c04_bytes_written_while_deregistered_are_sent_afterwards() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        leave(&mut line);
        line.write(0, "one ", true);
        line.write(1, "two", true);
        line.run();
        assert_eq!((line.peer.received(), line.told()), (Bytes::new(), vec![]));
        assert_eq!(line.channel.pending_bytes(), 7);
        come_back(&mut line);
        assert_eq!(
            (line.peer.received(), line.told()),
            ("one two".into(), vec![(0, true), (1, true)])
        );
    });
}

#[test]
fn c04_a_write_that_waits_for_room_resumes_after_registering_again() {
    let manual = Manual::readiness();
    let mut line = Line::new(&manual);
    line.peer.set_limit(3);
    line.write(0, "hello", true);
    line.run();
    leave(&mut line);
    line.peer.set_limit(100);
    line.run();
    assert_eq!(line.peer.received(), "hel");
    come_back(&mut line);
    assert_eq!((line.peer.received(), line.told()), ("lo".into(), vec![(0, true)]));
}

#[test]
fn c04_deregister_is_refused_while_a_write_is_in_flight_and_changes_nothing() {
    let manual = Manual::completion();
    let mut line = Line::new(&manual);
    line.run();
    line.taken_log();
    manual.hold_completions();
    line.write(0, "under way", true);
    let left = line.here(|channel| channel.deregister());
    line.bench.turns(3);
    let error = left.join().unwrap_err().to_string();
    assert!(error.contains("under way"), "{error}");
    assert!(line.channel.is_registered());
    manual.release();
    line.peer.send("still read");
    line.run();
    assert_eq!(line.taken_log(), ["read 10", "read complete"]);
    assert_eq!((line.peer.received(), line.told()), ("under way".into(), vec![(0, true)]));
    leave(&mut line);
    assert_eq!(line.taken_log(), ["unregistered"]);
}

#[test]
fn c04_closing_a_deregistered_channel_does_not_unregister_it_again() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        leave(&mut line);
        line.write(0, "never", true);
        line.taken_log();
        line.here(|channel| drop(channel.close()));
        line.run();
        assert_eq!(
            (line.taken_log(), line.told()),
            (vec!["inactive".into(), "removed".into()], vec![(0, false)])
        );
        assert!(line.channel.closed().is_done() && line.peer.is_closed());
        let error = line.here(|channel| channel.register()).join().unwrap_err().to_string();
        assert_eq!(error, "the channel is closed");
    });
}

#[test]
fn c04_deregistering_twice_and_registering_twice_are_errors() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        let again = line.here(|channel| channel.register());
        line.run();
        assert!(again.join().unwrap_err().to_string().contains("registered with its loop already"));
        leave(&mut line);
        let again = line.here(|channel| channel.deregister());
        line.run();
        assert!(again.join().unwrap_err().to_string().contains("not registered"));
        come_back(&mut line);
    });
}

#[test]
fn c04_deregistering_in_a_read_round_ends_it() {
    both(|manual| {
        let receive_sizes = ReceiveSizes::new(4, 4, 4).unwrap();
        let options = ChannelOptions { receive_sizes, ..ChannelOptions::default() };
        let mut line = Line::with(&manual, &manual, options, |ctx, _| {
            if ctx.channel().is_registered() {
                ctx.deregister();
            }
        });
        line.run();
        line.taken_log();
        line.peer.send("twelve bytes");
        line.run();
        assert_eq!(line.taken_log(), ["read 4", "read complete", "unregistered"]);
        assert_eq!(line.peer.unread(), 8);
        come_back(&mut line);
        assert_eq!(line.taken_log(), ["registered", "read 4", "read complete", "unregistered"]);
    });
}

#[test]
fn c04_an_interrupted_read_round_does_not_count_for_the_next() {
    both(|manual| {
        let receive_sizes = ReceiveSizes::new(4, 4, 4).unwrap();
        let options = ChannelOptions {
            receive_sizes,
            reads_per_round: 1,
            auto_read: false,
            ..ChannelOptions::default()
        };
        let mut first = true;
        let mut line = Line::with(&manual, &manual, options, move |ctx, _| {
            if std::mem::take(&mut first) {
                ctx.deregister();
            }
        });
        line.run();
        line.peer.send("twelve bytes");
        line.here(|channel| channel.read());
        line.run();
        assert_eq!(line.peer.unread(), 8);
        come_back(&mut line);
        assert_eq!(line.peer.unread(), 8, "nobody asked for more");
        line.here(|channel| channel.read());
        line.run();
        assert_eq!(line.peer.unread(), 4, "one round was asked for");
    });
}

#[test]
fn c04_an_end_that_arrives_while_deregistered_is_reported_afterwards() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        line.taken_log();
        leave(&mut line);
        line.peer.send("last");
        line.peer.finish();
        line.run();
        assert!(line.channel.is_open());
        come_back(&mut line);
        let order = ["unregistered", "registered", "read 4", "read complete"];
        let log = line.taken_log();
        assert_eq!(log[..4], order);
        assert_eq!(log[4..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c04_deregistering_and_registering_in_one_call_loses_nothing() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        line.taken_log();
        line.peer.send("hello");
        let (left, came) = line.here(|channel| (channel.deregister(), channel.register()));
        line.run();
        left.join().unwrap();
        came.join().unwrap();
        let order = ["unregistered", "registered", "read 5", "read complete"];
        assert_eq!(line.taken_log(), order);
    });
}
