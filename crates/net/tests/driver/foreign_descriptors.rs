//! Foreign descriptors (L08).

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use socket2::SockRef;
use waterwheel_channel::driver::{Interest, Io, OpenDriver, Role};
use waterwheel_net::{Epoll, ForeignSource, Poll, Socket, foreign_io};

use crate::driver_rig::{DriverRig, TIME_LIMIT, on, on_every_driver, pair};

#[test]
fn l08_a_pipe_is_reported_while_it_is_readable_and_its_hang_up_always() {
    on_every_driver(|rig| {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let source = Arc::new(reader.try_clone().unwrap());
        let token = rig.foreign(source, Interest::READABLE);
        rig.assert_quiet();
        writer.write_all(b"ab").unwrap();
        for _ in 0..3 {
            assert_eq!(rig.event(), (token, "Readiness(readable)".into()));
        }
        reader.read_exact(&mut [0; 2]).unwrap();
        assert_eq!(rig.drain(), [""; 0]);
        rig.assert_quiet();
        drop(writer);
        for _ in 0..3 {
            assert_eq!(rig.event(), (token, "Readiness(hang-up)".into()));
        }
        rig.detach(token);
        rig.assert_quiet();
    });
}

#[test]
fn l08_a_pipe_without_a_reader_is_reported_as_an_error() {
    on_every_driver(|rig| {
        let (reader, writer) = std::io::pipe().unwrap();
        rig.foreign(Arc::new(writer), Interest::WRITABLE);
        assert_eq!(rig.round(), ["Readiness(writable)"]);
        drop(reader);
        assert_eq!(rig.round(), ["Readiness(writable | error)"]);
    });
}

#[test]
fn l08_a_timerfd_is_reported_when_it_is_due() {
    on_every_driver(|rig| {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).unwrap();
        let timer = Arc::new(timer);
        rig.foreign(timer.clone(), Interest::READABLE);
        rig.assert_quiet();
        let once = |after| Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(after).unwrap(),
        };
        let after = once(Duration::from_millis(5));
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &after).unwrap();
        assert_eq!(rig.round(), ["Readiness(readable)"]);
        assert_eq!(rustix::io::read(&*timer, &mut [0; 8]).unwrap(), 8);
        rig.assert_quiet();
    });
}

#[test]
fn l08_a_datagram_makes_a_udp_socket_readable() {
    on_every_driver(|rig| {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        rig.foreign(socket.clone(), Interest::READABLE);
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"hello", socket.local_addr().unwrap()).unwrap();
        assert_eq!(rig.round(), ["Readiness(readable)"]);
        assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 5);
        rig.assert_quiet();
    });
}

#[test]
fn l08_the_output_of_a_child_is_reported_until_the_child_exits() {
    on_every_driver(|rig| {
        let mut child = Command::new("echo").arg("hi").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let duplicate = output.as_fd().try_clone_to_owned().unwrap();
        let token = rig.foreign(Arc::new(duplicate), Interest::READABLE);
        let mut said = Vec::new();
        let deadline = rig.after(TIME_LIMIT);
        loop {
            let (from, what) = rig.event();
            assert_eq!(from, token);
            assert!(rig.driver.clock().now() < deadline);
            let mut piece = [0; 16];
            match output.read(&mut piece).unwrap() {
                0 => break assert!(what.contains("hang-up"), "{what}"),
                n => said.extend_from_slice(&piece[..n]),
            }
        }
        assert_eq!(said, b"hi\n");
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn l08_urgent_data_is_reported_to_a_priority_interest() {
    on_every_driver(|rig| {
        let (ours, peer) = pair();
        rig.foreign(Arc::new(ours), Interest::PRIORITY);
        rig.assert_quiet();
        SockRef::from(&peer).send_out_of_band(b"!").unwrap();
        assert_eq!(rig.round(), ["Readiness(priority)"]);
    });
}

#[test]
fn l08_a_changed_interest_discards_readiness_it_does_not_include() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let token = rig.foreign(Arc::new(ours), Interest::WRITABLE);
        assert_eq!(rig.round(), ["Readiness(writable)"]);
        rig.poll();
        rig.driver.set_interest(token, Interest::READABLE).unwrap();
        assert_eq!(rig.drain(), [""; 0], "still writable, but no longer of interest");
        rig.assert_quiet();
        peer.write_all(b"x").unwrap();
        assert_eq!(rig.round(), ["Readiness(readable)"]);
        rig.driver.set_interest(token, Interest::READABLE | Interest::WRITABLE).unwrap();
        assert_eq!(rig.round(), ["Readiness(readable | writable)"]);
    });
}

#[test]
fn l08_an_empty_interest_is_an_error_and_changes_nothing() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let source = Arc::new(ours);
        let token = rig.token();
        let io = foreign_io(source.clone());
        let error = rig.driver.register_foreign(token, io, Interest::NONE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("interest"), "{error}");
        assert_eq!(Arc::strong_count(&source), 1, "dropped at once");

        let token = rig.foreign(source.clone(), Interest::READABLE);
        let error = rig.driver.set_interest(token, Interest::NONE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        peer.write_all(b"x").unwrap();
        assert_eq!(rig.round(), ["Readiness(readable)"], "the interest is unchanged");
        rig.detach(token);
        assert_eq!(Arc::strong_count(&source), 1, "dropped by detach");
    });
}

#[test]
fn l08_a_regular_file_cannot_be_polled_by_epoll_and_is_always_ready_for_poll() {
    let file = || Arc::new(File::open(std::env::current_exe().unwrap()).unwrap());
    on("epoll", &Epoll, |rig: &mut DriverRig| {
        let (token, source) = (rig.token(), file());
        let io = foreign_io(source.clone());
        let error = rig.driver.register_foreign(token, io, Interest::READABLE).unwrap_err();
        assert!(error.to_string().contains("does not support polling"), "{error}");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert_eq!(Arc::strong_count(&source), 1, "dropped at once");
        rig.assert_quiet();
    });
    on("poll", &Poll, |rig: &mut DriverRig| {
        rig.foreign(file(), Interest::READABLE);
        assert_eq!(rig.round(), ["Readiness(readable)"]);
    });
}

#[test]
fn l08_a_value_of_the_wrong_type_is_refused_with_its_name() {
    on_every_driver(|rig| {
        let token = rig.token();
        let nothing = Io::new("nothing");
        let error = rig.driver.register_foreign(token, nothing, Interest::READABLE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("&str"), "{error}");

        let (token, _peer) = rig.stream();
        let error = rig.driver.set_interest(token, Interest::READABLE).unwrap_err();
        assert!(error.to_string().contains("is a socket"), "{error}");

        let (ours, _peer) = UnixStream::pair().unwrap();
        let source: Arc<dyn ForeignSource> = Arc::new(ours);
        let token = rig.foreign(source.clone(), Interest::READABLE);
        rig.read_on(token);
        assert!(rig.write(token, b"x").unwrap_err().to_string().contains("foreign"));
        let other = rig.token();
        let error = rig.driver.attach(other, foreign_io(source), Role::Stream).unwrap_err();
        assert!(error.to_string().contains("ForeignFd"), "{error}");
        let unknown = rig.token();
        let error = rig.driver.set_interest(unknown, Interest::READABLE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn l08_one_descriptor_cannot_be_watched_twice_by_epoll() {
    let driver = Epoll.open().unwrap();
    let rig = &mut DriverRig::new(driver);
    let (ours, _peer) = UnixStream::pair().unwrap();
    let source = Arc::new(ours);
    rig.foreign(source.clone(), Interest::READABLE);
    let token = rig.token();
    let io = foreign_io(source);
    let error = rig.driver.register_foreign(token, io, Interest::READABLE).unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn l08_sockets_and_foreign_descriptors_share_a_driver() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let stream = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        rig.read_on(stream);
        let (reader, mut writer) = std::io::pipe().unwrap();
        rig.foreign(Arc::new(reader), Interest::READABLE);
        peer.write_all(b"x").unwrap();
        writer.write_all(b"y").unwrap();
        let mut round = rig.round();
        round.sort();
        assert_eq!(round, ["Readiness(readable)", "complete", "read x"]);
    });
}
