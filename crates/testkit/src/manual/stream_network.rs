//! Stream sockets in memory that reach each other.

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

/// A socket factory whose sockets reach each other: a connect to an address where one of them listens connects the
/// two. Clones are the same network.
///
/// A connect succeeds when it is in the listener's backlog, at once if there is room, and is refused if nothing
/// listens at the address. A backlog is unlimited unless the [`Backlog`](SocketOption::Backlog) option sets its length.
/// Other options are unsupported, because there is no kernel.
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
    /// Listeners by address. Locked by the loops that bind and connect, and by the test.
    listeners: Arc<Mutex<BTreeMap<SocketAddr, ListenerControl>>>,
}

impl StreamNetwork {
    pub(super) fn new(manual: Manual) -> Self {
        Self { manual, listeners: Arc::default() }
    }

    /// Returns the listener at this address, for a test that connects to it.
    #[must_use]
    pub fn listener(&self, at: SocketAddr) -> Option<ListenerControl> {
        self.lock().get(&at).filter(|listener| !listener.is_closed()).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, ListenerControl>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketFactory for StreamNetwork {
    fn kind(&self) -> &'static SocketKind {
        &MANUAL
    }

    fn listen(&self, at: &Address, options: &[SocketOption]) -> io::Result<(Io, Address)> {
        let at = ip(at)?;
        let (io, listener) = self.manual.listener();
        for option in options {
            match option {
                SocketOption::Backlog(backlog) => listener.set_limit(*backlog as usize),
                other => return Err(unsupported_option(*other)),
            }
        }
        let mut listeners = self.lock();
        listeners.retain(|_, listener| !listener.is_closed());
        if listeners.contains_key(&at) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        listeners.insert(at, listener);
        Ok((io, at.into()))
    }

    fn dial(&self, target: &ConnectTarget, options: &[SocketOption]) -> io::Result<Io> {
        if let Some(option) = options.first() {
            return Err(unsupported_option(*option));
        }
        let listener = self.listener(ip(&target.remote)?);
        let (io, connect) = self.manual.connecting();
        match listener {
            Some(listener) => listener.connect_socket(connect),
            None => connect.refuse(io::ErrorKind::ConnectionRefused),
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

fn unsupported_option(option: SocketOption) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("a manual socket does not support the option {option}"),
    )
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
