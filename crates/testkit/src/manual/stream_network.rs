//! Sockets in memory that reach each other.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    ServerTransportFactory, SocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, ConnectTarget, Listener, Stream};

use super::sockets::MANUAL;
use super::{ListenerControl, Manual};

/// Makes the sockets of channels: who dials where one of them listens is connected with it. Clones are the
/// same network.
///
/// A connect is answered when it is in the listener's backlog, at once if there is room; where nobody
/// listens it is refused. A listener has room for as many as its
/// [`Backlog`](SocketOption::Backlog) says, all by default. There are no other options: what they are
/// about, a kernel has, and there is none.
///
/// ```
/// use waterwheel_channel::{Bootstrap, EventLoopGroup, ServerBootstrap};
/// use waterwheel_testkit::manual::{Manual, ClockMode};
///
/// let manual = Manual::readiness();
/// let network = manual.network();
/// let group = EventLoopGroup::builder(manual.clone()).threads(1).build()?;
/// let server = ServerBootstrap::new(&group, network.clone()).bind("192.0.2.1:80").join()?;
/// let client = Bootstrap::new(&group, network).connect("192.0.2.1:80").join()?;
/// assert_eq!(client.peer_address(), server.local_address());
/// # manual.set_clock_mode(ClockMode::AutoAdvance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StreamNetwork {
    manual: Manual,
    /// Who listens where. Touched by the loops that bind and connect, and by the test.
    ports: Arc<Mutex<BTreeMap<SocketAddr, ListenerControl>>>,
}

impl StreamNetwork {
    pub(super) fn new(manual: Manual) -> Self {
        Self { manual, ports: Arc::default() }
    }

    /// Where somebody listens, for a test that wants to be the peer.
    #[must_use]
    pub fn port(&self, at: SocketAddr) -> Option<ListenerControl> {
        self.lock().get(&at).filter(|port| !port.is_closed()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, ListenerControl>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketFactory for StreamNetwork {
    fn kind(&self) -> &'static SocketKind {
        &MANUAL
    }

    fn listen(&self, at: &Address, options: &[SocketOption]) -> io::Result<(Io, Address)> {
        let at = ip(at)?;
        let (io, port) = self.manual.listener();
        for option in options {
            match option {
                SocketOption::Backlog(backlog) => port.set_limit(*backlog as usize),
                other => return Err(no_option(*other)),
            }
        }
        let mut ports = self.lock();
        ports.retain(|_, port| !port.is_closed());
        if ports.contains_key(&at) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        ports.insert(at, port);
        Ok((io, at.into()))
    }

    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> io::Result<Io> {
        if let Some(option) = options.first() {
            return Err(no_option(*option));
        }
        let port = self.port(ip(&target.remote)?);
        let (io, dial) = self.manual.connecting();
        match port {
            Some(port) => port.admit(dial),
            None => dial.refuse(io::ErrorKind::ConnectionRefused),
        }
        Ok(io)
    }
}

fn ip(address: &Address) -> io::Result<SocketAddr> {
    match address {
        Address::Ip(address) => Ok(*address),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn no_option(option: SocketOption) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("a manual socket has no option {option}"))
}

impl ServerTransportFactory for StreamNetwork {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(Listener::new(self.clone()))
    }
}

impl TransportFactory for StreamNetwork {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Stream::new(self.clone()))
    }
}

impl fmt::Debug for StreamNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}
