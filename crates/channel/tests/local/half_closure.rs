//! Half-closure of local channels (C10).

use bytes::Bytes;
use waterwheel_channel::local::{self as transport, Connection, QUEUED_BYTES};
use waterwheel_channel::{Channel, ChannelOptions, NewChannel};

use crate::support::{LocalFixture, Log, RecordingHandler};

/// Number of log lines of a channel that was added, registered and activated.
const OPENING_EVENTS: usize = 3;

/// Log lines of a channel that is closed.
const CLOSING_EVENTS: [&str; 3] = ["inactive", "unregistered", "removed"];

fn half_closure_options() -> ChannelOptions {
    ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() }
}

/// Registers two ends with half-closure enabled, the second with or without auto-read.
fn half_closable_pair(
    fixture: &mut LocalFixture,
    log: &Log,
    auto_read: bool,
) -> (Channel, Channel) {
    let (a, b) = transport::pair();
    let a = fixture.register(0, a.options(half_closure_options()), RecordingHandler::new("a", log));
    let b = b.options(ChannelOptions { auto_read, ..half_closure_options() });
    (a, fixture.register(1, b, RecordingHandler::new("b", log)))
}

#[test]
fn c10_the_peer_reads_the_end_after_the_last_message_and_may_answer() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = half_closable_pair(fixture, &log, true);
        a.send("question".to_owned());
        log.note("a: finished", a.shutdown_output());
        fixture.run();
        assert_eq!(log.of("a")[OPENING_EVENTS..], ["finished", "event Output"]);
        assert_eq!(
            log.of("b")[OPENING_EVENTS..],
            ["read question", "read complete", "event Input"]
        );
        assert!(a.is_active() && b.is_active());
        fixture.outcome(b.write_and_flush("answer".to_owned())).unwrap();
        assert_eq!(log.of("a")[OPENING_EVENTS + 2..], ["read answer", "read complete"]);
        fixture.outcome(b.shutdown_output()).unwrap();
        assert_eq!(
            log.of("a")[OPENING_EVENTS + 4..],
            [&["event Input"][..], &CLOSING_EVENTS].concat()
        );
        assert_eq!(
            log.of("b")[OPENING_EVENTS + 3..],
            [&["event Output"][..], &CLOSING_EVENTS].concat()
        );
    });
}

#[test]
fn c10_the_end_of_the_stream_closes_a_peer_without_half_closure() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        fixture.on(0, |_| {
            a.send("last".to_owned());
            drop(a.shutdown_output());
        });
        assert!(!b.is_open() && !a.is_open(), "each end closes the other");
        assert_eq!(
            log.of("b")[OPENING_EVENTS..],
            [&["read last", "read complete"][..], &CLOSING_EVENTS].concat()
        );
    });
}

#[test]
fn c10_flushed_messages_are_written_before_the_end_however_slow_the_peer() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = half_closable_pair(fixture, &log, false);
        let block = Bytes::from_static(&[7; 1024]);
        let many = QUEUED_BYTES / block.len() + 10;
        fixture.on(0, |_| {
            (0..many).for_each(|_| a.send(block.clone()));
            log.note("a: wrote", a.write("never flushed".to_owned()));
            log.note("a: finished", a.shutdown_output());
            log.note("a: wrote", a.write_and_flush("too late".to_owned()));
        });
        let refused = "wrote failed: the output of the channel was shut down";
        assert_eq!(log.of("a")[OPENING_EVENTS..], [refused, refused], "ten messages wait for room");
        b.set_auto_read(true);
        fixture.run();
        assert_eq!(log.of("a")[OPENING_EVENTS + 2..], ["finished", "event Output"]);
        assert_eq!(log.count("b: read bytes::bytes::Bytes"), many);
        assert_eq!(log.of("b").last().unwrap(), "event Input");
    });
}

#[test]
fn c10_a_channel_with_its_input_shut_down_reads_nothing_and_still_writes() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = half_closable_pair(fixture, &log, true);
        fixture.outcome(b.shutdown_input()).unwrap();
        a.send("unheard".to_owned());
        b.read();
        b.send("said".to_owned());
        fixture.run();
        assert_eq!(log.of("b")[OPENING_EVENTS..], ["event Input"]);
        assert_eq!(log.of("a")[OPENING_EVENTS..], ["read said", "read complete"]);
        fixture.outcome(b.shutdown_output()).unwrap();
        assert_eq!(
            log.of("b")[OPENING_EVENTS + 1..],
            [&["event Output"][..], &CLOSING_EVENTS].concat()
        );
    });
}

#[test]
fn c10_a_waiting_writer_fails_when_its_half_closed_peer_closes() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = half_closable_pair(fixture, &log, false);
        fixture.outcome(b.shutdown_output()).unwrap();
        assert_eq!(log.of("a")[OPENING_EVENTS..], ["event Input"]);
        let block = Bytes::from_static(&[7; QUEUED_BYTES]);
        fixture.on(0, |_| a.send(block.clone()));
        log.note("a: wrote", a.write_and_flush(block));
        fixture.run();
        assert_eq!(log.of("a")[OPENING_EVENTS + 1..], [""; 0], "the write waits");
        fixture.outcome(b.close()).unwrap();
        let broken = "wrote failed: the channel is closed: the peer has closed the connection";
        assert_eq!(log.of("a")[OPENING_EVENTS + 1..], [&[broken][..], &CLOSING_EVENTS].concat());
    });
}

#[test]
fn c10_an_end_that_arrives_while_the_channel_is_deregistered_is_read_afterwards() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) = half_closable_pair(fixture, &log, true);
        fixture.outcome(b.deregister()).unwrap();
        a.send("meanwhile".to_owned());
        fixture.outcome(a.shutdown_output()).unwrap();
        fixture.outcome(b.register()).unwrap();
        let told = log.of("b");
        assert_eq!(told[told.len() - 3..], ["read meanwhile", "read complete", "event Input"]);
    });
}

#[test]
fn c10_a_channel_that_is_not_connected_cannot_be_shut_down() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let client = NewChannel::new(Connection::new());
        let client = fixture.register(0, client, RecordingHandler::new("client", &log));
        let error = fixture.outcome(client.shutdown_output()).unwrap_err();
        assert_eq!(error.to_string(), "the channel is not connected yet");
        let error = fixture.outcome(client.shutdown_input()).unwrap_err();
        assert_eq!(error.to_string(), "the channel is not connected yet");
        assert!(client.is_open());
    });
}
