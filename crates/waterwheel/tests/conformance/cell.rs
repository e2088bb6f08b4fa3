//! The columns of the matrix: transports over drivers.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use waterwheel::channel::driver::OpenDriver;
use waterwheel::channel::local::Local;
use waterwheel::channel::{Address, Bootstrap, Channel, EventLoopGroup, Place, ServerBootstrap};
use waterwheel::net::Tcp;
use waterwheel_testkit::manual::{Manual, Network, Peer};

use crate::counted::Counted;
use crate::stage::PATIENCE;

/// A transport over a driver.
pub(crate) trait Cell {
    /// As it is called in the matrix.
    fn name(&self) -> String;

    /// Loops over its driver.
    fn group(&self, threads: usize) -> EventLoopGroup;

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap;

    fn client(&self, group: &EventLoopGroup) -> Bootstrap;

    /// Where another server can be bound.
    fn free_place(&self) -> Place;

    /// Where nobody listens.
    fn empty_place(&self) -> Place;

    /// Why it does not have this.
    fn lacks(&self, ability: Ability) -> Option<&'static str>;

    /// How often its drivers were asked to write.
    fn writes(&self) -> usize;

    /// Connects somebody to a server who is no channel. To be called by cases that need it.
    fn foreign(&self, server: &Channel) -> Box<dyn Foreign>;

    /// How many connections there may be at the same time. By default a tenth of the descriptors that a
    /// process may have.
    fn at_once(&self) -> usize {
        100
    }

    /// So long passes until the next timer is looked for: on a clock that has to be moved.
    fn pass(&self, time: Duration);
}

/// What not every cell has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// Writes are system calls, and can be counted.
    SystemWrites,
    /// Buffers, lingering and the like can be set.
    SocketOptions,
    /// The other end may be somebody else's, and be reset.
    ForeignPeer,
    /// A connect may take a while.
    SlowConnect,
    /// Channels may share a loop.
    SharedLoop,
}

/// The other end of a connection, that is no channel.
pub(crate) trait Foreign {
    fn send(&mut self, bytes: &[u8]);

    /// Sends no more, and goes on receiving.
    fn finish(&mut self);

    /// Receives until the end.
    fn receive_all(&mut self) -> io::Result<Vec<u8>>;

    /// Resets the connection.
    fn reset(self: Box<Self>);
}

/// A group with a loop for each channel has so many: each is a thread.
pub(crate) const MAX_CHANNELS: usize = 200;

/// TCP.
pub(crate) struct TcpOver<D> {
    driver: Counted<D>,
    /// A loop for each channel.
    per_channel: bool,
}

impl<D: OpenDriver + Clone + 'static> TcpOver<D> {
    pub(crate) fn new(driver: D) -> Self {
        Self { driver: Counted::new(driver), per_channel: false }
    }

    pub(crate) fn per_channel(driver: D) -> Self {
        Self { per_channel: true, ..Self::new(driver) }
    }
}

impl<D: OpenDriver + Clone + 'static> Cell for TcpOver<D> {
    fn name(&self) -> String {
        format!("TCP over {}", name_of(&self.driver))
    }

    fn group(&self, threads: usize) -> EventLoopGroup {
        if !self.per_channel {
            return group(self.driver.clone(), threads);
        }
        let builder = EventLoopGroup::per_channel(self.driver.clone());
        builder.max_channels(MAX_CHANNELS).build().expect("a group")
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, Tcp)
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Tcp)
    }

    fn free_place(&self) -> Place {
        Place::from("127.0.0.1:0")
    }

    fn empty_place(&self) -> Place {
        // Bound by the kernel, and given back without ever having listened to anybody.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        Place::from(listener.local_addr().expect("its address"))
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        let alone = "each channel has a thread of its own: who is next is the kernel's affair";
        (self.per_channel && ability == Ability::SharedLoop).then_some(alone)
    }

    fn writes(&self) -> usize {
        self.driver.writes()
    }

    fn foreign(&self, server: &Channel) -> Box<dyn Foreign> {
        let Some(Address::Ip(address)) = server.local_address() else {
            panic!("{server:?} is bound elsewhere");
        };
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
        Box::new(stream)
    }

    /// Both ends of a connection have a loop, and those that have just been closed may still have theirs.
    fn at_once(&self) -> usize {
        if self.per_channel { MAX_CHANNELS / 5 } else { 100 }
    }

    fn pass(&self, _: Duration) {}
}

impl Foreign for TcpStream {
    fn send(&mut self, bytes: &[u8]) {
        self.write_all(bytes).expect("there is room in the end");
    }

    fn finish(&mut self) {
        self.shutdown(Shutdown::Write).expect("it is connected");
    }

    fn receive_all(&mut self) -> io::Result<Vec<u8>> {
        let mut received = Vec::new();
        self.read_to_end(&mut received)?;
        Ok(received)
    }

    fn reset(self: Box<Self>) {
        rustix::net::sockopt::set_socket_linger(&*self, Some(Duration::ZERO)).expect("an option");
    }
}

/// Channels within the process.
pub(crate) struct LocalOver<D>(Counted<D>);

impl<D: OpenDriver + Clone + 'static> LocalOver<D> {
    pub(crate) fn new(driver: D) -> Self {
        Self(Counted::new(driver))
    }
}

impl<D: OpenDriver + Clone + 'static> Cell for LocalOver<D> {
    fn name(&self) -> String {
        format!("local over {}", name_of(&self.0))
    }

    fn group(&self, threads: usize) -> EventLoopGroup {
        group(self.0.clone(), threads)
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, Local)
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Local)
    }

    fn free_place(&self) -> Place {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Address::local(format!("conformance-{}", NEXT.fetch_add(1, Ordering::Relaxed))).into()
    }

    fn empty_place(&self) -> Place {
        Address::local("nobody listens here").into()
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        Some(match ability {
            Ability::SharedLoop => return None,
            Ability::SystemWrites => "messages move from queue to queue, without a system call",
            Ability::SocketOptions => "there is no socket to set an option on",
            Ability::ForeignPeer => {
                "both ends are channels of this process, nobody else can reset one"
            }
            Ability::SlowConnect => "a connect within the process succeeds or fails at once",
        })
    }

    fn writes(&self) -> usize {
        self.0.writes()
    }

    fn foreign(&self, _: &Channel) -> Box<dyn Foreign> {
        unreachable!("a cell that lacks foreign peers is not asked for one")
    }

    fn pass(&self, _: Duration) {}
}

/// Sockets in memory, over the driver that is driven by hand: the same channel code as TCP, over drivers
/// that answer at once or later, and a clock that stands.
pub(crate) struct NetworkOver {
    manual: Manual,
    driver: Counted<Manual>,
    network: Network,
}

impl NetworkOver {
    pub(crate) fn new(manual: Manual) -> Self {
        let (driver, network) = (Counted::new(manual.clone()), manual.network());
        Self { manual, driver, network }
    }
}

impl Cell for NetworkOver {
    fn name(&self) -> String {
        format!("memory over {}", name_of(&self.driver))
    }

    fn group(&self, threads: usize) -> EventLoopGroup {
        group(self.driver.clone(), threads)
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, self.network.clone())
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, self.network.clone())
    }

    fn free_place(&self) -> Place {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        SocketAddr::from(([192, 0, 2, 1], NEXT.fetch_add(1, Ordering::Relaxed))).into()
    }

    fn empty_place(&self) -> Place {
        Place::from("192.0.2.2:1")
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::SocketOptions => {
                Some("buffers and lingering are a kernel's, and there is none")
            }
            Ability::SystemWrites
            | Ability::ForeignPeer
            | Ability::SlowConnect
            | Ability::SharedLoop => None,
        }
    }

    fn writes(&self) -> usize {
        self.driver.writes()
    }

    fn foreign(&self, server: &Channel) -> Box<dyn Foreign> {
        let Some(Address::Ip(address)) = server.local_address() else {
            panic!("{server:?} is bound elsewhere");
        };
        let port = self.network.port(address).expect("somebody listens");
        Box::new(port.connect().expect("somebody listens"))
    }

    fn pass(&self, time: Duration) {
        self.manual.advance(time);
    }
}

impl Foreign for Peer {
    fn send(&mut self, bytes: &[u8]) {
        Peer::send(self, bytes);
    }

    fn finish(&mut self) {
        Peer::finish(self);
    }

    fn receive_all(&mut self) -> io::Result<Vec<u8>> {
        self.set_limit(usize::MAX);
        self.until_ended();
        Ok(self.received().to_vec())
    }

    fn reset(self: Box<Self>) {
        Peer::reset(&self);
    }
}

fn name_of(driver: &impl OpenDriver) -> &'static str {
    driver.open().expect("a driver").name()
}

fn group(driver: impl OpenDriver + 'static, threads: usize) -> EventLoopGroup {
    EventLoopGroup::builder(driver).threads(threads).build().expect("a group")
}
