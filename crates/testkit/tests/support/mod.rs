//! The manual driver as a fixture of the driver suite.

use std::io::ErrorKind;
use std::net::SocketAddr;

use waterwheel_channel::Address;
use waterwheel_channel::driver::{Driver, Io, OpenDriver, Readiness};
use waterwheel_channel::transport::DatagramSocketFactory;
use waterwheel_testkit::driver_suite::{
    AcceptedConnect, Fixture, ForeignTrigger, RemoteConnector, RemoteDatagrams, RemoteStream,
};
use waterwheel_testkit::manual::{
    ClockMode, DatagramNetwork, DatagramPeer, ListenerControl, Manual, ManualForeignSource, Peer,
};

/// A manual driver, or a driver that wraps it, with the peers of its sockets. The suite runs on one thread, so the
/// clock advances by itself.
pub(crate) struct ManualFixture<O> {
    manual: Manual,
    factory: O,
}

impl<O> ManualFixture<O> {
    pub(crate) fn new(manual: Manual, wrap: impl FnOnce(Manual) -> O) -> Self {
        let manual = manual.with_clock_mode(ClockMode::AutoAdvance);
        Self { factory: wrap(manual.clone()), manual }
    }
}

impl<O: OpenDriver> Fixture for ManualFixture<O> {
    fn open(&self) -> Box<dyn Driver> {
        self.factory.open().expect("a manual driver always opens")
    }

    fn pair(&self) -> (Io, Box<dyn RemoteStream>) {
        let (io, peer) = self.manual.pair();
        (io, Box::new(ManualRemoteStream(peer)))
    }

    fn listener(&self) -> (Io, Box<dyn RemoteConnector>) {
        let (io, listener) = self.manual.listener();
        (io, Box::new(ManualConnector(listener)))
    }

    fn connect_accepted(&self) -> AcceptedConnect {
        let (io, dial) = self.manual.connecting();
        let peer = dial.accept();
        let remote =
            Box::new(move || -> Box<dyn RemoteStream> { Box::new(ManualRemoteStream(peer)) });
        AcceptedConnect { io, target: target(), remote }
    }

    fn connect_refused(&self) -> (Io, SocketAddr) {
        let (io, dial) = self.manual.connecting();
        dial.refuse(ErrorKind::ConnectionRefused);
        (io, target())
    }

    fn datagrams(&self) -> (Io, Box<dyn RemoteDatagrams>) {
        let network = DatagramNetwork::new();
        let peer = network.open_peer(target()).expect("the address is free");
        let (io, at) = network.open(None, Some(&target().into()), &[]).expect("a free port");
        let Address::Ip(at) = at else { panic!("{at}") };
        (io, Box::new(ManualRemoteDatagrams { peer: Some(peer), at }))
    }

    fn foreign(&self) -> (Io, Box<dyn ForeignTrigger>) {
        let (io, source) = self.manual.foreign_source();
        source.set_ready(Readiness::WRITABLE);
        (io, Box::new(ManualTrigger(source)))
    }
}

fn target() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9))
}

/// The peer is `None` once it is closed.
struct ManualRemoteDatagrams {
    peer: Option<DatagramPeer>,
    at: SocketAddr,
}

impl RemoteDatagrams for ManualRemoteDatagrams {
    fn send(&mut self, bytes: &[u8]) {
        let peer = self.peer.as_ref().expect("the peer is not closed");
        let sent = peer.send(self.at, bytes.to_vec()).expect("the datagram is short");
        assert!(sent, "there is room");
    }

    fn receive(&mut self) -> Vec<u8> {
        let peer = self.peer.as_ref().expect("the peer is not closed");
        peer.receive().expect("a datagram has arrived").into_bytes().into()
    }

    fn close(&mut self) {
        self.peer = None;
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
        self.0.take_received().into()
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
        Box::new(ManualRemoteStream(self.0.connect().expect("the listener is open")))
    }
}

struct ManualTrigger(ManualForeignSource);

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
