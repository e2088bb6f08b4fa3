//! The loops, servers and client groups of a run, and the counts kept of them.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use bytes::Bytes;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType};
use waterwheel::channel::local::Local;
use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, ChannelOptions, EventLoop, EventLoopGroup,
};
use waterwheel::executor::{Error, SharedFuture};
use waterwheel::net::{Epoll, Poll, Tcp, Unix};

use crate::client_connection::{ClientConnection, WAIT_LIMIT};
use crate::random::SeededRng;
use crate::services::{GroupSetup, Services};

/// Length of the file that is served.
const FILE_LEN: usize = 300_000;

/// Everything that scenarios share.
pub(crate) struct SoakSetup {
    pub(crate) common: GroupSetup,
    pub(crate) services: Services,
    /// The loops that a scenario drains and replaces.
    drained_group: Mutex<EventLoopGroup>,
    pub(crate) drained_address: Address,
    pub(crate) clients: [EventLoopGroup; 2],
    /// Content of the file that is served.
    pub(crate) content: Bytes,
    /// A socket that is bound but does not listen: connects to its address are refused.
    _bound_socket: OwnedFd,
    pub(crate) refusing_address: SocketAddr,
    /// Read-locked by scenarios that need new descriptors, write-locked by the one that exhausts them.
    descriptors: RwLock<()>,
}

/// An echo server over streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// TCP, with a listener on each loop; the loops are drained and replaced.
    Drained,
    /// TCP, accepted by loops over poll, served by the least loaded loop over epoll.
    Boss,
    /// Unix sockets, over poll.
    Unix,
    /// The local transport, within the process.
    Local,
    /// TCP, with a thread and a loop for each connection.
    PerChannel,
    /// TCP, over a selector with injected faults.
    Faulted,
    /// TCP, answered by an offloaded handler.
    Offloaded,
    /// TLS over TCP.
    Tls,
}

impl Service {
    pub(crate) const ALL: [Service; 8] = [
        Service::Drained,
        Service::Boss,
        Service::Unix,
        Service::Local,
        Service::PerChannel,
        Service::Faulted,
        Service::Offloaded,
        Service::Tls,
    ];

    pub(crate) const TCP: [Service; 5] =
        [Service::Drained, Service::Boss, Service::PerChannel, Service::Faulted, Service::Tls];

    /// True if the server may end a connection early: its loops are drained, or there may be no descriptor for its loop.
    pub(crate) fn may_end_early(self) -> bool {
        matches!(self, Service::Drained | Service::PerChannel)
    }
}

impl SoakSetup {
    pub(crate) fn new(rng: &mut SeededRng) -> Self {
        let common = GroupSetup::new();
        let content = rng.bytes(FILE_LEN);
        let path = std::env::temp_dir().join(format!("waterwheel-soak-{}", std::process::id()));
        let mut file = File::create_new(&path).expect("a new temporary file");
        file.write_all(&content).expect("space for the file");
        let file = File::open(&path).expect("the file exists");
        std::fs::remove_file(path).expect("the file exists");
        let services = Services::new(&common, file);
        let (drained_group, servers) = common.serve_on_each_loop("127.0.0.1:0");
        let drained_address = servers.local_address().expect("the servers are bound");
        let bound_socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let bound_socket = bound_socket.expect("a socket is created");
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        rustix::net::bind(&bound_socket, &any).expect("a port is free");
        let refusing_address =
            rustix::net::getsockname(&bound_socket).expect("the socket is bound");
        let clients = [
            common.group("clients-epoll", EventLoopGroup::builder(Epoll).threads(2)),
            common.group("clients-poll", EventLoopGroup::builder(Poll).threads(1)),
        ];
        Self {
            common,
            services,
            drained_group: Mutex::new(drained_group),
            drained_address,
            clients,
            content,
            _bound_socket: bound_socket,
            refusing_address: refusing_address.try_into().expect("the address is an IP address"),
            descriptors: RwLock::default(),
        }
    }

    pub(crate) fn address(&self, service: Service) -> Address {
        let services = &self.services;
        match service {
            Service::Drained => &self.drained_address,
            Service::Boss => &services.boss,
            Service::Unix => &services.unix,
            Service::Local => &services.local,
            Service::PerChannel => &services.per_channel,
            Service::Faulted => &services.faulted,
            Service::Offloaded => &services.offloaded,
            Service::Tls => &services.tls,
        }
        .clone()
    }

    /// Returns a bootstrap for clients of this service, on a random client group or with a thread for each client.
    pub(crate) fn bootstrap(&self, service: Service, rng: &mut SeededRng) -> Bootstrap {
        let groups = self.clients.iter().chain([&self.services.blocking]);
        let group = groups.cycle().nth(rng.below(8)).expect("the cycle has no end");
        match service {
            Service::Unix => Bootstrap::new(group, Unix),
            Service::Local => Bootstrap::new(group, Local),
            _ => Bootstrap::new(group, Tcp),
        }
    }

    /// Connects to a service. Returns `None` if the connect failed with an error that faults may cause.
    pub(crate) fn connect(
        &self,
        service: Service,
        rng: &mut SeededRng,
        options: ChannelOptions,
    ) -> Option<ClientConnection> {
        let (clients, to) = (self.bootstrap(service, rng), self.address(service));
        let tls = (service == Service::Tls).then(|| self.common.tls.clone());
        let spec = AddressSpec::from(to.clone());
        self.expect_faults(&to, ClientConnection::connect(clients, spec, options, tls))
    }

    pub(crate) fn connect_by(
        &self,
        clients: Bootstrap,
        to: Address,
        options: ChannelOptions,
    ) -> Option<ClientConnection> {
        let spec = AddressSpec::from(to.clone());
        self.expect_faults(&to, ClientConnection::connect(clients, spec, options, None))
    }

    fn expect_faults(
        &self,
        to: &Address,
        connected: Result<ClientConnection, Error>,
    ) -> Option<ClientConnection> {
        match connected {
            Ok(connection) => Some(connection),
            Err(error) => {
                let text = error.to_string();
                // A listener that closes resets the connections that it has not accepted yet.
                let was_drained = *to == self.drained_address && text.contains("reset");
                let is_expected = text.contains("Too many open files") || was_drained;
                assert!(is_expected, "no connection to {to}: {text}");
                None
            }
        }
    }

    /// Keeps descriptors available while the guard lives.
    pub(crate) fn with_descriptors(&self) -> RwLockReadGuard<'_, ()> {
        self.descriptors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps every scenario that needs new descriptors waiting while the guard lives.
    pub(crate) fn without_descriptors(&self) -> RwLockWriteGuard<'_, ()> {
        self.descriptors.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the group that is drained and replaced.
    pub(crate) fn drained_group(&self) -> MutexGuard<'_, EventLoopGroup> {
        self.drained_group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all loops that run now.
    pub(crate) fn loops(&self) -> Vec<EventLoop> {
        let drained = self.drained_group().clone();
        let groups = self.services.groups().into_iter().chain(&self.clients).chain([&drained]);
        groups.flat_map(|group| group.children().collect::<Vec<_>>()).collect()
    }

    /// Returns a function that formats the loops' state and metrics. For the group that is drained and replaced, it
    /// shows the first loops.
    pub(crate) fn metrics(&self) -> impl Fn() -> String + Send + 'static {
        let loops: Vec<_> = self.loops().iter().map(EventLoop::clone).collect();
        move || {
            let connections = loops.iter().map(|at| {
                let running = at.running();
                format!("{}: {running:?} {:?}\n", at.name(), at.metrics())
            });
            connections.collect()
        }
    }

    /// Shuts down all loops and executors, and waits for them.
    pub(crate) fn shut_down(self) {
        let drained = self.drained_group().clone();
        let groups = self.services.groups().into_iter().chain(&self.clients).chain([&drained]);
        let ended: Vec<_> = groups.map(shut_down_now).collect();
        for ended in ended {
            ended.wait_timeout(WAIT_LIMIT).expect("the loops end in time");
        }
        let offload_group =
            self.services.offload_group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT);
        offload_group
            .expect("valid shutdown times")
            .wait_timeout(WAIT_LIMIT)
            .expect("the executors end in time");
    }
}

/// Shuts loops down without a quiet period.
pub(crate) fn shut_down_now(group: &EventLoopGroup) -> SharedFuture<()> {
    group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT).expect("valid shutdown times")
}
