//! Streams that are deregistered and registered again (C04).

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, ReceiveSizes};
use waterwheel_testkit::manual::Manual;

use crate::support::{StreamFixture, over_both_drivers};

fn deregister(fixture: &mut StreamFixture) {
    let left = fixture.on_loop(|channel| channel.deregister());
    fixture.run();
    left.join().expect("the deregistration succeeds");
}

fn register_again(fixture: &mut StreamFixture) {
    let came = fixture.on_loop(|channel| channel.register());
    fixture.run();
    came.join().expect("the registration succeeds");
}

#[test]
fn c04_bytes_that_arrive_while_deregistered_are_read_afterwards() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.run();
        fixture.take_log();
        for round in 0..3 {
            deregister(&mut fixture);
            assert_eq!(fixture.take_log(), ["unregistered"], "{round}");
            assert!(fixture.channel.is_active() && !fixture.channel.is_registered());
            fixture.peer.send("meanwhile");
            fixture.on_loop(|channel| channel.read());
            fixture.run();
            assert_eq!((fixture.take_log(), fixture.peer.unread()), (vec![], 9), "{round}");
            register_again(&mut fixture);
            assert_eq!(fixture.take_log(), ["registered", "read 9", "read complete"], "{round}");
        }
        fixture.peer.finish();
        fixture.run();
        assert_eq!(fixture.take_log(), ["read complete", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c04_bytes_written_while_deregistered_are_sent_afterwards() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.run();
        deregister(&mut fixture);
        fixture.write(0, "one ", true);
        fixture.write(1, "two", true);
        fixture.run();
        assert_eq!(
            (fixture.peer.take_received(), fixture.write_outcomes()),
            (Bytes::new(), vec![])
        );
        assert_eq!(fixture.channel.pending_bytes(), 7);
        register_again(&mut fixture);
        assert_eq!(
            (fixture.peer.take_received(), fixture.write_outcomes()),
            ("one two".into(), vec![(0, true), (1, true)])
        );
    });
}

#[test]
fn c04_a_write_that_waits_for_room_resumes_after_registering_again() {
    let manual = Manual::readiness();
    let mut fixture = StreamFixture::new(&manual);
    fixture.peer.set_limit(3);
    fixture.write(0, "hello", true);
    fixture.run();
    deregister(&mut fixture);
    fixture.peer.set_limit(100);
    fixture.run();
    assert_eq!(fixture.peer.take_received(), "hel");
    register_again(&mut fixture);
    assert_eq!(
        (fixture.peer.take_received(), fixture.write_outcomes()),
        ("lo".into(), vec![(0, true)])
    );
}

#[test]
fn c04_deregister_is_refused_while_a_write_is_in_flight_and_changes_nothing() {
    let manual = Manual::completion();
    let mut fixture = StreamFixture::new(&manual);
    fixture.run();
    fixture.take_log();
    manual.hold_completions();
    fixture.write(0, "under way", true);
    let left = fixture.on_loop(|channel| channel.deregister());
    fixture.bench.turns(3);
    let error = left.join().unwrap_err().to_string();
    assert!(error.contains("in flight"), "{error}");
    assert!(fixture.channel.is_registered());
    manual.release();
    fixture.peer.send("still read");
    fixture.run();
    assert_eq!(fixture.take_log(), ["read 10", "read complete"]);
    assert_eq!(
        (fixture.peer.take_received(), fixture.write_outcomes()),
        ("under way".into(), vec![(0, true)])
    );
    deregister(&mut fixture);
    assert_eq!(fixture.take_log(), ["unregistered"]);
}

#[test]
fn c04_closing_a_deregistered_channel_does_not_unregister_it_again() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.run();
        deregister(&mut fixture);
        fixture.write(0, "never", true);
        fixture.take_log();
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert_eq!(
            (fixture.take_log(), fixture.write_outcomes()),
            (vec!["inactive".into(), "removed".into()], vec![(0, false)])
        );
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
        let error = fixture.on_loop(|channel| channel.register()).join().unwrap_err().to_string();
        assert_eq!(error, "the channel is closed");
    });
}

#[test]
fn c04_deregistering_twice_and_registering_twice_are_errors() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.run();
        let again = fixture.on_loop(|channel| channel.register());
        fixture.run();
        assert!(again.join().unwrap_err().to_string().contains("registered with its loop already"));
        deregister(&mut fixture);
        let again = fixture.on_loop(|channel| channel.deregister());
        fixture.run();
        assert!(again.join().unwrap_err().to_string().contains("not registered"));
        register_again(&mut fixture);
    });
}

#[test]
fn c04_deregistering_in_a_read_round_ends_it() {
    over_both_drivers(|manual| {
        let receive_sizes = ReceiveSizes::new(4, 4, 4).unwrap();
        let options = ChannelOptions { receive_sizes, ..ChannelOptions::default() };
        let mut fixture = StreamFixture::with(&manual, &manual, options, |ctx, _| {
            if ctx.channel().is_registered() {
                ctx.deregister();
            }
        });
        fixture.run();
        fixture.take_log();
        fixture.peer.send("twelve bytes");
        fixture.run();
        assert_eq!(fixture.take_log(), ["read 4", "read complete", "unregistered"]);
        assert_eq!(fixture.peer.unread(), 8);
        register_again(&mut fixture);
        assert_eq!(fixture.take_log(), ["registered", "read 4", "read complete", "unregistered"]);
    });
}

#[test]
fn c04_an_interrupted_read_round_does_not_count_for_the_next() {
    over_both_drivers(|manual| {
        let receive_sizes = ReceiveSizes::new(4, 4, 4).unwrap();
        let options = ChannelOptions {
            receive_sizes,
            reads_per_round: 1,
            auto_read: false,
            ..ChannelOptions::default()
        };
        let mut first = true;
        let mut fixture = StreamFixture::with(&manual, &manual, options, move |ctx, _| {
            if std::mem::take(&mut first) {
                ctx.deregister();
            }
        });
        fixture.run();
        fixture.peer.send("twelve bytes");
        fixture.on_loop(|channel| channel.read());
        fixture.run();
        assert_eq!(fixture.peer.unread(), 8);
        register_again(&mut fixture);
        assert_eq!(fixture.peer.unread(), 8, "no further read was requested");
        fixture.on_loop(|channel| channel.read());
        fixture.run();
        assert_eq!(fixture.peer.unread(), 4, "one round was requested");
    });
}

#[test]
fn c04_an_end_that_arrives_while_deregistered_is_reported_afterwards() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.run();
        fixture.take_log();
        deregister(&mut fixture);
        fixture.peer.send("last");
        fixture.peer.finish();
        fixture.run();
        assert!(fixture.channel.is_open());
        register_again(&mut fixture);
        let order = ["unregistered", "registered", "read 4", "read complete"];
        let log = fixture.take_log();
        assert_eq!(log[..4], order);
        assert_eq!(log[4..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c04_deregistering_and_registering_in_one_call_loses_nothing() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.run();
        fixture.take_log();
        fixture.peer.send("hello");
        let (left, came) = fixture.on_loop(|channel| (channel.deregister(), channel.register()));
        fixture.run();
        left.join().unwrap();
        came.join().unwrap();
        let order = ["unregistered", "registered", "read 5", "read complete"];
        assert_eq!(fixture.take_log(), order);
    });
}
