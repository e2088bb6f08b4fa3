//! The manual driver as a fixture of the drivers' suite.

use std::io::ErrorKind;
use std::net::SocketAddr;

use waterwheel_channel::Address;
use waterwheel_channel::driver::{Driver, Io, OpenDriver, Readiness};
use waterwheel_channel::transport::DatagramSocketFactory;
use waterwheel_testkit::driver_suite::{
    AcceptedConnect, Fixture, ForeignTrigger, RemoteConnector, RemoteDatagrams, RemoteStream,
};
use waterwheel_testkit::manual::{
    ClockMode, DatagramNetwork, DatagramPeer, ForeignSource, ListenerControl, Manual, Peer,
};

/// A manual driver, or one wrapped around it, with its counterparts. The suite runs on one thread, so
/// time jumps.
pub(crate) struct ManualFixture<O> {
    manual: Manual,
    opener: O,
}

impl<O> ManualFixture<O> {
    pub(crate) fn new(manual: Manual, wrap: impl FnOnce(Manual) -> O) -> Self {
        let manual = manual.with_clock_mode(ClockMode::AutoAdvance);
        Self { opener: wrap(manual.clone()), manual }
    }
}

impl<O: OpenDriver> Fixture for ManualFixture<O> {
    fn open(&self) -> Box<dyn Driver> {
        self.opener.open().expect("nothing can go wrong by hand")
    }

    fn pair(&self) -> (Io, Box<dyn RemoteStream>) {
        let (io, peer) = self.manual.pair();
        (io, Box::new(ManualRemoteStream(peer)))
    }

    fn listener(&self) -> (Io, Box<dyn RemoteConnector>) {
        let (io, port) = self.manual.listener();
        (io, Box::new(ManualConnector(port)))
    }

    fn connect_accepted(&self) -> AcceptedConnect {
        let (io, dial) = self.manual.connecting();
        let peer = dial.accept();
        let remote =
            Box::new(move || -> Box<dyn RemoteStream> { Box::new(ManualRemoteStream(peer)) });
        AcceptedConnect { io, target: nowhere(), remote }
    }

    fn connect_refused(&self) -> (Io, SocketAddr) {
        let (io, dial) = self.manual.connecting();
        dial.refuse(ErrorKind::ConnectionRefused);
        (io, nowhere())
    }

    fn datagrams(&self) -> (Io, Box<dyn RemoteDatagrams>) {
        let office = DatagramNetwork::new();
        let friend = office.open_peer(nowhere()).expect("nobody is there");
        let (io, at) = office.open(None, Some(&nowhere().into()), &[]).expect("a place");
        let Address::Ip(at) = at else { panic!("{at}") };
        (io, Box::new(ManualRemoteDatagrams { friend: Some(friend), at }))
    }

    fn foreign(&self) -> (Io, Box<dyn ForeignTrigger>) {
        let (io, source) = self.manual.foreign();
        source.set_ready(Readiness::WRITABLE);
        (io, Box::new(ManualTrigger(source)))
    }
}

fn nowhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

/// `None` once it has gone away.
struct ManualRemoteDatagrams {
    friend: Option<DatagramPeer>,
    at: SocketAddr,
}

impl RemoteDatagrams for ManualRemoteDatagrams {
    fn send(&mut self, bytes: &[u8]) {
        let friend = self.friend.as_ref().expect("it has not gone away");
        let sent = friend.send(self.at, bytes.to_vec()).expect("it is short");
        assert!(sent, "there is room");
    }

    fn receive(&mut self) -> Vec<u8> {
        let friend = self.friend.as_ref().expect("it has not gone away");
        friend.receive().expect("it has arrived").into_bytes().into()
    }

    fn close(&mut self) {
        self.friend = None;
    }
}

struct ManualRemoteStream(Peer);

impl RemoteStream for ManualRemoteStream {
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

    fn wait_ended(&mut self) {
        self.0.wait_ended();
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}

struct ManualConnector(ListenerControl);

impl RemoteConnector for ManualConnector {
    fn connect(&mut self) -> Box<dyn RemoteStream> {
        Box::new(ManualRemoteStream(self.0.connect().expect("it listens")))
    }
}

struct ManualTrigger(ForeignSource);

impl ForeignTrigger for ManualTrigger {
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
