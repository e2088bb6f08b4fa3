//! Corner cases of readiness, level- and edge-triggered: in none of them may every wait return at once (L17).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use waterwheel_channel::Token;
use waterwheel_channel::driver::Role;
use waterwheel_net::Socket;

use crate::driver_rig::{DriverRig, dup, on_every_driver, pair, reset, until};

/// Attaches a stream with reads off; returns its token, its peer and a duplicate to observe it without the
/// driver.
fn stream(rig: &mut DriverRig) -> (Token, TcpStream, OwnedFd) {
    let (ours, peer) = pair();
    let duplicate = dup(&ours);
    (rig.attach(Socket::new(ours).unwrap(), Role::Stream), peer, duplicate)
}

#[test]
fn l17_a_reset_with_reads_off_does_not_spin() {
    on_every_driver(|rig| {
        let (token, peer, _) = stream(rig);
        reset(peer);
        assert_eq!(rig.round(), ["failed ConnectionReset"]);
        rig.assert_quiet();
        rig.read_on(token);
        rig.assert_quiet();
    });
}

#[test]
fn l17_the_peers_end_with_reads_off_does_not_spin() {
    on_every_driver(|rig| {
        let (token, mut peer, duplicate) = stream(rig);
        peer.write_all(b"last").unwrap();
        drop(peer);
        until(&duplicate, PollFlags::RDHUP);
        assert_eq!(rig.round(), ["peer finished"]);
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["read last", "complete", "eof"]);
        rig.assert_quiet();
    });
}

#[test]
fn l17_the_peers_end_and_a_local_half_close_with_reads_off_do_not_spin() {
    on_every_driver(|rig| {
        let (token, mut peer, duplicate) = stream(rig);
        peer.write_all(b"last").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        rig.driver.shutdown(token, Shutdown::Write).unwrap();
        until(&duplicate, PollFlags::HUP);
        assert_eq!(rig.round(), ["peer finished"]);
        rig.assert_quiet();
        // The socket has left the kernel's set; turning reads on adds it again.
        rig.read_on(token);
        assert_eq!(rig.round(), ["read last", "complete", "eof"]);
        rig.assert_quiet();
    });
}

#[test]
fn l17_a_local_half_close_after_eof_does_not_spin() {
    on_every_driver(|rig| {
        let (token, peer, duplicate) = stream(rig);
        rig.read_on(token);
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rig.round(), ["complete", "eof"]);
        rig.driver.shutdown(token, Shutdown::Write).unwrap();
        until(&duplicate, PollFlags::HUP);
        rig.assert_quiet();
    });
}

#[test]
fn l17_eof_is_reported_once_however_often_reads_are_turned_on() {
    on_every_driver(|rig| {
        let (token, peer, _) = stream(rig);
        rig.read_on(token);
        drop(peer);
        assert_eq!(rig.round(), ["complete", "eof"]);
        rig.read_off(token);
        rig.read_on(token);
        rig.assert_quiet();
    });
}

#[test]
fn l17_a_reset_after_eof_is_still_reported() {
    on_every_driver(|rig| {
        let (token, peer, duplicate) = stream(rig);
        rig.read_on(token);
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rig.round(), ["complete", "eof"]);
        reset(peer);
        until(&duplicate, PollFlags::ERR);
        assert_eq!(rig.round(), ["failed BrokenPipe"]);
        rig.assert_quiet();
    });
}

#[test]
fn l17_a_hang_up_answers_a_pending_write_and_then_is_quiet() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        rig.fill(token);
        rig.driver.shutdown(token, Shutdown::Both).unwrap();
        assert_eq!(rig.round(), ["wrote 0"]);
        rig.assert_quiet();
        assert!(rig.write(token, b"x").is_err());
        peer.read_exact(&mut [0]).unwrap();
        rig.assert_quiet();
    });
}

#[test]
fn l17_a_closed_peer_of_a_unix_stream_with_reads_off_does_not_spin() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        peer.write_all(b"last").unwrap();
        drop(peer);
        assert_eq!(rig.round(), ["peer finished"]);
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["read last", "complete", "eof"]);
        rig.assert_quiet();
    });
}

#[test]
fn l17_a_socket_that_was_never_connected_does_not_spin() {
    on_every_driver(|rig| {
        let socket = Socket::unconnected("127.0.0.1:0".parse().unwrap()).unwrap();
        let token = rig.attach(socket, Role::Stream);
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["complete", "failed NotConnected"]);
        rig.assert_quiet();
    });
}

#[test]
fn l17_an_unanswered_connect_does_not_spin() {
    on_every_driver(|rig| {
        // A backlog of one with one waiting connection: the kernel drops further SYNs.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let _first = TcpStream::connect(address).unwrap();
        let socket = Socket::unconnected(address).unwrap();
        let token = rig.attach(socket, Role::Connecting(address.into()));
        rig.assert_quiet();
        let error = rig.driver.shutdown(token, Shutdown::Both).unwrap_err();
        assert!(error.to_string().contains("connecting"), "{error}");
        assert!(rig.write(token, b"x").unwrap_err().to_string().contains("connecting"));
        rig.detach(token);
        rig.assert_quiet();
    });
}

#[test]
fn l17_a_listener_that_was_shut_down_fails_once() {
    on_every_driver(|rig| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let duplicate = dup(&listener);
        let token = rig.attach(Socket::new(listener).unwrap(), Role::Listener);
        rustix::net::shutdown(&duplicate, rustix::net::Shutdown::Both).unwrap();
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["complete", "failed InvalidInput"]);
        rig.assert_quiet();
    });
}
