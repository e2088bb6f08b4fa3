//! Corner cases of readiness, level- and edge-triggered, under a loop: none makes it spin (L17).

use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{ReadPlan, Role};
use waterwheel_net::Socket;

use crate::driver_rig::{dup, pair, reset, until};
use crate::loop_rig::{EventLog, LoopRig, on_every_loop};

/// Attaches a stream with reads off; returns its token, its log, its peer and a duplicate to observe it.
fn stream(rig: &LoopRig) -> (Token, EventLog, TcpStream, OwnedFd) {
    let (ours, peer) = pair();
    let duplicate = dup(&ours);
    let (token, events) = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
    (token, events, peer, duplicate)
}

fn read_on(rig: &LoopRig, token: Token) {
    rig.set_read(token, Some(ReadPlan::default()));
}

#[test]
fn l17_a_loop_with_a_reset_and_reads_off_does_not_spin() {
    on_every_loop(|rig| {
        let (token, events, peer, _duplicate) = stream(rig);
        reset(peer);
        assert_eq!(events.next(), "failed ConnectionReset");
        rig.assert_not_spinning();
        read_on(rig, token);
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0], "reported once");
    });
}

/// Checks a peer that has sent "last" and closed: `PeerFinished` comes once, and `Eof` after reads are turned
/// on.
fn assert_eof_when_read(rig: &LoopRig, token: Token, events: &EventLog) {
    assert_eq!(events.next(), "peer finished");
    rig.assert_not_spinning();
    assert_eq!(events.rest(), [""; 0], "reads are off");
    read_on(rig, token);
    assert_eq!(events.take(3), ["read last", "complete", "eof"]);
    rig.assert_not_spinning();
    assert_eq!(events.rest(), [""; 0]);
}

#[test]
fn l17_a_loop_with_the_peers_end_and_reads_off_does_not_spin() {
    on_every_loop(|rig| {
        let (token, events, mut peer, duplicate) = stream(rig);
        peer.write_all(b"last").unwrap();
        drop(peer);
        until(&duplicate, PollFlags::RDHUP);
        assert_eof_when_read(rig, token, &events);
    });
}

#[test]
fn l17_a_loop_with_the_peers_end_and_a_local_half_close_does_not_spin() {
    on_every_loop(|rig| {
        let (token, events, mut peer, duplicate) = stream(rig);
        peer.write_all(b"last").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        rig.run_on_loop(move |here| here.shutdown(token, Shutdown::Write)).unwrap();
        until(&duplicate, PollFlags::HUP);
        assert_eof_when_read(rig, token, &events);
    });
}

#[test]
fn l17_a_loop_with_reads_turned_on_after_both_half_closes_does_not_spin() {
    on_every_loop(|rig| {
        let (token, events, peer, duplicate) = stream(rig);
        read_on(rig, token);
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(events.take(2), ["complete", "eof"]);
        rig.run_on_loop(move |here| here.shutdown(token, Shutdown::Write)).unwrap();
        until(&duplicate, PollFlags::HUP);
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0], "reported once");
    });
}

#[test]
fn l17_a_loop_with_a_socket_that_was_never_connected_does_not_spin() {
    on_every_loop(|rig| {
        let socket = Socket::unconnected("127.0.0.1:0".parse().unwrap()).unwrap();
        let (token, events) = rig.attach(socket, Role::Stream);
        rig.assert_not_spinning();
        read_on(rig, token);
        assert_eq!(events.take(2), ["complete", "failed NotConnected"]);
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0]);
    });
}

#[test]
fn l17_a_loop_with_an_unanswered_connect_does_not_spin() {
    on_every_loop(|rig| {
        // A backlog of one with one waiting connection: the kernel drops further SYNs.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let _first = TcpStream::connect(address).unwrap();
        let socket = Socket::unconnected(address).unwrap();
        let (token, events) = rig.attach(socket, Role::Connecting(address.into()));
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0]);
        assert!(rig.run_on_loop(move |here| here.detach(token)));
        assert_eq!(events.next(), "unregistered: on request");
        rig.assert_not_spinning();
    });
}

#[test]
fn l17_a_loop_with_a_refused_connection_does_not_spin() {
    on_every_loop(|rig| {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = Socket::unconnected(address).unwrap();
        let (token, events) = rig.attach(socket, Role::Connecting(address.into()));
        assert_eq!(events.next(), "failed ConnectionRefused");
        rig.assert_not_spinning();
        read_on(rig, token);
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0], "reported once");
    });
}

#[test]
fn l17_a_loop_with_a_closed_unix_peer_does_not_spin() {
    on_every_loop(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let (token, events) = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        peer.write_all(b"last").unwrap();
        drop(peer);
        assert_eof_when_read(rig, token, &events);
    });
}

#[test]
fn l17_the_spin_check_passes_an_idle_stream_and_fails_a_busy_one() {
    on_every_loop(|rig| {
        let (token, events, mut peer, _duplicate) = stream(rig);
        peer.write_all(b"unread").unwrap();
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0], "reads are off");
        read_on(rig, token);
        assert_eq!(events.take(2), ["read unread", "complete"]);
        // The counter-check: a readable descriptor that is never read makes the loop spin.
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let readable = waterwheel_channel::driver::Interest::READABLE;
        let (handle, _) = rig.watch(reader, readable, |_, _| Ok(()));
        assert!(
            rig.turns_in(crate::loop_rig::WATCH_TIME) >= crate::loop_rig::SPIN_TURNS,
            "the spin is noticed"
        );
        assert!(crate::loop_rig::get(handle.unregister()));
        rig.assert_not_spinning();
    });
}
