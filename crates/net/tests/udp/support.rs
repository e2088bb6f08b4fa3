//! A datagram channel that reports its events to the test, and peers of the standard library.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    DatagramSocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{
    Address, AddressSpec, Bootstrap, Channel, ChannelFuture, ChannelOptions, Ctx, Datagram,
    Datagrams, EventLoopGroup, Handler, HandlerResult, Msg, UnixAddress,
};
use waterwheel_executor::Error;
use waterwheel_net::{DatagramSocket, Udp};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get};

/// A channel and the events of its only handler.
pub(crate) struct UdpProbe {
    pub(crate) channel: Channel,
    events: Receiver<ProbeEvent>,
}

/// An event of the handler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProbeEvent {
    Read(Datagram),
    ReadComplete,
    Writable(bool),
    Error(String),
    Inactive,
}

/// Builds a channel with a handler that sends its events to the test.
pub(crate) struct ProbeBuilder {
    bootstrap: Bootstrap,
    events: Receiver<ProbeEvent>,
}

impl ProbeBuilder {
    pub(crate) fn new(rig: &LoopRig) -> Self {
        Self::of(rig, Udp)
    }

    pub(crate) fn of(rig: &LoopRig, transports: impl TransportFactory) -> Self {
        let (sender, events) = channel();
        let bootstrap = Bootstrap::new(&group(rig), transports).initialiser(move |edit| {
            edit.add_last("tap", EventTap(sender.clone()))?;
            Ok(())
        });
        Self { bootstrap, events }
    }

    pub(crate) fn with(mut self, how: impl FnOnce(Bootstrap) -> Bootstrap) -> Self {
        self.bootstrap = how(self.bootstrap);
        self
    }

    pub(crate) fn options(self, options: ChannelOptions) -> Self {
        self.with(|bootstrap| bootstrap.options(Arc::new(options)))
    }

    #[track_caller]
    pub(crate) fn bind(self, to: impl Into<AddressSpec>) -> UdpProbe {
        UdpProbe { channel: get(self.bootstrap.bind(to)), events: self.events }
    }

    #[track_caller]
    pub(crate) fn connect(self, to: impl Into<AddressSpec>) -> UdpProbe {
        UdpProbe { channel: get(self.bootstrap.connect(to)), events: self.events }
    }
}

impl UdpProbe {
    /// Binds a channel to a free port.
    #[track_caller]
    pub(crate) fn bound(rig: &LoopRig) -> Self {
        ProbeBuilder::new(rig).bind("127.0.0.1:0")
    }

    /// Binds a channel that reads only on request.
    #[track_caller]
    pub(crate) fn with_reads_off(rig: &LoopRig) -> Self {
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        ProbeBuilder::new(rig).options(options).bind("127.0.0.1:0")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ip(self.channel.local_address())
    }

    #[track_caller]
    pub(crate) fn next(&self) -> ProbeEvent {
        self.events.recv_timeout(TIME_LIMIT).expect("an event in time")
    }

    /// Waits for the next datagram; skips `ReadComplete`.
    #[track_caller]
    pub(crate) fn datagram(&self) -> Datagram {
        loop {
            match self.next() {
                ProbeEvent::Read(datagram) => return datagram,
                ProbeEvent::ReadComplete => {}
                other => panic!("{other:?} instead of a datagram"),
            }
        }
    }

    /// Waits for the next `n` datagrams; returns their texts.
    #[track_caller]
    pub(crate) fn texts(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| text(&self.datagram())).collect()
    }

    /// Waits for the next error; skips `ReadComplete`.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        loop {
            match self.next() {
                ProbeEvent::Error(error) => return error,
                ProbeEvent::ReadComplete => {}
                other => panic!("{other:?} instead of an error"),
            }
        }
    }

    /// Returns the events that have already arrived, without `ReadComplete`.
    pub(crate) fn rest(&self) -> Vec<ProbeEvent> {
        self.events.try_iter().filter(|event| *event != ProbeEvent::ReadComplete).collect()
    }
}

pub(crate) fn text(datagram: &Datagram) -> String {
    String::from_utf8_lossy(datagram.bytes()).into_owned()
}

/// Returns the error of an operation that must fail.
#[track_caller]
pub(crate) fn failure_text(future: ChannelFuture) -> String {
    future.wait_timeout(TIME_LIMIT).expect("done in time");
    future.join().expect_err("a failure").to_string()
}

pub(crate) fn group(rig: &LoopRig) -> EventLoopGroup {
    rig.event_loop.parent().expect("the group of the loop")
}

#[track_caller]
pub(crate) fn ip(address: Option<Address>) -> SocketAddr {
    match address {
        Some(Address::Ip(address)) => address,
        other => panic!("not an IP address: {other:?}"),
    }
}

/// Binds a UDP socket of the standard library.
pub(crate) fn peer() -> UdpSocket {
    peer_at("127.0.0.1:0")
}

pub(crate) fn peer_at(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind(at).expect("an address");
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
    socket
}

/// Waits for the next datagram of a peer; returns its text and its sender.
#[track_caller]
pub(crate) fn received(peer: &UdpSocket) -> (String, SocketAddr) {
    let mut buffer = vec![0; 1 << 16];
    let (n, from) = peer.recv_from(&mut buffer).expect("a datagram");
    (String::from_utf8_lossy(&buffer[..n]).into_owned(), from)
}

/// Sends its events to the test.
struct EventTap(Sender<ProbeEvent>);

impl EventTap {
    fn send(&self, event: ProbeEvent) -> HandlerResult {
        // The test may have dropped the receiver.
        let _ = self.0.send(event);
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("a datagram");
        // The text "off" turns reads off.
        if datagram.bytes() == "off" {
            ctx.channel().set_auto_read(false);
        }
        self.send(ProbeEvent::Read(datagram))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send(ProbeEvent::ReadComplete)
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.send(ProbeEvent::Writable(ctx.is_writable()))
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.send(ProbeEvent::Error(error.to_string()))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send(ProbeEvent::Inactive)
    }
}

/// Opens a channel over a socket that the test has opened; the test keeps its peer or a duplicate.
pub(crate) struct ReadyMadeSocket<S>(Mutex<Option<S>>);

impl ReadyMadeSocket<UdpSocket> {
    /// Returns a bound socket and a duplicate of it.
    pub(crate) fn bound() -> (Self, UdpSocket) {
        let socket = peer();
        let duplicate = socket.try_clone().expect("a descriptor");
        (Self(Mutex::new(Some(socket))), duplicate)
    }
}

impl ReadyMadeSocket<UnixDatagram> {
    /// Returns one end of a pair that holds few datagrams, and the other end.
    pub(crate) fn pair() -> (Self, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().expect("a pair");
        theirs.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
        (Self(Mutex::new(Some(ours))), theirs)
    }

    /// Returns an unconnected socket, and a socket bound to the returned abstract name.
    pub(crate) fn unconnected() -> (Self, (UnixDatagram, String)) {
        let ours = UnixDatagram::unbound().expect("a socket");
        let name = format!("waterwheel-{}-{}", std::process::id(), ours.as_raw_fd());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
        let theirs = UnixDatagram::bind_addr(&address).expect("bound to the name");
        theirs.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
        (Self(Mutex::new(Some(ours))), (theirs, name))
    }
}

impl<S: Into<OwnedFd> + Send + 'static> TransportFactory for ReadyMadeSocket<S> {
    fn client(&self) -> Box<dyn Transport> {
        let socket = self.0.lock().unwrap().take();
        Box::new(Datagrams::new(ReadyMadeSocket(Mutex::new(socket))))
    }
}

impl<S: Into<OwnedFd> + Send + 'static> DatagramSocketFactory for ReadyMadeSocket<S> {
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
