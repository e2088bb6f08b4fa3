//! Unix streams behave like TCP streams (C04, C07, C10, C11).

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{ChannelOptions, FileRegion, ServerBootstrap};

use crate::loop_rig::{get, on_every_loop};
use crate::support::{ProbedServer, SocketDirectory};

fn half_closable(server: ServerBootstrap) -> ServerBootstrap {
    server.child_options(ChannelOptions { allow_half_closure: true, ..Default::default() })
}

#[track_caller]
fn read_to_end(peer: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    peer.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn c10_a_unix_server_answers_after_the_peers_half_close() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, half_closable);
        let (channel, mut peer, log) = server.connect();
        peer.write_all(b"question").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        while log.next() != "Input over" {}
        rig.assert_not_spinning();
        get(channel.write_and_flush(Bytes::from("answer")));
        get(channel.shutdown_output());
        assert_eq!(read_to_end(&mut peer), b"answer");
        assert_eq!(log.until_removed(), ["Output over", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c10_the_half_close_of_a_unix_peer_closes_a_connection_without_half_closure() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (_, mut peer, log) = server.connect();
        peer.write_all(b"last").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let events = log.until_removed();
        assert_eq!(
            (events[0].as_str(), events[events.len() - 1].as_str()),
            ("read last", "removed")
        );
        assert_eq!(read_to_end(&mut peer), b"");
    });
}

#[test]
fn c07_a_large_write_waits_for_a_unix_peer_that_reads_late() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, _notes) = server.connect();
        let body: Vec<u8> = (0..4_000_000_u32).map(|n| n as u8).collect();
        let written = channel.write_and_flush(Bytes::from(body.clone()));
        rig.assert_not_spinning();
        assert!(!written.is_done() && !channel.is_writable());
        let mut all = vec![0; body.len()];
        peer.read_exact(&mut all).unwrap();
        assert!(all == body);
        get(written);
    });
}

#[test]
fn c07_a_write_to_a_closed_unix_peer_fails_without_sigpipe() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            server.child_options(ChannelOptions { auto_read: false, ..Default::default() })
        });
        let (channel, peer, _notes) = server.connect();
        drop(peer);
        let error = channel.write_and_flush(Bytes::from("late")).join().unwrap_err().to_string();
        assert!(error.contains("roken pipe"), "{error}");
        channel.closed().wait_timeout(crate::loop_rig::TIME_LIMIT).unwrap();
    });
}

#[test]
fn c07_a_file_is_sent_over_a_unix_stream() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
        std::fs::write(directory.path("file"), &body).unwrap();
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, _notes) = server.connect();
        let file = FileRegion::new(File::open(directory.path("file")).unwrap(), ..).unwrap();
        let first = channel.write(Bytes::from("<"));
        let sent = channel.write(file);
        let last = channel.write_and_flush(Bytes::from(">"));
        let mut all = vec![0; body.len() + 2];
        peer.read_exact(&mut all).unwrap();
        assert!(all[0] == b'<' && all[1..=body.len()] == body && all[body.len() + 1] == b'>');
        [first, sent, last].into_iter().for_each(get);
    });
}

#[test]
fn c04_a_reregistered_unix_stream_keeps_its_options() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, mut peer, log) = server.connect();
        get(channel.set_option(SocketOption::ReceivePassed(true)));
        get(channel.deregister());
        peer.write_all(b"meanwhile").unwrap();
        assert_eq!(log.next(), "unregistered");
        get(channel.register());
        assert_eq!(log.take(2), ["registered", "read meanwhile"]);
        get(channel.write_and_flush(Bytes::from("back")));
        get(channel.close());
        assert_eq!(read_to_end(&mut peer), b"back");
    });
}

#[test]
fn c04_a_deregistered_unix_server_keeps_its_file() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        get(server.listener.deregister());
        assert!(server.path.exists());
        let mut peer = UnixStream::connect(&server.path).unwrap();
        peer.write_all(b"early").unwrap();
        get(server.listener.register());
        let (_, log) = server.accepted();
        assert_eq!(log.next(), "read early");
        get(server.listener.deregister());
        get(server.listener.close());
        assert!(!server.path.exists());
    });
}

#[test]
fn c11_a_unix_stream_that_lingers_closes_at_once_and_delivers() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| {
            let linger = SocketOption::Linger(Some(Duration::from_secs(20)));
            server.child_socket_option(linger)
        });
        let (channel, mut peer, _notes) = server.connect();
        get(channel.write_and_flush(Bytes::from("last words")));
        get(channel.close());
        assert_eq!(read_to_end(&mut peer), b"last words");
    });
}
