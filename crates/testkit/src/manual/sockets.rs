//! A socket factory for transports and bootstraps whose peers the test plays.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_channel::driver::{Io, SocketOption};
use waterwheel_channel::transport::{
    ServerTransportFactory, SocketFactory, SocketKind, Transport, TransportFactory,
};
use waterwheel_channel::{Address, ConnectTarget, Listener, Stream};

use super::{ListenerControl, Manual, PendingConnect};

/// A socket factory for channels that keeps the other side of each socket for the test. Clones share the sockets.
///
/// ```
/// use waterwheel_channel::{Bootstrap, EventLoopGroup};
/// use waterwheel_testkit::manual::{Manual, ClockMode};
///
/// let manual = Manual::readiness();
/// let group = EventLoopGroup::builder(manual.clone()).threads(1).build()?;
/// let sockets = manual.sockets();
/// let connected = Bootstrap::new(&group, sockets.clone()).connect("192.0.2.1:80");
/// manual.wait_idle();
/// let peer = sockets.next_connect().unwrap().accept();
/// let channel = connected.join()?;
/// channel.send(bytes::Bytes::from("hello"));
/// assert_eq!(peer.receive(5), "hello");
/// # manual.set_clock_mode(ClockMode::AutoAdvance);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ManualSockets {
    manual: Manual,
    /// Sockets that the test has not taken yet: added on the loops, taken by the test.
    created: Arc<Mutex<CreatedSockets>>,
}

#[derive(Default)]
struct CreatedSockets {
    connects: VecDeque<PendingConnect>,
    listeners: VecDeque<ListenerControl>,
}

impl ManualSockets {
    pub(super) fn new(manual: Manual) -> Self {
        Self { manual, created: Arc::default() }
    }

    /// Takes the test's side of the oldest connect that was not taken yet.
    #[must_use]
    pub fn next_connect(&self) -> Option<PendingConnect> {
        self.lock().connects.pop_front()
    }

    /// Takes the control of the oldest listener that was not taken yet.
    #[must_use]
    pub fn next_listener(&self) -> Option<ListenerControl> {
        self.lock().listeners.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, CreatedSockets> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) static MANUAL: SocketKind = SocketKind::new("manual");

impl SocketFactory for ManualSockets {
    fn kind(&self) -> &'static SocketKind {
        &MANUAL
    }

    fn listen(&self, at: &Address, _: &[SocketOption]) -> io::Result<(Io, Address)> {
        let (io, control) = self.manual.listener();
        self.lock().listeners.push_back(control);
        Ok((io, at.clone()))
    }

    fn dial(&self, _: &ConnectTarget, _: &[SocketOption]) -> io::Result<Io> {
        let (io, connect) = self.manual.connecting();
        self.lock().connects.push_back(connect);
        Ok(io)
    }
}

impl ServerTransportFactory for ManualSockets {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(Listener::new(self.clone()))
    }
}

impl TransportFactory for ManualSockets {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Stream::new(self.clone()))
    }
}

impl fmt::Debug for ManualSockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let created = self.lock();
        write!(
            f,
            "ManualSockets({} connects, {} listeners)",
            created.connects.len(),
            created.listeners.len()
        )
    }
}
