//! Corner cases of readiness, level- and edge-triggered, under channels: none makes the loop spin (L17).

use std::io::Write;
use std::net::{Shutdown, TcpListener};

use bytes::Bytes;
use waterwheel_channel::{Bootstrap, ChannelOptions, NewChannel, ServerBootstrap, Stream};
use waterwheel_net::Tcp;

use crate::loop_rig::{TIME_LIMIT, get, on_every_loop};
use crate::probe::{ProbedServer, group, reset};

/// Turns auto-read off and half closure on: only an error closes the connection.
fn quiet(server: ServerBootstrap) -> ServerBootstrap {
    let options =
        ChannelOptions { auto_read: false, allow_half_closure: true, ..Default::default() };
    server.child_options(options)
}

#[test]
fn l17_a_reset_with_reads_off_closes_the_channel_and_does_not_spin() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, quiet);
        let (channel, peer, log) = server.connect();
        reset(peer);
        channel.closed().wait_timeout(TIME_LIMIT).expect("the reset is noticed");
        assert!(log.until_removed()[0].starts_with("error "));
        rig.assert_not_spinning();
    });
}

#[test]
fn l17_the_peers_end_with_reads_off_is_reported_once_and_does_not_spin() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, quiet);
        let (channel, mut peer, log) = server.connect();
        peer.write_all(b"last").unwrap();
        drop(peer);
        assert_eq!(log.next(), "peer finished");
        rig.assert_not_spinning();
        assert_eq!(log.rest(), [""; 0]);
        channel.read();
        assert_eq!(log.take(2), ["read last", "complete"]);
        channel.read();
        while log.next() != "Input over" {}
        rig.assert_not_spinning();
        assert!(channel.is_active());
        get(channel.close());
    });
}

#[test]
fn l17_the_peers_end_and_a_local_half_close_do_not_spin() {
    on_every_loop(|rig| {
        // The end of the stream was not read, so the channel does not know that both directions are closed.
        let server = ProbedServer::open(rig, quiet);
        let (channel, peer, log) = server.connect();
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(log.next(), "peer finished");
        get(channel.shutdown_output());
        assert_eq!(log.next(), "Output over");
        rig.assert_not_spinning();
        channel.read();
        let events = log.until_removed();
        assert_eq!(
            events[events.len() - 4..],
            ["Input over", "inactive", "unregistered", "removed"]
        );
        rig.assert_not_spinning();
    });
}

#[test]
fn l17_a_socket_that_was_never_connected_does_not_spin() {
    on_every_loop(|rig| {
        let channel = get(group(rig).register(NewChannel::new(Stream::new(Tcp))));
        channel.read();
        channel.set_auto_read(false);
        channel.set_auto_read(true);
        let early = channel.write_and_flush(Bytes::from("early"));
        assert!(early.join().unwrap_err().to_string().contains("not connected"));
        rig.assert_not_spinning();
        assert!(channel.is_open() && !channel.is_active());
        get(channel.close());
    });
}

#[test]
fn l17_a_refused_connect_fails_and_does_not_spin() {
    on_every_loop(|rig| {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let connected = Bootstrap::new(&group(rig), Tcp).connect(unused);
        let error = connected.join().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot connect to {unused}: ")), "{error}");
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().channels, 0);
        assert_eq!(rig.event_loop.metrics().registrations, 0);
    });
}

#[test]
fn l17_connections_that_are_not_accepted_do_not_spin() {
    on_every_loop(|rig| {
        let quiet = ChannelOptions { auto_read: false, ..Default::default() };
        let server = ProbedServer::open(rig, |server| server.options(quiet));
        let peers: Vec<_> =
            (0..3).map(|_| std::net::TcpStream::connect(server.address).unwrap()).collect();
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().channels, 1);
        server.listener.read();
        for _ in &peers {
            server.accepted();
        }
        rig.assert_not_spinning();
    });
}
