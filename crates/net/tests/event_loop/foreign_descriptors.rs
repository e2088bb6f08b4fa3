//! Foreign descriptors on a loop: pipes, timerfds, a child's output, a UDP socket (L08).

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use waterwheel_channel::driver::Interest;
use waterwheel_channel::{ForeignHandle, on_ready};
use waterwheel_executor::{Error, PromiseFuture};
use waterwheel_net::foreign;

use crate::loop_rig::{TIME_LIMIT, get, on_every_loop};

#[test]
fn l08_a_loop_reads_a_pipe_to_its_end() {
    on_every_loop(|rig| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (sender, bytes_read) = channel();
        let (_, events) = rig.watch(reader, Interest::READABLE, move |mut reader, context| {
            let mut byte = [0];
            match reader.read(&mut byte)? {
                0 => drop(context.unregister()),
                _ => sender.send(byte[0]).map_err(Error::new)?,
            }
            Ok(())
        });
        writer.write_all(b"abc").unwrap();
        for byte in *b"abc" {
            assert_eq!(
                bytes_read.recv_timeout(TIME_LIMIT),
                Ok(byte),
                "one byte per event: readiness is reported again"
            );
        }
        rig.assert_not_spinning();
        drop(writer);
        let all = events.until("unregistered");
        assert_eq!(all[..3], ["Readiness(readable)"; 3]);
        assert_eq!(all[3..], ["Readiness(hang-up)", "unregistered: on request"]);
        assert!(bytes_read.recv_timeout(TIME_LIMIT).is_err(), "the handler is dropped");
    });
}

#[test]
fn l08_a_loop_serves_a_timerfd() {
    on_every_loop(|rig| {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).unwrap();
        let every = Timespec::try_from(Duration::from_millis(5)).unwrap();
        let ticks = Itimerspec { it_interval: every, it_value: every };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &ticks).unwrap();
        let mut left = 3;
        let (_, events) = rig.watch(timer, Interest::READABLE, move |timer, context| {
            let mut expired = [0; 8];
            assert_eq!(rustix::io::read(timer, &mut expired).map_err(Error::new)?, 8);
            assert!(u64::from_ne_bytes(expired) >= 1);
            left -= 1;
            if left == 0 {
                context.unregister();
            }
            Ok(())
        });
        assert_eq!(events.take(3), ["Readiness(readable)"; 3]);
        assert_eq!(events.next(), "unregistered: on request");
        rig.assert_not_spinning();
    });
}

#[test]
fn l08_a_loop_reads_the_output_of_a_child() {
    on_every_loop(|rig| {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat starts");
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, bytes_read) = channel();
        rustix::io::ioctl_fionbio(&output, true).unwrap();
        let (_, events) = rig.watch(output, Interest::READABLE, move |output, context| {
            let (bytes, ended) = crate::loop_rig::read_available(output);
            let _ = sender.send(bytes);
            if ended {
                context.unregister();
            }
            Ok(())
        });
        for word in ["meow", "purr"] {
            input.write_all(word.as_bytes()).unwrap();
            assert_eq!(bytes_read.recv_timeout(TIME_LIMIT).unwrap(), word.as_bytes());
        }
        drop(input);
        assert_eq!(events.until("unregistered").last().unwrap(), "unregistered: on request");
        assert!(child.wait().unwrap().success());
        rig.assert_not_spinning();
    });
}

#[test]
fn l08_a_loop_serves_a_udp_socket_of_the_standard_library() {
    on_every_loop(|rig| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap();
        let (_, events) = rig.watch(socket, Interest::READABLE, |socket, _| {
            let mut datagram = [0; 64];
            let (n, from) = socket.recv_from(&mut datagram)?;
            datagram[..n].reverse();
            socket.send_to(&datagram[..n], from)?;
            Ok(())
        });
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        for (sent, answer) in [(b"abc", b"cba"), (b"xyz", b"zyx")] {
            peer.send_to(sent, address).unwrap();
            let mut datagram = [0; 64];
            let (n, from) = peer.recv_from(&mut datagram).unwrap();
            assert_eq!((&datagram[..n], from), (&answer[..], address));
        }
        rig.end();
        let all = events.until("unregistered");
        assert_eq!(all[..2], ["Readiness(readable)"; 2]);
        assert_eq!(all[2..], ["unregistered: the event loop is shutting down"]);
        let again = UdpSocket::bind(address);
        assert!(again.is_ok(), "the socket is closed: {again:?}");
    });
}

#[test]
fn l08_an_error_returned_by_the_callback_unregisters_with_that_cause() {
    on_every_loop(|rig| {
        let ready = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        let (handle, events) = rig.watch(ready, Interest::READABLE, |_, _| {
            Err(Error::new(std::io::Error::other("source on fire")))
        });
        assert_eq!(events.take(2), ["Readiness(readable)", "unregistered: source on fire"]);
        assert!(!get(handle.unregister()));
        rig.assert_not_spinning();
        assert_eq!(events.rest(), [""; 0], "one event only");
        assert!(rig.reports().is_empty(), "the handler received the cause");
    });
}

#[test]
fn l08_a_descriptor_that_cannot_be_watched_is_refused_and_closed() {
    on_every_loop(|rig| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let handler = on_ready(|_: &std::io::PipeReader, _, _| Ok(()));
        let refused =
            refusal(rig.event_loop.register_foreign(foreign(reader), Interest::NONE, handler));
        assert!(refused.contains("interest"), "{refused}");
        assert_eq!(writer.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);

        if rig.is_epoll() {
            let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
            let handler = on_ready(|_: &std::fs::File, _, _| Ok(()));
            let file = foreign(file);
            let refused =
                refusal(rig.event_loop.register_foreign(file, Interest::READABLE, handler));
            assert!(refused.contains("does not support polling"), "{refused}");
        }
        rig.assert_not_spinning();
        assert_eq!(rig.event_loop.metrics().registrations, 0);

        rig.end();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let handler = on_ready(|_: &std::io::PipeReader, _, _| Ok(()));
        let late = rig.event_loop.register_foreign(foreign(reader), Interest::READABLE, handler);
        let refused = refusal(late);
        assert!(refused.contains("shut"), "{refused}");
        assert_eq!(writer.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    });
}

/// Returns the error of a refused registration.
fn refusal(registered: PromiseFuture<ForeignHandle>) -> String {
    registered.wait_timeout(TIME_LIMIT).unwrap();
    registered.join().expect_err("a refusal").to_string()
}
