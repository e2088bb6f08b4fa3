//! Streams: connecting, writing, reading, and the order of their events (L05).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};

use bytes::Bytes;
use rustix::event::PollFlags;
use socket2::SockRef;
use waterwheel_channel::Token;
use waterwheel_channel::driver::{Io, OutQueue, ReadPlan, Role, Submit};
use waterwheel_net::Socket;

use crate::driver_rig::{dup, on_every_driver, pair, queue_of, reset, until};

#[test]
fn l05_a_stream_connects_then_writes_then_reads() {
    on_every_driver(|rig| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = Socket::unconnected(address).unwrap();
        let token = rig.attach(socket, Role::Connecting(address.into()));
        rig.read_on(token);
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"hello").unwrap();
        assert_eq!(rig.event(), (token, "connected".into()));
        assert_eq!(rig.write(token, b"world").unwrap(), Submit::Done(5));
        assert_eq!(rig.round(), ["read hello", "complete"]);
        let mut received = [0; 5];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"world");
        rig.assert_quiet();
    });
}

#[test]
fn l05_a_refused_connect_fails_once_and_is_quiet_afterwards() {
    on_every_driver(|rig| {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = Socket::unconnected(address).unwrap();
        let token = rig.attach(socket, Role::Connecting(address.into()));
        rig.read_on(token);
        assert_eq!(rig.round(), ["failed ConnectionRefused"]);
        rig.assert_quiet();
    });
}

#[test]
fn l05_a_connect_that_cannot_begin_is_an_error_and_leaves_no_registration() {
    on_every_driver(|rig| {
        let [v4, v6]: [SocketAddr; 2] = ["127.0.0.1:9", "[::1]:9"].map(|it| it.parse().unwrap());
        let token = rig.token();
        let socket = Socket::unconnected(v4).unwrap();
        let error =
            rig.driver.attach(token, socket.into(), Role::Connecting(v6.into())).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
        assert_eq!(rig.write(token, b"x").unwrap_err().kind(), ErrorKind::NotFound);
        rig.assert_quiet();
    });
}

#[test]
fn l05_wrote_comes_before_read_and_read_before_eof() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        rig.read_on(token);
        let mut written = rig.fill(token);
        // All at once: room, data, and the end of the stream.
        peer.write_all(b"last words").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        let mut sink = vec![0; 1 << 20];
        while written > 0 {
            written -= peer.read(&mut sink).unwrap();
        }
        assert_eq!(rig.round(), ["wrote 0", "read last words", "complete", "eof"]);
        assert_eq!(rig.write(token, b"still open this way").unwrap(), Submit::Done(19));
        rig.assert_quiet();
    });
}

#[test]
fn l05_data_sent_before_a_reset_is_read_before_failed() {
    on_every_driver(|rig| {
        let (ours, mut peer) = pair();
        let duplicate = dup(&ours);
        let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        rig.driver.set_read(token, Some(ReadPlan { max_reads: 2, size: 4 }));
        peer.write_all(b"aaaabbbbccccdd").unwrap();
        reset(peer);
        until(&duplicate, PollFlags::HUP);
        // The error is reported after all data before it was read.
        assert_eq!(rig.round(), ["read aaaa", "read bbbb", "complete"]);
        let last = ["read cccc", "read dd", "complete"];
        assert_eq!(rig.round(), last);
        assert_eq!(rig.round(), ["complete", "failed ConnectionReset"]);
        rig.assert_quiet();
    });
}

#[test]
fn l05_a_pending_write_of_a_reset_stream_is_answered_by_failed_alone() {
    on_every_driver(|rig| {
        let (token, peer) = rig.stream();
        rig.fill(token);
        reset(peer);
        assert_eq!(rig.round(), ["failed ConnectionReset"]);
        rig.assert_quiet();
        assert!(rig.write(token, b"x").is_err(), "the stream is broken");
    });
}

#[test]
fn a_write_takes_many_chunks_at_once_and_returns_the_number_of_bytes() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        let mut queue = OutQueue::new();
        (0..100u8).for_each(|i| queue.push(Bytes::from(vec![i])));
        // At most 64 slices per call; the rest waits for the next one.
        assert_eq!(rig.driver.write(token, &queue).unwrap(), Submit::Done(64));
        queue.advance(64);
        assert_eq!(rig.driver.write(token, &queue).unwrap(), Submit::Done(36));
        let mut received = [0; 100];
        peer.read_exact(&mut received).unwrap();
        assert!(received.iter().enumerate().all(|(i, byte)| i == usize::from(*byte)));
    });
}

#[test]
fn a_write_without_room_is_pending_until_there_is_room() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        let mut written = rig.fill(token);
        rig.assert_quiet();
        let error = rig.write(token, b"x").unwrap_err();
        assert!(error.to_string().contains("pending"), "{error}");
        let mut sink = vec![0; 1 << 20];
        while written > 0 {
            written -= peer.read(&mut sink).unwrap();
        }
        assert_eq!(rig.round(), ["wrote 0"]);
        rig.assert_quiet();
        assert_eq!(rig.write(token, b"x").unwrap(), Submit::Done(1));
    });
}

#[test]
fn a_write_after_a_local_half_close_is_an_error() {
    on_every_driver(|rig| {
        let (token, _peer) = rig.stream();
        rig.driver.shutdown(token, Shutdown::Write).unwrap();
        assert_eq!(rig.write(token, b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_round_of_reads_ends_with_the_plan_and_continues_in_the_next_round() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        rig.driver.set_read(token, Some(ReadPlan { max_reads: 2, size: 3 }));
        peer.write_all(b"abcdefgh").unwrap();
        assert_eq!(rig.round(), ["read abc", "read def", "complete"]);
        assert_eq!(rig.round(), ["read gh", "complete"]);
        rig.assert_quiet();
    });
}

#[test]
fn a_plan_of_zero_reads_of_zero_bytes_reads_one_byte() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        rig.driver.set_read(token, Some(ReadPlan { max_reads: 0, size: 0 }));
        peer.write_all(b"a").unwrap();
        assert_eq!(rig.round(), ["read a", "complete"]);
    });
}

#[test]
fn turning_reads_off_ends_the_round() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        rig.driver.set_read(token, Some(ReadPlan { max_reads: 16, size: 1 }));
        peer.write_all(b"abc").unwrap();
        assert_eq!(rig.event(), (token, "read a".into()));
        rig.read_off(token);
        assert_eq!(rig.drain(), ["complete"]);
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["read bc", "complete"]);
    });
}

#[test]
fn eof_found_while_reads_are_turned_off_is_reported_when_they_are_on_again() {
    on_every_driver(|rig| {
        let (token, peer) = rig.stream();
        rig.read_on(token);
        drop(peer);
        assert_eq!(rig.event(), (token, "complete".into()));
        rig.read_off(token);
        assert_eq!(rig.drain(), ["peer finished"]);
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["eof"], "Eof alone: ReadComplete has come before");
        rig.assert_quiet();
    });
}

#[test]
fn nothing_is_read_before_reads_are_on() {
    on_every_driver(|rig| {
        let (token, mut peer) = rig.stream();
        peer.write_all(b"early").unwrap();
        rig.assert_quiet();
        rig.read_on(token);
        assert_eq!(rig.round(), ["read early", "complete"]);
    });
}

#[test]
fn invalid_calls_are_errors_that_name_the_reason() {
    on_every_driver(|rig| {
        let (token, unknown) = (rig.token(), Token::from_bits(99));
        let error = rig.driver.attach(token, Io::new(5u8), Role::Stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.to_string().contains("u8") && error.to_string().contains("Socket"),
            "{error}"
        );

        rig.read_on(unknown);
        rig.detach(unknown);
        let errors = [
            rig.driver.write(unknown, &queue_of(b"x")).unwrap_err(),
            rig.driver.shutdown(unknown, Shutdown::Both).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::NotFound), "{errors:?}");

        let listener = Socket::new(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let token = rig.attach(listener, Role::Listener);
        let error = rig.driver.shutdown(token, Shutdown::Both).unwrap_err();
        assert!(error.to_string().contains("listener"), "{error}");
        assert!(rig.write(token, b"x").unwrap_err().to_string().contains("listener"));

        let (ours, _peer) = pair();
        let twice = rig.driver.attach(token, Socket::new(ours).unwrap().into(), Role::Stream);
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
fn a_socket_is_made_non_blocking_and_is_closed_by_detach() {
    on_every_driver(|rig| {
        let (ours, mut peer) = pair();
        let socket = Socket::new(ours).unwrap();
        assert!(SockRef::from(&socket).nonblocking().unwrap());
        let token = rig.attach(socket, Role::Stream);
        rig.detach(token);
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    });
}
