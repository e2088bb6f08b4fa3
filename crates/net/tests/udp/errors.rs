//! What goes wrong with one datagram, and leaves the others and the channel alone.

use std::net::UdpSocket;
use std::sync::mpsc::channel;

use rustix::net::{Shutdown, shutdown};
use waterwheel_channel::{ChannelOptions, Datagram};

use crate::loop_rig::{LONG, get, on_every_loop};
use crate::support::{Given, Maker, Post, Told, peer, peer_at, received, refusal};

/// One byte more than UDP over IPv4 takes.
fn too_long() -> Vec<u8> {
    vec![0; 65_508]
}

#[test]
fn c13_a_datagram_that_is_too_long_fails_its_own_write_and_those_around_it_are_sent() {
    on_every_loop(|rig| {
        let (peer, post) = (peer(), Post::bound(rig));
        let (tell, told) = channel();
        let bodies = [&b"1"[..], b"2", &too_long(), b"3", &too_long(), &too_long(), b"4"];
        for (n, body) in bodies.into_iter().enumerate() {
            let datagram = Datagram::to(peer.local_addr().unwrap(), body.to_vec());
            let tell = tell.clone();
            let written = post.channel.write(datagram);
            written.on_complete(move |outcome| tell.send((n, outcome)).unwrap());
        }
        post.channel.flush();
        for (n, body) in bodies.into_iter().enumerate() {
            let (which, outcome) = told.recv_timeout(LONG).unwrap();
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
        let errors = post.rest().into_iter().filter(|told| matches!(told, Told::Error(_)));
        assert_eq!(errors.count(), 0, "whoever wrote it was told");
        assert_eq!(post.channel.pending_bytes(), 0);
    });
}

#[test]
fn c13_a_datagram_without_an_address_needs_a_connected_channel() {
    on_every_loop(|rig| {
        let post = Post::bound(rig);
        let why = refusal(post.channel.write_and_flush(Datagram::new("whom to?")));
        assert!(why.contains("Destination address required"), "{why}");
        let peer = peer();
        post.channel.send(Datagram::to(peer.local_addr().unwrap(), "you"));
        assert_eq!(received(&peer).0, "you");
    });
}

#[test]
fn c13_failing_writes_that_nobody_waits_for_are_reported_each_time_they_have_doubled() {
    on_every_loop(|rig| {
        let post = Post::bound(rig);
        for _ in 0..10 {
            post.channel.send(Datagram::new("whom to?"));
        }
        for count in [1, 2, 4, 8] {
            let report = rig.report_with("a write was refused");
            assert!(report.contains(&format!("{count} so far: Destination")), "{report}");
        }
        rig.until_asleep();
        assert_eq!(rig.reports(), [""; 0]);
        assert!(post.channel.is_active());
    });
}

/// A port that nobody has, and that can be taken again.
pub(crate) fn empty_port() -> String {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    address.to_string()
}

#[test]
fn c13_a_peer_that_does_not_listen_is_an_error_and_the_channel_goes_on() {
    on_every_loop(|rig| {
        let there = empty_port();
        let post = Maker::new(rig).connect(&*there);
        for _ in 0..3 {
            post.channel.send(Datagram::new("anybody?"));
            assert!(post.error().contains("refused"));
        }
        rig.assert_calm();
        assert_eq!(post.rest(), [], "one error for each");
        let peer = peer_at(&there);
        post.channel.send(Datagram::new("hello"));
        assert_eq!(received(&peer).0, "hello");
        peer.send_to(b"here", post.address()).unwrap();
        assert_eq!(post.texts(1), ["here"]);
    });
}

#[test]
fn c13_what_became_of_one_datagram_does_not_fail_the_write_of_the_next() {
    on_every_loop(|rig| {
        let there = empty_port();
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let post = Maker::new(rig).options(options).connect(&*there);
        get(post.channel.write_and_flush(Datagram::new("anybody?")));
        let peer = peer_at(&there);
        // The kernel answers this one with what became of the first.
        get(post.channel.write_and_flush(Datagram::new("hello")));
        assert_eq!(received(&peer).0, "hello");
        assert!(post.error().contains("refused"));
        rig.assert_calm();
        assert_eq!(post.rest(), []);
    });
}

#[test]
fn l17_an_error_while_reads_are_off_waits_for_the_next_read() {
    on_every_loop(|rig| {
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let post = Maker::new(rig).options(options).connect(&*empty_port());
        get(post.channel.write_and_flush(Datagram::new("anybody?")));
        rig.assert_calm();
        assert_eq!(post.rest(), []);
        post.channel.read();
        assert!(post.error().contains("refused"));
        rig.assert_calm();
        assert!(post.channel.is_active());
    });
}

#[test]
fn l17_a_socket_that_somebody_else_shuts_down_fails_once() {
    on_every_loop(|rig| {
        let (given, behind) = Given::bound();
        let post = Maker::of(rig, given).bind("127.0.0.1:0");
        peer().send_to(b"last", behind.local_addr().unwrap()).unwrap();
        assert_eq!(post.texts(1), ["last"]);
        // Not connected: the kernel says so, and does it all the same.
        let _ = shutdown(&behind, Shutdown::Both);
        assert!(post.error().contains("end of file"), "it can be read no more");
        assert_eq!(post.next(), Told::Inactive);
        rig.assert_calm();
    });
}

#[test]
fn l17_a_socket_that_is_shut_down_while_reads_are_off_does_not_spin() {
    on_every_loop(|rig| {
        let (given, behind) = Given::bound();
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let post = Maker::of(rig, given).options(options).bind("127.0.0.1:0");
        let _ = shutdown(&behind, Shutdown::Both);
        rig.assert_calm();
        assert_eq!(post.rest(), []);
        post.channel.read();
        assert!(post.error().contains("end of file"));
        assert_eq!(post.next(), Told::Inactive);
    });
}
