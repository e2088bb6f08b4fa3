//! Datagram sockets with an unread error queue, opened outside the crate (L17, R04).

use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    DatagramSocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{
    Address, Bootstrap, Channel, Ctx, Datagram, Datagrams, EventLoopGroup, Handler, HandlerResult,
    UnixAddress,
};
use waterwheel_executor::Error;

use super::*;
use crate::DatagramSocket;

const LONG: Duration = Duration::from_secs(20);

/// The time for which a loop is observed, and the number of turns that counts as spinning.
const WATCH: Duration = Duration::from_millis(200);
const SPIN: u64 = 5;

/// Opens a channel over a socket that the test has made.
struct ReadyMadeSocket(Mutex<Option<UdpSocket>>);

impl TransportFactory for ReadyMadeSocket {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Datagrams::new(ReadyMadeSocket(Mutex::new(self.0.lock().unwrap().take()))))
    }
}

impl DatagramSocketFactory for ReadyMadeSocket {
    fn kind(&self) -> &'static SocketKind {
        static READY_MADE: SocketKind = SocketKind::new("ready-made");
        &READY_MADE
    }

    fn open(
        &self,
        _: Option<&Address>,
        _: Option<&Address>,
        _: &[SocketOption],
    ) -> io::Result<(Io, Address)> {
        let socket = self.0.lock().unwrap().take().expect("opened once");
        Ok((DatagramSocket::new(socket)?.into(), UnixAddress::Unnamed.into()))
    }
}

/// Sends the text of every error to the test.
struct Errors(Sender<String>);

impl Handler for Errors {
    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        let _ = self.0.send(error.to_string());
        Ok(())
    }
}

fn channel_over(
    socket: UdpSocket,
    driver: impl OpenDriver + 'static,
) -> (EventLoopGroup, Channel, Receiver<String>) {
    let group = EventLoopGroup::builder(driver).threads(1).build().unwrap();
    let (sender, errors) = channel();
    let bootstrap = Bootstrap::new(&group, ReadyMadeSocket(Mutex::new(Some(socket))));
    let bootstrap = bootstrap.initialiser(move |edit| {
        edit.add_last("errors", Errors(sender.clone()))?;
        Ok(())
    });
    let channel = bootstrap.bind("127.0.0.1:0").join().unwrap();
    (group, channel, errors)
}

/// Returns how many turns the loop makes while it is observed.
fn turns(group: &EventLoopGroup) -> u64 {
    let event_loop = group.next();
    let before = event_loop.submit({
        let event_loop = event_loop.clone();
        move || event_loop.metrics().turns
    });
    let before = before.unwrap().join().unwrap();
    let after = event_loop.clone().schedule(WATCH, move || event_loop.metrics().turns);
    after.unwrap().join().unwrap() - before
}

fn run(driver: impl OpenDriver + 'static, prepare: fn(BorrowedFd<'_>), expect_errors: bool) {
    let (socket, gone) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
    let (socket, gone) = (socket.unwrap(), gone.unwrap());
    prepare(socket.as_fd());
    let to = gone.local_addr().unwrap();
    drop(gone);
    let (group, channel, errors) = channel_over(socket, driver);
    for _ in 0..3 {
        channel.send(Datagram::to(to, "anybody?"));
        if expect_errors {
            let error = errors.recv_timeout(LONG).expect("an error of the loop");
            assert!(error.contains("refused"), "{error}");
        }
    }
    let turns = turns(&group);
    assert!(turns < SPIN, "{turns} turns in {WATCH:?}");
    assert!(channel.is_active());
    let ended = group.shutdown_gracefully(Duration::ZERO, LONG).unwrap();
    ended.wait_timeout(LONG).expect("the group ends");
}

#[test]
fn l17_a_socket_with_ip_recverr_reports_each_error_and_does_not_spin() {
    run(crate::Epoll, crate::sys::enable_ip_recverr, true);
    run(crate::Poll, crate::sys::enable_ip_recverr, true);
}

#[test]
fn l17_a_socket_with_so_timestamping_does_not_spin() {
    run(crate::Epoll, crate::sys::enable_tx_timestamps, false);
    run(crate::Poll, crate::sys::enable_tx_timestamps, false);
}
