//! The manual driver as a fixture of the drivers' suite.

use std::io::ErrorKind;
use std::net::SocketAddr;

use waterwheel_channel::Address;
use waterwheel_channel::driver::{Driver, Io, OpenDriver, Readiness};
use waterwheel_channel::transport::DatagramSocketFactory;
use waterwheel_testkit::driver_suite::{Dialled, Door, Fixture, Postman, Remote, Source};
use waterwheel_testkit::manual::{
    Correspondent, ForeignSource, Manual, Peer, Port, PostOffice, Time,
};

/// A manual driver, or one wrapped around it, with its counterparts. The suite runs on one thread, so
/// time jumps.
pub(crate) struct ByHand<O> {
    manual: Manual,
    opener: O,
}

impl<O> ByHand<O> {
    pub(crate) fn new(manual: Manual, wrap: impl FnOnce(Manual) -> O) -> Self {
        let manual = manual.with_time(Time::Jumps);
        Self { opener: wrap(manual.clone()), manual }
    }
}

impl<O: OpenDriver> Fixture for ByHand<O> {
    fn open(&self) -> Box<dyn Driver> {
        self.opener.open().expect("nothing can go wrong by hand")
    }

    fn pair(&self) -> (Io, Box<dyn Remote>) {
        let (io, peer) = self.manual.pair();
        (io, Box::new(End(peer)))
    }

    fn listener(&self) -> (Io, Box<dyn Door>) {
        let (io, port) = self.manual.listener();
        (io, Box::new(Entry(port)))
    }

    fn accepting(&self) -> Dialled {
        let (io, dial) = self.manual.connecting();
        let peer = dial.accept();
        let remote = Box::new(move || -> Box<dyn Remote> { Box::new(End(peer)) });
        Dialled { io, target: nowhere(), remote }
    }

    fn refusing(&self) -> (Io, SocketAddr) {
        let (io, dial) = self.manual.connecting();
        dial.refuse(ErrorKind::ConnectionRefused);
        (io, nowhere())
    }

    fn datagrams(&self) -> (Io, Box<dyn Postman>) {
        let office = PostOffice::new();
        let friend = office.correspondent(nowhere()).expect("nobody is there");
        let (io, at) = office.open(None, Some(&nowhere().into()), &[]).expect("a place");
        let Address::Ip(at) = at else { panic!("{at}") };
        (io, Box::new(Friend { friend: Some(friend), at }))
    }

    fn foreign(&self) -> (Io, Box<dyn Source>) {
        let (io, source) = self.manual.foreign();
        source.set_ready(Readiness::WRITABLE);
        (io, Box::new(Hand(source)))
    }
}

fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

/// `None` once it has gone away.
struct Friend {
    friend: Option<Correspondent>,
    at: SocketAddr,
}

impl Postman for Friend {
    fn send(&mut self, bytes: &[u8]) {
        let friend = self.friend.as_ref().expect("it has not gone away");
        let sent = friend.send(self.at, bytes.to_vec()).expect("it is short");
        assert!(sent, "there is room");
    }

    fn receive(&mut self) -> Vec<u8> {
        let friend = self.friend.as_ref().expect("it has not gone away");
        friend.receive().expect("it has arrived").into_bytes().into()
    }

    fn go_away(&mut self) {
        self.friend = None;
    }
}

struct End(Peer);

impl Remote for End {
    fn send(&mut self, bytes: &[u8]) -> usize {
        self.0.send(bytes);
        bytes.len()
    }

    fn receive(&mut self, len: usize) -> Vec<u8> {
        self.0.receive(len).into()
    }

    fn drain(&mut self) -> Vec<u8> {
        self.0.received().into()
    }

    fn until_ended(&mut self) {
        self.0.until_ended();
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

struct Entry(Port);

impl Door for Entry {
    fn connect(&mut self) -> Box<dyn Remote> {
        Box::new(End(self.0.connect().expect("it listens")))
    }
}

struct Hand(ForeignSource);

impl Source for Hand {
    fn make_readable(&mut self) {
        self.0.set_ready(Readiness::READABLE | Readiness::WRITABLE);
    }

    fn drain(&mut self) {
        self.0.set_ready(Readiness::WRITABLE);
    }

    fn hang_up(&mut self) {
        self.0.set_ready(Readiness::READABLE | Readiness::WRITABLE | Readiness::HANG_UP);
    }
}
