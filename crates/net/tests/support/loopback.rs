//! The fixture of the driver and loop suites for the drivers of this crate: TCP on the loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::{
    self,
    net::{UnixDatagram, UnixStream},
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::SockRef;
use waterwheel_channel::driver::{Driver, Io, OpenDriver};
use waterwheel_net::{DatagramSocket, Socket, foreign_io};
use waterwheel_testkit::driver_suite::{
    AcceptedConnect, Fixture, ForeignTrigger, RemoteConnector, RemoteDatagrams, RemoteStream,
};

/// Longer than any step takes.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Opens drivers with this factory.
pub(crate) struct Loopback<O>(pub(crate) O);

impl<O: OpenDriver> Fixture for Loopback<O> {
    fn open(&self) -> Box<dyn Driver> {
        self.0.open().expect("the driver opens")
    }

    fn pair(&self) -> (Io, Box<dyn RemoteStream>) {
        let listener = listen();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        (io(ours), TcpPeer::boxed(theirs))
    }

    fn listener(&self) -> (Io, Box<dyn RemoteConnector>) {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        (io(listener), Box::new(TcpConnector(address)))
    }

    fn connect_accepted(&self) -> AcceptedConnect {
        let listener = listen();
        let target = listener.local_addr().unwrap();
        let io = Socket::unconnected(target).unwrap().into();
        let remote = Box::new(move || TcpPeer::boxed(listener.accept().unwrap().0));
        AcceptedConnect { io, target, remote }
    }

    fn connect_refused(&self) -> (Io, SocketAddr) {
        let target = listen().local_addr().unwrap();
        (Socket::unconnected(target).unwrap().into(), target)
    }

    /// Uses Unix datagrams: unlike UDP datagrams, they wait while the receiver has no room.
    fn datagrams(&self) -> (Io, Box<dyn RemoteDatagrams>) {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        (DatagramSocket::new(ours).unwrap().into(), Box::new(UnixDatagramPeer(theirs)))
    }

    fn foreign(&self) -> (Io, Box<dyn ForeignTrigger>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = Arc::new(ours);
        (foreign_io(ours.clone()), Box::new(UnixStreamTrigger { ours, theirs: Some(theirs) }))
    }

    fn max_sockets(&self) -> usize {
        if self.open().name() == "blocking" { 1 } else { usize::MAX }
    }
}

/// The other end of a pair of Unix datagram sockets.
struct UnixDatagramPeer(UnixDatagram);

impl RemoteDatagrams for UnixDatagramPeer {
    fn send(&mut self, bytes: &[u8]) {
        self.0.send(bytes).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let n = self.0.recv(&mut buffer).unwrap();
        buffer[..n].to_vec()
    }

    /// Connects to another address: the kernel reports a lost peer only if that peer has unread datagrams.
    fn close(&mut self) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-suite-{}-{number}", std::process::id());
        let name = unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let elsewhere = UnixDatagram::bind_addr(&name).unwrap();
        self.0.connect_addr(&name).unwrap();
        drop(elsewhere);
    }
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn io(socket: impl Into<std::os::fd::OwnedFd>) -> Io {
    Socket::new(socket).unwrap().into()
}

/// A blocking stream with a time limit; `None` after a reset.
struct TcpPeer(Option<TcpStream>);

impl TcpPeer {
    fn boxed(stream: TcpStream) -> Box<dyn RemoteStream> {
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Box::new(Self(Some(stream)))
    }

    fn stream(&mut self) -> &mut TcpStream {
        self.0.as_mut().expect("not reset yet")
    }

    /// Calls `what` with the stream in non-blocking mode.
    fn at_once<R>(&mut self, what: impl FnOnce(&mut TcpStream) -> R) -> R {
        self.stream().set_nonblocking(true).unwrap();
        let result = what(self.stream());
        self.stream().set_nonblocking(false).unwrap();
        result
    }
}

impl RemoteStream for TcpPeer {
    fn send(&mut self, bytes: &[u8]) -> usize {
        match self.at_once(|stream| stream.write(bytes)) {
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("send: {error}"),
        }
    }

    fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream().read_exact(&mut bytes).expect("the bytes arrive");
        bytes
    }

    fn drain(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = self.at_once(|stream| stream.read_to_end(&mut bytes));
        match read.map_err(|error| error.kind()) {
            Ok(_) | Err(ErrorKind::WouldBlock | ErrorKind::ConnectionReset) => bytes,
            Err(error) => panic!("drain: {error}"),
        }
    }

    fn wait_ended(&mut self) {
        match self.stream().read_to_end(&mut Vec::new()).map_err(|error| error.kind()) {
            Ok(_) | Err(ErrorKind::ConnectionReset) => {}
            Err(error) => panic!("no end: {error}"),
        }
    }

    fn finish(&mut self) {
        self.stream().shutdown(Shutdown::Write).unwrap();
    }

    fn reset(&mut self) {
        let stream = self.0.take().expect("not reset yet");
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

/// Connects to a listener.
struct TcpConnector(SocketAddr);

impl RemoteConnector for TcpConnector {
    fn connect(&mut self) -> Box<dyn RemoteStream> {
        TcpPeer::boxed(TcpStream::connect(self.0).unwrap())
    }
}

/// Makes a foreign Unix stream readable.
struct UnixStreamTrigger {
    ours: Arc<UnixStream>,
    theirs: Option<UnixStream>,
}

impl ForeignTrigger for UnixStreamTrigger {
    fn make_readable(&mut self) {
        self.theirs.as_mut().expect("not hung up yet").write_all(b"x").unwrap();
    }

    fn drain(&mut self) {
        let drained = (&*self.ours).read_to_end(&mut Vec::new());
        assert_eq!(drained.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    }

    fn hang_up(&mut self) {
        self.theirs = None;
    }
}
