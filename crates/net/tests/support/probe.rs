//! A TCP server on a loop whose handlers log their events, and peers of the standard library.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use socket2::SockRef;
use waterwheel_channel::{
    Address, Channel, Ctx, EventLoopGroup, HalfClosed, Handler, HandlerResult, Msg, PeerFinished,
    ServerBootstrap,
};
use waterwheel_executor::Error;
use waterwheel_net::Tcp;

use crate::loop_rig::{LoopRig, TIME_LIMIT, get};

/// A server whose connections have a [`Probe`].
pub(crate) struct ProbedServer {
    pub(crate) listener: Channel,
    pub(crate) address: SocketAddr,
    children: Receiver<(Channel, ProbeLog)>,
}

impl ProbedServer {
    pub(crate) fn open(
        rig: &LoopRig,
        how: impl FnOnce(ServerBootstrap) -> ServerBootstrap,
    ) -> Self {
        let (sender, children) = channel();
        let server = ServerBootstrap::new(&group(rig), Tcp).child_initialiser(move |edit| {
            edit.add_last("probe", Probe::announcing(sender.clone()))?;
            Ok(())
        });
        let server = get(how(server).bind("127.0.0.1:0"));
        let address = ip(server.local_address());
        Self { listener: server, address, children }
    }

    /// Connects; returns the accepted channel, the peer and the log of its probe.
    #[track_caller]
    pub(crate) fn connect(&self) -> (Channel, TcpStream, ProbeLog) {
        let peer = TcpStream::connect(self.address).unwrap();
        peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        peer.set_nodelay(true).unwrap();
        let (channel, notes) = self.accepted();
        (channel, peer, notes)
    }

    #[track_caller]
    pub(crate) fn accepted(&self) -> (Channel, ProbeLog) {
        self.children.recv_timeout(TIME_LIMIT).expect("accepted in time")
    }
}

pub(crate) fn group(rig: &LoopRig) -> EventLoopGroup {
    rig.event_loop.parent().expect("the group of the loop")
}

pub(crate) fn ip(address: Option<Address>) -> SocketAddr {
    match address {
        Some(Address::Ip(address)) => address,
        other => panic!("not an IP address: {other:?}"),
    }
}

/// The events of a handler as text.
pub(crate) struct ProbeLog(Receiver<String>);

impl ProbeLog {
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(TIME_LIMIT).expect("an event in time")
    }

    #[track_caller]
    pub(crate) fn take(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| self.next()).collect()
    }

    /// Waits until the handler is removed; returns all its events.
    #[track_caller]
    pub(crate) fn until_removed(&self) -> Vec<String> {
        let mut all = vec![self.next()];
        while all.last().is_none_or(|last| last != "removed") {
            all.push(self.next());
        }
        all
    }

    pub(crate) fn rest(&self) -> Vec<String> {
        self.0.try_iter().collect()
    }
}

/// A handler that logs its inbound events; it may announce its channel when it becomes active.
pub(crate) struct Probe {
    sender: Option<(Sender<(Channel, ProbeLog)>, ProbeLog)>,
    note: Sender<String>,
}

impl Probe {
    pub(crate) fn new() -> (Self, ProbeLog) {
        let (note, notes) = channel();
        (Self { sender: None, note }, ProbeLog(notes))
    }

    /// Creates a probe that sends its channel and its log to the test when the channel is active.
    pub(crate) fn announcing(sender: Sender<(Channel, ProbeLog)>) -> Self {
        let (note, notes) = channel();
        Self { sender: Some((sender, ProbeLog(notes))), note }
    }

    fn note(&self, what: impl Into<String>) -> HandlerResult {
        let _ = self.note.send(what.into());
        Ok(())
    }
}

impl Handler for Probe {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        match self.sender.take() {
            Some((sender, notes)) => drop(sender.send((ctx.channel(), notes))),
            None => self.note("active")?,
        }
        Ok(())
    }

    fn on_registered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        match self.sender {
            Some(_) => Ok(()),
            None => self.note("registered"),
        }
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("unregistered")
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("inactive")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.note("removed");
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.take::<Bytes>().expect("bytes");
        self.note(format!("read {}", String::from_utf8_lossy(&bytes)))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.note("complete")
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        if event.is::<PeerFinished>() {
            return self.note("peer finished");
        }
        match event.get::<HalfClosed>() {
            Some(half) => self.note(format!("{half:?} over")),
            None => self.note(event.type_name()),
        }
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.note(format!("error {error}"))
    }
}

/// Writes back every message, and flushes at the end of each round.
pub(crate) struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// Starts an echo server on the loop of this rig.
pub(crate) fn echo(rig: &LoopRig) -> (Channel, SocketAddr) {
    let server = ServerBootstrap::new(&group(rig), Tcp).child_initialiser(|edit| {
        edit.add_last("echo", Echo)?;
        Ok(())
    });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    (server, address)
}

/// Closes a connection with a reset.
pub(crate) fn reset(peer: TcpStream) {
    SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Connects and sends "ping".
pub(crate) fn connect_and_send(address: SocketAddr) -> TcpStream {
    let mut peer = TcpStream::connect(address).unwrap();
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.write_all(b"ping").unwrap();
    peer
}

/// Fails unless "ping" comes back.
#[track_caller]
pub(crate) fn assert_echoed(peer: &mut TcpStream) {
    let mut back = [0; 4];
    peer.read_exact(&mut back).expect("an answer");
    assert_eq!(&back, b"ping");
}

/// Reads until the end of the stream or a reset.
#[track_caller]
pub(crate) fn read_to_end(peer: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match peer.read_to_end(&mut all).map_err(|error| error.kind()) {
        Ok(_) | Err(ErrorKind::ConnectionReset) => all,
        Err(error) => panic!("no end: {error}"),
    }
}

/// Waits by polling until `holds` returns true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = waterwheel_executor::Clock::Monotonic;
    let limit = clock.now().plus(TIME_LIMIT);
    while !holds() {
        assert!(clock.now() < limit, "timed out waiting for: {what}");
        std::thread::yield_now();
    }
}
