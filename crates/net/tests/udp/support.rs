//! A channel of datagrams that tells a test what happens to it, and peers of the standard library.

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

/// A channel, and what its only handler was told.
pub(crate) struct UdpProbe {
    pub(crate) channel: Channel,
    told: Receiver<ProbeEvent>,
}

/// What a handler was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProbeEvent {
    Read(Datagram),
    ReadComplete,
    Writable(bool),
    Error(String),
    Inactive,
}

/// How a channel is made.
pub(crate) struct ProbeBuilder {
    bootstrap: Bootstrap,
    told: Receiver<ProbeEvent>,
}

impl ProbeBuilder {
    pub(crate) fn new(rig: &LoopRig) -> Self {
        Self::of(rig, Udp)
    }

    pub(crate) fn of(rig: &LoopRig, transports: impl TransportFactory) -> Self {
        let (tell, told) = channel();
        let bootstrap = Bootstrap::new(&group(rig), transports).initialiser(move |edit| {
            edit.add_last("tap", EventTap(tell.clone()))?;
            Ok(())
        });
        Self { bootstrap, told }
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
        UdpProbe { channel: get(self.bootstrap.bind(to)), told: self.told }
    }

    #[track_caller]
    pub(crate) fn connect(self, to: impl Into<AddressSpec>) -> UdpProbe {
        UdpProbe { channel: get(self.bootstrap.connect(to)), told: self.told }
    }
}

impl UdpProbe {
    /// A channel at an address of its own.
    #[track_caller]
    pub(crate) fn bound(rig: &LoopRig) -> Self {
        ProbeBuilder::new(rig).bind("127.0.0.1:0")
    }

    /// A channel that reads only when it is told to.
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
        self.told.recv_timeout(TIME_LIMIT).expect("there is something to tell")
    }

    /// The next datagram; rounds that end meanwhile are passed over.
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

    /// The texts of the next so many.
    #[track_caller]
    pub(crate) fn texts(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| text(&self.datagram())).collect()
    }

    /// The next error; rounds that end meanwhile are passed over.
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

    /// What was told and not asked for yet, but the ends of rounds.
    pub(crate) fn rest(&self) -> Vec<ProbeEvent> {
        self.told.try_iter().filter(|told| *told != ProbeEvent::ReadComplete).collect()
    }
}

pub(crate) fn text(datagram: &Datagram) -> String {
    String::from_utf8_lossy(datagram.bytes()).into_owned()
}

/// Why a write, or anything else, failed.
#[track_caller]
pub(crate) fn failure_text(future: ChannelFuture) -> String {
    future.wait_timeout(TIME_LIMIT).expect("done in time");
    future.join().expect_err("a failure").to_string()
}

pub(crate) fn group(rig: &LoopRig) -> EventLoopGroup {
    rig.event_loop.parent().expect("it has one")
}

#[track_caller]
pub(crate) fn ip(address: Option<Address>) -> SocketAddr {
    match address {
        Some(Address::Ip(address)) => address,
        other => panic!("no address of UDP: {other:?}"),
    }
}

/// A peer that is no channel.
pub(crate) fn peer() -> UdpSocket {
    peer_at("127.0.0.1:0")
}

pub(crate) fn peer_at(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind(at).expect("an address");
    socket.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
    socket
}

/// What a peer receives next, and from whom.
#[track_caller]
pub(crate) fn received(peer: &UdpSocket) -> (String, SocketAddr) {
    let mut room = vec![0; 1 << 16];
    let (n, from) = peer.recv_from(&mut room).expect("a datagram");
    (String::from_utf8_lossy(&room[..n]).into_owned(), from)
}

struct EventTap(Sender<ProbeEvent>);

impl EventTap {
    fn tell(&self, told: ProbeEvent) -> HandlerResult {
        // A test that does not listen any more has its reasons.
        let _ = self.0.send(told);
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("datagrams are read here");
        // What a test sends so is to be the last for now.
        if datagram.bytes() == "off" {
            ctx.channel().set_auto_read(false);
        }
        self.tell(ProbeEvent::Read(datagram))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(ProbeEvent::ReadComplete)
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.tell(ProbeEvent::Writable(ctx.is_writable()))
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.tell(ProbeEvent::Error(error.to_string()))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(ProbeEvent::Inactive)
    }
}

/// A socket that somebody else has made, and keeps a descriptor of.
pub(crate) struct ReadyMadeSocket<S>(Mutex<Option<S>>);

impl ReadyMadeSocket<UdpSocket> {
    /// A bound socket, and the other descriptor of it.
    pub(crate) fn bound() -> (Self, UdpSocket) {
        let socket = peer();
        let behind = socket.try_clone().expect("a descriptor");
        (Self(Mutex::new(Some(socket))), behind)
    }
}

impl ReadyMadeSocket<UnixDatagram> {
    /// One end of a pair that holds a few datagrams and no more, and the other end.
    pub(crate) fn pair() -> (Self, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().expect("a pair");
        theirs.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
        (Self(Mutex::new(Some(ours))), theirs)
    }

    /// A socket that is not connected, and another one with its abstract name.
    pub(crate) fn unconnected() -> (Self, (UnixDatagram, String)) {
        let ours = UnixDatagram::unbound().expect("a socket");
        let name = format!("waterwheel-{}-{}", std::process::id(), ours.as_raw_fd());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
        let theirs = UnixDatagram::bind_addr(&address).expect("a place");
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
        let socket = self.0.lock().unwrap().take().expect("it is opened once");
        Ok((DatagramSocket::new(socket)?.into(), UnixAddress::Unnamed.into()))
    }
}
