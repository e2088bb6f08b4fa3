//! Errors of one datagram leave the others and the channel alone (C13, L17).

use std::net::UdpSocket;
use std::sync::mpsc::channel;

use rustix::net::{Shutdown, shutdown};
use waterwheel_channel::{ChannelOptions, Datagram};

use crate::loop_rig::{TIME_LIMIT, get, on_every_loop};
use crate::support::{
    ProbeBuilder, ProbeEvent, ReadyMadeSocket, UdpProbe, failure_text, peer, peer_at, received,
};

/// One byte more than a UDP datagram over IPv4 can carry.
fn too_long() -> Vec<u8> {
    vec![0; 65_508]
}

#[test]
fn c13_a_datagram_that_is_too_long_fails_its_own_write_and_those_around_it_are_sent() {
    on_every_loop(|rig| {
        let (peer, probe) = (peer(), UdpProbe::bound(rig));
        let (sender, events) = channel();
        let bodies = [&b"1"[..], b"2", &too_long(), b"3", &too_long(), &too_long(), b"4"];
        for (n, body) in bodies.into_iter().enumerate() {
            let datagram = Datagram::to(peer.local_addr().unwrap(), body.to_vec());
            let sender = sender.clone();
            let written = probe.channel.write(datagram);
            written.on_complete(move |outcome| sender.send((n, outcome)).unwrap());
        }
        probe.channel.flush();
        for (n, body) in bodies.into_iter().enumerate() {
            let (which, outcome) = events.recv_timeout(TIME_LIMIT).unwrap();
            assert_eq!(which, n, "in the order of the writes");
            match outcome {
                Ok(()) => assert!(body.len() == 1),
                Err(error) => {
                    assert!(body.len() > 1 && error.to_string().contains("too long"), "{error}");
                }
            }
        }
        let all: Vec<_> = (0..4).map(|_| received(&peer).0).collect();
        assert_eq!(all, ["1", "2", "3", "4"]);
        let errors =
            probe.rest().into_iter().filter(|events| matches!(events, ProbeEvent::Error(_)));
        assert_eq!(errors.count(), 0, "the writer received the error");
        assert_eq!(probe.channel.pending_bytes(), 0);
    });
}

#[test]
fn c13_a_datagram_without_an_address_needs_a_connected_channel() {
    on_every_loop(|rig| {
        let probe = UdpProbe::bound(rig);
        let why = failure_text(probe.channel.write_and_flush(Datagram::new("whom to?")));
        assert!(why.contains("Destination address required"), "{why}");
        let peer = peer();
        probe.channel.send(Datagram::to(peer.local_addr().unwrap(), "you"));
        assert_eq!(received(&peer).0, "you");
    });
}

#[test]
fn c13_unobserved_failed_writes_are_reported_each_time_their_number_doubles() {
    on_every_loop(|rig| {
        let probe = UdpProbe::bound(rig);
        for _ in 0..10 {
            probe.channel.send(Datagram::new("whom to?"));
        }
        for count in [1, 2, 4, 8] {
            let report = rig.wait_for_report("a write was refused");
            assert!(report.contains(&format!("{count} so far: Destination")), "{report}");
        }
        rig.wait_until_asleep();
        assert_eq!(rig.reports(), [""; 0]);
        assert!(probe.channel.is_active());
    });
}

/// A free port that can be bound again.
pub(crate) fn empty_port() -> String {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    address.to_string()
}

#[test]
fn c13_port_unreachable_is_an_error_and_the_channel_stays_open() {
    on_every_loop(|rig| {
        let there = empty_port();
        let probe = ProbeBuilder::new(rig).connect(&*there);
        for _ in 0..3 {
            probe.channel.send(Datagram::new("anybody?"));
            assert!(probe.error().contains("refused"));
        }
        rig.assert_not_spinning();
        assert_eq!(probe.rest(), [], "one error per datagram");
        let peer = peer_at(&there);
        probe.channel.send(Datagram::new("hello"));
        assert_eq!(received(&peer).0, "hello");
        peer.send_to(b"here", probe.address()).unwrap();
        assert_eq!(probe.texts(1), ["here"]);
    });
}

#[test]
fn c13_the_error_of_one_datagram_does_not_fail_the_write_of_the_next() {
    on_every_loop(|rig| {
        let there = empty_port();
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let probe = ProbeBuilder::new(rig).options(options).connect(&*there);
        get(probe.channel.write_and_flush(Datagram::new("anybody?")));
        let peer = peer_at(&there);
        // The kernel answers this send with the error of the first datagram.
        get(probe.channel.write_and_flush(Datagram::new("hello")));
        assert_eq!(received(&peer).0, "hello");
        assert!(probe.error().contains("refused"));
        rig.assert_not_spinning();
        assert_eq!(probe.rest(), []);
    });
}

#[test]
fn l17_an_error_while_reads_are_off_waits_for_the_next_read() {
    on_every_loop(|rig| {
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let probe = ProbeBuilder::new(rig).options(options).connect(&*empty_port());
        get(probe.channel.write_and_flush(Datagram::new("anybody?")));
        rig.assert_not_spinning();
        assert_eq!(probe.rest(), []);
        probe.channel.read();
        assert!(probe.error().contains("refused"));
        rig.assert_not_spinning();
        assert!(probe.channel.is_active());
    });
}

#[test]
fn l17_a_socket_shut_down_through_a_duplicate_fails_once() {
    on_every_loop(|rig| {
        let (given, behind) = ReadyMadeSocket::bound();
        let probe = ProbeBuilder::of(rig, given).bind("127.0.0.1:0");
        peer().send_to(b"last", behind.local_addr().unwrap()).unwrap();
        assert_eq!(probe.texts(1), ["last"]);
        // The socket is not connected: shutdown(2) returns ENOTCONN, but takes effect.
        let _ = shutdown(&behind, Shutdown::Both);
        assert!(probe.error().contains("end of file"), "reads have ended");
        assert_eq!(probe.next(), ProbeEvent::Inactive);
        rig.assert_not_spinning();
    });
}

#[test]
fn l17_a_socket_shut_down_while_reads_are_off_does_not_spin() {
    on_every_loop(|rig| {
        let (given, behind) = ReadyMadeSocket::bound();
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let probe = ProbeBuilder::of(rig, given).options(options).bind("127.0.0.1:0");
        let _ = shutdown(&behind, Shutdown::Both);
        rig.assert_not_spinning();
        assert_eq!(probe.rest(), []);
        probe.channel.read();
        assert!(probe.error().contains("end of file"));
        assert_eq!(probe.next(), ProbeEvent::Inactive);
    });
}
