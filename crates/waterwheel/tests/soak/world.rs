//! All there is: servers, clients, and the books that are kept of them.

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
use waterwheel::executor::SharedFuture;
use waterwheel::net::{Epoll, Poll, Tcp, Unix};

use crate::line::{Line, PATIENCE};
use crate::random::SeededRng;
use crate::services::{Common, Services};

/// So long is the file that is served.
const FILE: usize = 300_000;

pub(crate) struct World {
    pub(crate) common: Common,
    pub(crate) services: Services,
    /// The loops that are drained and replaced.
    each: Mutex<EventLoopGroup>,
    pub(crate) each_at: Address,
    pub(crate) clients: [EventLoopGroup; 2],
    /// What is in the file that is served.
    pub(crate) content: Bytes,
    /// Bound, but nobody listens.
    _nobody: OwnedFd,
    pub(crate) nobody_at: SocketAddr,
    /// Read by scenes that cannot do without a descriptor, written by the one that takes them all.
    descriptors: RwLock<()>,
}

/// A server of streams that echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// TCP, a server on each loop; the loops are drained and replaced.
    Each,
    /// TCP, accepted by loops over poll, served over epoll by the least loaded.
    Boss,
    /// Unix sockets over poll.
    Unix,
    /// Within the process.
    Local,
    /// TCP, with a thread for each connection.
    PerChannel,
    /// TCP over a selector that fails.
    Faulted,
    /// TCP, answered by an offloaded handler.
    Offloaded,
}

impl Service {
    pub(crate) const ALL: [Service; 7] = [
        Service::Each,
        Service::Boss,
        Service::Unix,
        Service::Local,
        Service::PerChannel,
        Service::Faulted,
        Service::Offloaded,
    ];

    pub(crate) const TCP: [Service; 4] =
        [Service::Each, Service::Boss, Service::PerChannel, Service::Faulted];

    /// Whether a connection may end before the client wants: its loops are drained, or there may be no
    /// descriptor for one.
    pub(crate) fn may_leave(self) -> bool {
        matches!(self, Service::Each | Service::PerChannel)
    }
}

impl World {
    pub(crate) fn new(dice: &mut SeededRng) -> Self {
        let common = Common::new();
        let content = dice.bytes(FILE);
        let path = std::env::temp_dir().join(format!("waterwheel-soak-{}", std::process::id()));
        let mut file = File::create_new(&path).expect("a file");
        file.write_all(&content).expect("room for it");
        let file = File::open(&path).expect("it is there");
        std::fs::remove_file(path).expect("it is there");
        let services = Services::new(&common, file);
        let (each, servers) = common.each("127.0.0.1:0");
        let each_at = servers.local_address().expect("they are bound");
        let nobody = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let nobody = nobody.expect("a socket");
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        rustix::net::bind(&nobody, &any).expect("a port");
        let nobody_at = rustix::net::getsockname(&nobody).expect("a port");
        let clients = [
            common.group("clients-epoll", EventLoopGroup::builder(Epoll).threads(2)),
            common.group("clients-poll", EventLoopGroup::builder(Poll).threads(1)),
        ];
        Self {
            common,
            services,
            each: Mutex::new(each),
            each_at,
            clients,
            content,
            _nobody: nobody,
            nobody_at: nobody_at.try_into().expect("an IP address"),
            descriptors: RwLock::default(),
        }
    }

    pub(crate) fn address(&self, service: Service) -> Address {
        let services = &self.services;
        match service {
            Service::Each => &self.each_at,
            Service::Boss => &services.boss,
            Service::Unix => &services.unix,
            Service::Local => &services.local,
            Service::PerChannel => &services.per_channel,
            Service::Faulted => &services.faulted,
            Service::Offloaded => &services.offloaded,
        }
        .clone()
    }

    /// What makes clients of this service, on one of the clients' groups, or with a thread for each.
    pub(crate) fn bootstrap(&self, service: Service, dice: &mut SeededRng) -> Bootstrap {
        let groups = self.clients.iter().chain([&self.services.blocking]);
        let group = groups.cycle().nth(dice.below(8)).expect("there is one");
        match service {
            Service::Unix => Bootstrap::new(group, Unix),
            Service::Local => Bootstrap::new(group, Local),
            _ => Bootstrap::new(group, Tcp),
        }
    }

    /// Connects to a service; none if it was told why it cannot.
    pub(crate) fn connect(
        &self,
        service: Service,
        dice: &mut SeededRng,
        options: ChannelOptions,
    ) -> Option<Line> {
        let clients = self.bootstrap(service, dice);
        self.connect_by(clients, self.address(service), options)
    }

    pub(crate) fn connect_by(
        &self,
        clients: Bootstrap,
        to: Address,
        options: ChannelOptions,
    ) -> Option<Line> {
        match Line::connect(clients, AddressSpec::from(to.clone()), options) {
            Ok(line) => Some(line),
            Err(error) => {
                let text = error.to_string();
                // A server that is gone takes those with it that it has not accepted yet.
                let left = to == self.each_at && text.contains("reset");
                let told = text.contains("Too many open files") || left;
                assert!(told, "no connection to {to}: {text}");
                None
            }
        }
    }

    /// Descriptors can be had, as long as this is kept.
    pub(crate) fn with_descriptors(&self) -> RwLockReadGuard<'_, ()> {
        self.descriptors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody else counts on descriptors, as long as this is kept.
    pub(crate) fn without_descriptors(&self) -> RwLockWriteGuard<'_, ()> {
        self.descriptors.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group that is drained and replaced: whoever has it is the only one that does.
    pub(crate) fn each(&self) -> MutexGuard<'_, EventLoopGroup> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All loops that there are now.
    pub(crate) fn loops(&self) -> Vec<EventLoop> {
        let each = self.each().clone();
        let groups = self.services.groups().into_iter().chain(&self.clients).chain([&each]);
        groups.flat_map(|group| group.children().collect::<Vec<_>>()).collect()
    }

    /// What the loops say of themselves; of those that are drained and replaced, the first ones.
    pub(crate) fn metrics(&self) -> impl Fn() -> String + Send + 'static {
        let loops: Vec<_> = self.loops().iter().map(EventLoop::clone).collect();
        move || {
            let lines = loops.iter().map(|at| {
                let running = at.running();
                format!("{}: {running:?} {:?}\n", at.name(), at.metrics())
            });
            lines.collect()
        }
    }

    /// Ends all loops.
    pub(crate) fn end(self) {
        let each = self.each().clone();
        let groups = self.services.groups().into_iter().chain(&self.clients).chain([&each]);
        let ended: Vec<_> = groups.map(end).collect();
        for ended in ended {
            ended.wait_timeout(PATIENCE).expect("loops end in time");
        }
        let far = self.services.far.shutdown_gracefully(Duration::ZERO, PATIENCE);
        far.expect("a sound shutdown").wait_timeout(PATIENCE).expect("executors end in time");
    }
}

/// Shuts loops down, at once.
pub(crate) fn end(group: &EventLoopGroup) -> SharedFuture<()> {
    group.shutdown_gracefully(Duration::ZERO, PATIENCE).expect("a sound shutdown")
}
