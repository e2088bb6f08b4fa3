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

use crate::loop_rig::{LONG, Rig, get};

/// A channel, and what its only handler was told.
pub(crate) struct Post {
    pub(crate) channel: Channel,
    told: Receiver<Told>,
}

/// What a handler was told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Read(Datagram),
    RoundOver,
    Writable(bool),
    Error(String),
    Inactive,
}

/// How a channel is made.
pub(crate) struct Maker {
    bootstrap: Bootstrap,
    told: Receiver<Told>,
}

impl Maker {
    pub(crate) fn new(rig: &Rig) -> Self {
        Self::of(rig, Udp)
    }

    pub(crate) fn of(rig: &Rig, transports: impl TransportFactory) -> Self {
        let (tell, told) = channel();
        let bootstrap = Bootstrap::new(&group(rig), transports).initialiser(move |edit| {
            edit.add_last("tap", Tap(tell.clone()))?;
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
    pub(crate) fn bind(self, to: impl Into<AddressSpec>) -> Post {
        Post { channel: get(self.bootstrap.bind(to)), told: self.told }
    }

    #[track_caller]
    pub(crate) fn connect(self, to: impl Into<AddressSpec>) -> Post {
        Post { channel: get(self.bootstrap.connect(to)), told: self.told }
    }
}

impl Post {
    /// A channel at an address of its own.
    #[track_caller]
    pub(crate) fn bound(rig: &Rig) -> Self {
        Maker::new(rig).bind("127.0.0.1:0")
    }

    /// A channel that reads only when it is told to.
    #[track_caller]
    pub(crate) fn silent(rig: &Rig) -> Self {
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        Maker::new(rig).options(options).bind("127.0.0.1:0")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        ip(self.channel.local_address())
    }

    #[track_caller]
    pub(crate) fn next(&self) -> Told {
        self.told.recv_timeout(LONG).expect("there is something to tell")
    }

    /// The next datagram; rounds that end meanwhile are passed over.
    #[track_caller]
    pub(crate) fn datagram(&self) -> Datagram {
        loop {
            match self.next() {
                Told::Read(datagram) => return datagram,
                Told::RoundOver => {}
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
                Told::Error(error) => return error,
                Told::RoundOver => {}
                other => panic!("{other:?} instead of an error"),
            }
        }
    }

    /// What was told and not asked for yet, but the ends of rounds.
    pub(crate) fn rest(&self) -> Vec<Told> {
        self.told.try_iter().filter(|told| *told != Told::RoundOver).collect()
    }
}

pub(crate) fn text(datagram: &Datagram) -> String {
    String::from_utf8_lossy(datagram.bytes()).into_owned()
}

/// Why a write, or anything else, failed.
#[track_caller]
pub(crate) fn refusal(future: ChannelFuture) -> String {
    future.wait_timeout(LONG).expect("done in time");
    future.join().expect_err("a failure").to_string()
}

pub(crate) fn group(rig: &Rig) -> EventLoopGroup {
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
    socket.set_read_timeout(Some(LONG)).expect("a limit");
    socket
}

/// What a peer receives next, and from whom.
#[track_caller]
pub(crate) fn received(peer: &UdpSocket) -> (String, SocketAddr) {
    let mut room = vec![0; 1 << 16];
    let (n, from) = peer.recv_from(&mut room).expect("a datagram");
    (String::from_utf8_lossy(&room[..n]).into_owned(), from)
}

struct Tap(Sender<Told>);

impl Tap {
    fn tell(&self, told: Told) -> HandlerResult {
        // A test that does not listen any more has its reasons.
        let _ = self.0.send(told);
        Ok(())
    }
}

impl Handler for Tap {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("datagrams are read here");
        // What a test sends so is to be the last for now.
        if datagram.bytes() == "off" {
            ctx.channel().set_auto_read(false);
        }
        self.tell(Told::Read(datagram))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(Told::RoundOver)
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.tell(Told::Writable(ctx.is_writable()))
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.tell(Told::Error(error.to_string()))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(Told::Inactive)
    }
}

/// A socket that somebody else has made, and keeps a descriptor of.
pub(crate) struct Given<S>(Mutex<Option<S>>);

impl Given<UdpSocket> {
    /// A bound socket, and the other descriptor of it.
    pub(crate) fn bound() -> (Self, UdpSocket) {
        let socket = peer();
        let behind = socket.try_clone().expect("a descriptor");
        (Self(Mutex::new(Some(socket))), behind)
    }
}

impl Given<UnixDatagram> {
    /// One end of a pair that holds a few datagrams and no more, and the other end.
    pub(crate) fn pair() -> (Self, UnixDatagram) {
        let (ours, theirs) = UnixDatagram::pair().expect("a pair");
        theirs.set_read_timeout(Some(LONG)).expect("a limit");
        (Self(Mutex::new(Some(ours))), theirs)
    }

    /// A socket that is not connected, and another one with its abstract name.
    pub(crate) fn unconnected() -> (Self, (UnixDatagram, String)) {
        let ours = UnixDatagram::unbound().expect("a socket");
        let name = format!("waterwheel-{}-{}", std::process::id(), ours.as_raw_fd());
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name");
        let theirs = UnixDatagram::bind_addr(&address).expect("a place");
        theirs.set_read_timeout(Some(LONG)).expect("a limit");
        (Self(Mutex::new(Some(ours))), (theirs, name))
    }
}

impl<S: Into<OwnedFd> + Send + 'static> TransportFactory for Given<S> {
    fn client(&self) -> Box<dyn Transport> {
        let socket = self.0.lock().unwrap().take();
        Box::new(Datagrams::new(Given(Mutex::new(socket))))
    }
}

impl<S: Into<OwnedFd> + Send + 'static> DatagramSocketFactory for Given<S> {
    fn kind(&self) -> &'static SocketKind {
        static GIVEN: SocketKind = SocketKind::new("given");
        &GIVEN
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
