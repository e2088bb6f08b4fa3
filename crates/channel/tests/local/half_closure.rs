//! Local channels that are closed in one direction (C10).

use bytes::Bytes;
use waterwheel_channel::local::{self as transport, Connection, QUEUED_BYTES};
use waterwheel_channel::{Channel, ChannelOptions, NewChannel};

use crate::support::{Log, Record, Stage};

/// What is told of a registered and active channel before anything happens to it.
const BORN: usize = 3;

/// What is told of it at the end.
const END: [&str; 3] = ["inactive", "unregistered", "removed"];

fn half_open() -> ChannelOptions {
    ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() }
}

/// Two ends that stay open when the other one has finished; the second reads if it is to.
fn pair(stage: &mut Stage, log: &Log, auto_read: bool) -> (Channel, Channel) {
    let (a, b) = transport::pair();
    let a = stage.register(0, a.options(half_open()), Record::new("a", log));
    let b = b.options(ChannelOptions { auto_read, ..half_open() });
    (a, stage.register(1, b, Record::new("b", log)))
}

#[test]
fn c10_the_peer_reads_the_end_after_the_last_message_and_may_answer() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = pair(stage, &log, true);
        a.send("question".to_owned());
        log.note("a: finished", a.shutdown_output());
        stage.run();
        assert_eq!(log.of("a")[BORN..], ["finished", "event Output"]);
        assert_eq!(log.of("b")[BORN..], ["read question", "read complete", "event Input"]);
        assert!(a.is_active() && b.is_active());
        stage.outcome(b.write_and_flush("answer".to_owned())).unwrap();
        assert_eq!(log.of("a")[BORN + 2..], ["read answer", "read complete"]);
        stage.outcome(b.shutdown_output()).unwrap();
        assert_eq!(log.of("a")[BORN + 4..], [&["event Input"][..], &END].concat());
        assert_eq!(log.of("b")[BORN + 3..], [&["event Output"][..], &END].concat());
    });
}

#[test]
fn c10_the_end_of_the_stream_closes_a_peer_without_half_closure() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        stage.on(0, |_| {
            a.send("last".to_owned());
            drop(a.shutdown_output());
        });
        assert!(!b.is_open() && !a.is_open(), "the one closes, and so the other one");
        assert_eq!(log.of("b")[BORN..], [&["read last", "read complete"][..], &END].concat());
    });
}

#[test]
fn c10_flushed_messages_are_written_before_the_end_however_slow_the_peer() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = pair(stage, &log, false);
        let block = Bytes::from_static(&[7; 1024]);
        let many = QUEUED_BYTES / block.len() + 10;
        stage.on(0, |_| {
            (0..many).for_each(|_| a.send(block.clone()));
            log.note("a: wrote", a.write("never flushed".to_owned()));
            log.note("a: finished", a.shutdown_output());
            log.note("a: wrote", a.write_and_flush("too late".to_owned()));
        });
        let refused = "wrote failed: the output of the channel was shut down";
        assert_eq!(log.of("a")[BORN..], [refused, refused], "ten messages wait for room");
        b.set_auto_read(true);
        stage.run();
        assert_eq!(log.of("a")[BORN + 2..], ["finished", "event Output"]);
        assert_eq!(log.count("b: read bytes::bytes::Bytes"), many);
        assert_eq!(log.of("b").last().unwrap(), "event Input");
    });
}

#[test]
fn c10_a_channel_with_its_input_shut_down_reads_nothing_and_still_writes() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = pair(stage, &log, true);
        stage.outcome(b.shutdown_input()).unwrap();
        a.send("unheard".to_owned());
        b.read();
        b.send("said".to_owned());
        stage.run();
        assert_eq!(log.of("b")[BORN..], ["event Input"]);
        assert_eq!(log.of("a")[BORN..], ["read said", "read complete"]);
        stage.outcome(b.shutdown_output()).unwrap();
        assert_eq!(log.of("b")[BORN + 1..], [&["event Output"][..], &END].concat());
    });
}

#[test]
fn c10_a_waiting_writer_fails_when_its_half_closed_peer_closes() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = pair(stage, &log, false);
        stage.outcome(b.shutdown_output()).unwrap();
        assert_eq!(log.of("a")[BORN..], ["event Input"]);
        let block = Bytes::from_static(&[7; QUEUED_BYTES]);
        stage.on(0, |_| a.send(block.clone()));
        log.note("a: wrote", a.write_and_flush(block));
        stage.run();
        assert_eq!(log.of("a")[BORN + 1..], [""; 0], "it waits");
        stage.outcome(b.close()).unwrap();
        let broken = "wrote failed: the channel is closed: the peer has closed the connection";
        assert_eq!(log.of("a")[BORN + 1..], [&[broken][..], &END].concat());
    });
}

#[test]
fn c10_an_end_that_arrives_while_the_channel_is_deregistered_is_read_afterwards() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = pair(stage, &log, true);
        stage.outcome(b.deregister()).unwrap();
        a.send("meanwhile".to_owned());
        stage.outcome(a.shutdown_output()).unwrap();
        stage.outcome(b.register()).unwrap();
        let told = log.of("b");
        assert_eq!(told[told.len() - 3..], ["read meanwhile", "read complete", "event Input"]);
    });
}

#[test]
fn c10_a_channel_that_is_not_connected_cannot_be_shut_down() {
    Stage::each(|stage| {
        let log = Log::default();
        let client = NewChannel::new(Connection::new());
        let client = stage.register(0, client, Record::new("client", &log));
        let error = stage.outcome(client.shutdown_output()).unwrap_err();
        assert_eq!(error.to_string(), "the channel is not connected yet");
        let error = stage.outcome(client.shutdown_input()).unwrap_err();
        assert_eq!(error.to_string(), "the channel is not connected yet");
        assert!(client.is_open());
    });
}
