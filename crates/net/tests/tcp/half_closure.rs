//! Half-closed TCP connections (C10).

use std::io::{Read, Write};
use std::net::Shutdown;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{ChannelOptions, Offloaded, RemoteHandler, ServerBootstrap};
use waterwheel_executor::EventExecutorGroup;

use crate::loop_rig::{get, on_every_loop};
use crate::probe::{ProbedServer, read_to_end, reset};

const ENDED: [&str; 3] = ["inactive", "unregistered", "removed"];

fn half_closable(server: ServerBootstrap) -> ServerBootstrap {
    server.child_options(ChannelOptions { allow_half_closure: true, ..Default::default() })
}

#[test]
fn c10_the_peers_half_close_closes_a_connection_without_half_closure() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, log) = server.connect();
        peer.write_all(b"last").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        channel.closed().wait_timeout(crate::loop_rig::TIME_LIMIT).unwrap();
        assert_eq!(read_to_end(&mut peer), b"");
        let events = log.until_removed();
        assert_eq!(events[0], "read last");
        assert_eq!(events[events.len() - 3..], ENDED);
    });
}

#[test]
fn c10_a_server_answers_after_the_peers_half_close() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, half_closable);
        let (channel, mut peer, log) = server.connect();
        peer.write_all(b"question").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        while log.next() != "Input over" {}
        rig.assert_not_spinning();
        get(channel.write_and_flush(Bytes::from("answer")));
        let mut answer = [0; 6];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
        assert!(channel.is_active());
        get(channel.shutdown_output());
        assert_eq!(read_to_end(&mut peer), b"");
        assert_eq!(log.until_removed(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c10_a_shut_output_delivers_flushed_bytes_to_a_peer_that_reads_late() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            half_closable(server).child_socket_option(SocketOption::SendBuffer(8 * 1024))
        });
        let (channel, mut peer, log) = server.connect();
        let body: Vec<u8> = (0..4_000_000_u32).map(|n| n as u8).collect();
        let written = channel.write_and_flush(Bytes::from(body.clone()));
        let held = channel.write(Bytes::from("never flushed"));
        let shut = channel.shutdown_output();
        let late = channel.write_and_flush(Bytes::from("late"));
        for refused in [held, late] {
            let error = refused.join().unwrap_err().to_string();
            assert_eq!(error, "the output of the channel was shut down");
        }
        assert!(!written.is_done() && !shut.is_done(), "the peer has not read it");
        assert!(!channel.is_writable());
        rig.assert_not_spinning();
        assert!(read_to_end(&mut peer) == body);
        get(written);
        get(shut);
        assert_eq!(log.next(), "Output over");
        peer.write_all(b"thanks").unwrap();
        assert_eq!(log.next(), "read thanks");
        assert!(channel.is_active());
    });
}

#[test]
fn c10_a_shut_input_reads_nothing_more_and_still_writes() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, half_closable);
        let (channel, mut peer, log) = server.connect();
        get(channel.shutdown_input());
        get(channel.shutdown_input());
        assert_eq!(log.next(), "Input over");
        peer.write_all(b"not read").unwrap();
        channel.read();
        rig.assert_not_spinning();
        assert_eq!(log.rest(), [""; 0]);
        get(channel.write_and_flush(Bytes::from("answer")));
        let mut answer = [0; 6];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
        get(channel.shutdown_output());
        assert_eq!(log.until_removed(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c10_a_reset_closes_a_half_closed_connection() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, half_closable);
        let (channel, peer, log) = server.connect();
        get(channel.shutdown_output());
        assert_eq!(log.next(), "Output over");
        rig.assert_not_spinning();
        reset(peer);
        let events = log.until_removed();
        assert_eq!(events[events.len() - 3..], ENDED);
        assert_eq!(events.iter().filter(|it| it.contains("over")).count(), 0, "{events:?}");
        assert!(!channel.is_open());

        // A reset is noticed after the end of the input, too.
        let (channel, peer, log) = server.connect();
        get(channel.shutdown_input());
        assert_eq!(log.next(), "Input over");
        reset(peer);
        let events = log.until_removed();
        assert_eq!(events[events.len() - 3..], ENDED);
        rig.assert_not_spinning();
    });
}

/// Passes every event on, on another thread.
struct PassesOn;

impl RemoteHandler for PassesOn {}

#[test]
fn c10_shutdown_output_passes_an_offloaded_handler_after_its_earlier_writes() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, half_closable);
        let (channel, mut peer, log) = server.connect();
        let threads = EventExecutorGroup::builder().threads(1).build().unwrap();
        let elsewhere = threads.clone();
        get(channel.with_pipeline(move |pipeline| {
            pipeline.add_first("passes", Offloaded::new(&elsewhere, || PassesOn)).map(drop)
        }))
        .unwrap();
        let mut expected = Vec::new();
        for n in 0..100_u32 {
            let piece = format!("{n},");
            expected.extend_from_slice(piece.as_bytes());
            channel.send(Bytes::from(piece));
        }
        let shut = channel.shutdown_output();
        let late = channel.write_and_flush(Bytes::from("late"));
        assert_eq!(read_to_end(&mut peer), expected);
        get(shut);
        assert!(late.join().is_err());
        assert_eq!(log.next(), "Output over");
        peer.write_all(b"heard").unwrap();
        assert_eq!(log.next(), "read heard");
        drop(peer);
        let events = log.until_removed();
        assert_eq!(
            events[events.len() - 4..],
            ["Input over", "inactive", "unregistered", "removed"]
        );
    });
}
