//! File descriptor passing over Unix streams (SCM_RIGHTS, C13).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use bytes::Bytes;
use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::{
    AncillaryMessage, Channel, Completion, FileRegion, NewChannel, Stream, UnixAddress,
};
use waterwheel_net::{Socket, existing_stream, wrap_descriptor};

use crate::ancillary_messages::{
    ForwardsReads, Pipe, ReceivedMessages, descriptor_of, receive, send,
};
use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::support::{SocketDirectory, echo};

/// Returns a connection with these options whose reads are forwarded to the test.
fn connection(rig: &LoopRig, options: &[SocketOption]) -> (Channel, UnixStream, ReceivedMessages) {
    let (ours, peer) = UnixStream::pair().unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let (show, shown) = ForwardsReads::pair();
    let new = NewChannel::new(existing_stream(ours).unwrap()).initialiser(move |edit| {
        edit.add_last("shows", ForwardsReads::to(show))?;
        Ok(())
    });
    let channel = get(rig.event_loop.register(new));
    for option in options {
        get(channel.set_option(*option));
    }
    (channel, peer, shown)
}

const TAKES: &[SocketOption] = &[SocketOption::ReceivePassed(true)];

#[test]
fn c13_a_descriptor_written_by_a_channel_arrives_at_its_peer() {
    on_every_loop(|rig| {
        let (channel, peer, _) = connection(rig, &[]);
        let pipe = Pipe::new();
        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
        get(channel.write_and_flush(AncillaryMessage::new("take this", vec![end])));
        let (bytes, mut passed) = receive(&peer);
        assert_eq!((bytes.as_slice(), passed.len()), (&b"take this"[..], 1));
        pipe.assert_other_end_is(passed.remove(0));
    });
}

#[test]
fn c13_a_descriptor_that_a_peer_passes_is_read_as_an_ancillary_message() {
    on_every_loop(|rig| {
        let (_channel, peer, shown) = connection(rig, TAKES);
        let (one, other) = (Pipe::new(), Pipe::new());
        send(&peer, b"two", &[one.writer.as_fd(), other.writer.as_fd()]);
        let mut message = shown.next();
        assert_eq!((&*message.bytes, message.passed.len()), (&b"two"[..], 2));
        assert!(!message.truncated && message.peer.is_none() && message.credentials.is_none());
        let second = descriptor_of(message.passed.remove(1));
        let first = descriptor_of(message.passed.remove(0));
        let flags = rustix::io::fcntl_getfd(&first).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "close-on-exec");
        one.assert_other_end_is(first);
        other.assert_other_end_is(second);
        (&peer).write_all(b"plain").unwrap();
        let plain = shown.next();
        assert_eq!((&*plain.bytes, plain.passed.len()), (&b"plain"[..], 0));
        rig.assert_not_spinning();
    });
}

#[test]
fn c13_passed_descriptors_that_are_not_wanted_are_closed() {
    on_every_loop(|rig| {
        let (channel, peer, shown) = connection(rig, &[]);
        let pipe = Pipe::new();
        send(&peer, b"unasked", &[pipe.writer.as_fd()]);
        assert!(shown.until("unasked").is_empty());
        pipe.assert_writers_closed();
        // Not even while credentials are received.
        get(channel.set_option(SocketOption::ReceiveCredentials(true)));
        let pipe = Pipe::new();
        send(&peer, b"unasked", &[pipe.writer.as_fd()]);
        let message = shown.next();
        assert!(message.passed.is_empty() && message.credentials.is_some() && !message.truncated);
        pipe.assert_writers_closed();
        // After the option was turned on and off again.
        get(channel.set_option(SocketOption::ReceiveCredentials(false)));
        get(channel.set_option(SocketOption::ReceivePassed(true)));
        let pipe = Pipe::new();
        send(&peer, b"asked", &[pipe.writer.as_fd()]);
        pipe.assert_other_end_is(descriptor_of(shown.until("asked").remove(0)));
        get(channel.set_option(SocketOption::ReceivePassed(false)));
        let pipe = Pipe::new();
        send(&peer, b"unasked", &[pipe.writer.as_fd()]);
        assert!(shown.until("unasked").is_empty());
        pipe.assert_writers_closed();
    });
}

#[test]
fn c13_descriptors_of_unread_ancillary_messages_are_closed_with_their_channel() {
    on_every_loop(|rig| {
        let (channel, peer, shown) = connection(rig, TAKES);
        let pipe = Pipe::new();
        send(&peer, b"kept", &[pipe.writer.as_fd()]);
        drop(shown.next());
        pipe.assert_writers_closed();
        // A message that waits to be sent.
        let stuck = vec![7; 4_000_000];
        let written = channel.write_and_flush(Bytes::from(stuck));
        let pipe = Pipe::new();
        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
        let late = channel.write_and_flush(AncillaryMessage::new("late", vec![end]));
        assert!(!written.is_done());
        get(channel.close());
        assert!(late.join().is_err() && written.join().is_err());
        pipe.assert_writers_closed();
    });
}

#[test]
fn c13_bytes_files_and_ancillary_messages_keep_their_order_in_a_stream() {
    on_every_loop(|rig| {
        let (channel, mut peer, _) = connection(rig, &[]);
        let pipes = [Pipe::new(), Pipe::new()];
        let name = std::env::temp_dir().join(format!("waterwheel-passing-{}", std::process::id()));
        std::fs::write(&name, "file").unwrap();
        let file = FileRegion::new(File::open(&name).unwrap(), ..).unwrap();
        std::fs::remove_file(&name).unwrap();
        let end = |pipe: &Pipe| vec![wrap_descriptor(pipe.writer.try_clone().unwrap())];
        let writes = [
            channel.write(Bytes::from("a")),
            channel.write(AncillaryMessage::new("B", end(&pipes[0]))),
            channel.write(Bytes::from("c")),
            channel.write(file),
            channel.write(AncillaryMessage::new("D", end(&pipes[1]))),
            channel.write_and_flush(Bytes::from("e")),
        ];
        let (mut all, mut passed) = (Vec::new(), Vec::new());
        while all.len() < 9 {
            let (bytes, more) = receive(&peer);
            all.extend(bytes);
            passed.extend(more.into_iter().map(|fd| (all.len(), fd)));
        }
        assert_eq!(all, b"aBcfileDe");
        for write in writes {
            get(write);
        }
        let [one, other] = pipes;
        let (second, first) = (passed.pop().unwrap(), passed.pop().unwrap());
        assert!((2..=3).contains(&first.0) && second.0 >= 8, "{first:?} {second:?}");
        one.assert_other_end_is(first.1);
        other.assert_other_end_is(second.1);
        get(channel.write_and_flush(Bytes::from("behind")));
        let mut behind = [0; 6];
        peer.read_exact(&mut behind).unwrap();
        assert_eq!(&behind, b"behind");
    });
}

#[test]
fn c13_descriptors_of_a_partly_sent_message_are_passed_once() {
    on_every_loop(|rig| {
        let (channel, peer, _) = connection(rig, &[SocketOption::SendBuffer(8 * 1024)]);
        let pipe = Pipe::new();
        let body: Vec<u8> = (0..1_000_000_u32).map(|n| n as u8).collect();
        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
        let written = channel.write_and_flush(AncillaryMessage::new(body.clone(), vec![end]));
        let (mut all, mut passed) = (Vec::new(), Vec::new());
        while all.len() < body.len() {
            let (bytes, more) = receive(&peer);
            all.extend(bytes);
            passed.extend(more);
        }
        assert!(all == body);
        get(written);
        assert_eq!(passed.len(), 1);
        pipe.assert_other_end_is(passed.remove(0));
    });
}

#[test]
fn c13_an_ancillary_message_without_bytes_is_refused_by_a_stream() {
    on_every_loop(|rig| {
        let (channel, peer, _) = connection(rig, &[]);
        let pipe = Pipe::new();
        let end = wrap_descriptor(pipe.writer.try_clone().unwrap());
        let error =
            channel.write_and_flush(AncillaryMessage::new("", vec![end])).join().unwrap_err();
        let said = "an ancillary message without bytes on a stream: file descriptors and credentials need at least one byte";
        assert_eq!(error.to_string(), said);
        pipe.assert_writers_closed();
        get(channel.write_and_flush(Bytes::from("go on")));
        assert_eq!(receive(&peer).0, b"go on");
    });
}

#[test]
fn c13_an_ancillary_message_that_cannot_be_passed_fails_only_its_own_write() {
    on_every_loop(|rig| {
        let (channel, peer, _) = connection(rig, &[]);
        let pipe = Pipe::new();
        let many: Vec<Io> =
            (0..254).map(|_| wrap_descriptor(pipe.writer.try_clone().unwrap())).collect();
        let before = channel.write(Bytes::from("before "));
        let too_many = channel.write(AncillaryMessage::new("lost", many));
        let strange = channel.write(AncillaryMessage::new("lost", vec![Io::new("no descriptor")]));
        let behind = channel.write_and_flush(Bytes::from("behind"));
        let error = too_many.join().unwrap_err().to_string();
        assert_eq!(error, "cannot pass 254 descriptors in one message: the limit is 253");
        let error = strange.join().unwrap_err().to_string();
        assert_eq!(error, "cannot pass a &str: only file descriptors can be passed (SCM_RIGHTS)");
        get(before);
        get(behind);
        let mut all = Vec::new();
        while all.len() < 13 {
            all.extend(receive(&peer).0);
        }
        assert_eq!(all, b"before behind");
        pipe.assert_writers_closed();
        // The maximum number of descriptors.
        let pipe = Pipe::new();
        let most: Vec<Io> =
            (0..253).map(|_| wrap_descriptor(pipe.writer.try_clone().unwrap())).collect();
        get(channel.write_and_flush(AncillaryMessage::new("most", most)));
        assert_eq!(receive(&peer).1.len(), 253);
        pipe.assert_writers_closed();
    });
}

#[test]
fn c13_an_ancillary_message_that_cannot_be_passed_fails_no_adjacent_empty_write() {
    on_every_loop(|rig| {
        for is_awaited in [true, false] {
            let (channel, peer, _) = connection(rig, &[]);
            let (sender, events) = mpsc::channel();
            get(channel.with_pipeline(move |pipeline| {
                let done = |at| {
                    let sender = sender.clone();
                    Completion::local(move |result| _ = sender.send((at, result.is_ok())))
                };
                let strange = AncillaryMessage::new("lost", vec![Io::new("no descriptor")]);
                pipeline.write_with(Bytes::new(), done("before"));
                match is_awaited {
                    true => pipeline.write_with(strange, done("message")),
                    false => pipeline.write(strange),
                }
                pipeline.write_with(Bytes::new(), done("behind"));
                pipeline.write(Bytes::from("go on"));
                pipeline.flush();
            }));
            assert_eq!(receive(&peer).0, b"go on");
            let expected = [("before", true), ("message", false), ("behind", true)];
            let expected = expected.iter().filter(|(at, _)| is_awaited || *at != "message");
            for expected in expected {
                assert_eq!(events.recv_timeout(TIME_LIMIT), Ok(*expected));
            }
        }
    });
}

/// Writes to a channel when it is dropped.
struct WritesOnDrop(Channel);

impl Drop for WritesOnDrop {
    fn drop(&mut self) {
        self.0.send(Bytes::from("last words"));
    }
}

#[test]
fn c13_a_refused_value_may_write_to_its_channel_when_dropped() {
    on_every_loop(|rig| {
        let (channel, peer, _) = connection(rig, &[]);
        let strange = AncillaryMessage::new("lost", vec![Io::new(WritesOnDrop(channel.clone()))]);
        assert!(channel.write_and_flush(strange).join().is_err());
        assert_eq!(receive(&peer).0, b"last words");
        get(channel.write_and_flush(Bytes::from("go on")));
        assert_eq!(receive(&peer).0, b"go on");
    });
}

#[test]
fn c13_ancillary_messages_are_refused_by_tcp_streams() {
    on_every_loop(|rig| {
        let (ours, _peer) = UnixStream::pair().unwrap();
        let stream = Stream::connected(Socket::new(ours).unwrap().into(), None);
        let channel = get(rig.event_loop.register(NewChannel::new(stream)));
        let error =
            channel.write_and_flush(AncillaryMessage::new("x", Vec::new())).join().unwrap_err();
        assert!(error.to_string().contains("AncillaryMessage"), "{error}");
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = std::net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let stream = Stream::connected(Socket::new(ours).unwrap().into(), None);
        let channel = get(rig.event_loop.register(NewChannel::new(stream)));
        for option in [SocketOption::ReceivePassed(true), SocketOption::ReceiveCredentials(true)] {
            let error = channel.set_option(option).join().unwrap_err().to_string();
            assert!(error.contains(option.name()), "{error}");
        }
    });
}

#[test]
fn c13_many_ancillary_messages_both_ways_leak_no_descriptor() {
    on_every_loop(|rig| {
        let (channel, peer, shown) = connection(rig, TAKES);
        for round in 0..50 {
            let pipe = Pipe::new();
            send(&peer, b"to", &[pipe.writer.as_fd()]);
            let there = descriptor_of(shown.until("to").remove(0));
            get(channel.write_and_flush(AncillaryMessage::new("fro", vec![wrap_descriptor(there)])));
            let (bytes, mut back): (_, Vec<OwnedFd>) = receive(&peer);
            assert_eq!((bytes.as_slice(), back.len()), (&b"fro"[..], 1), "round {round}");
            pipe.assert_other_end_is(back.remove(0));
        }
    });
}

#[test]
fn c13_a_received_ancillary_message_can_be_written_back() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let echo = echo(rig).child_socket_option(SocketOption::ReceivePassed(true));
        get(echo.bind(UnixAddress::path(directory.path("door"))));
        // A bound peer: its messages carry its address.
        let peer =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        peer.bind(&socket2::SockAddr::unix(directory.path("peer")).unwrap()).unwrap();
        peer.connect(&socket2::SockAddr::unix(directory.path("door")).unwrap()).unwrap();
        peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let pipe = Pipe::new();
        send(&peer, b"to and fro", &[pipe.writer.as_fd()]);
        let (bytes, mut passed) = receive(&peer);
        assert_eq!((bytes.as_slice(), passed.len()), (&b"to and fro"[..], 1));
        pipe.assert_other_end_is(passed.remove(0));
    });
}
