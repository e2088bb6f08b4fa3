//! One server on each loop, all bound to the same address.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

use waterwheel_executor::{Canceller, Error, PromiseFuture};

use super::opening::run_callback;
use super::server_bootstrap::ServerBootstrap;
use crate::address::{Address, AddressSpec};
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel_group::{ChannelGroup, ChannelGroupFuture};
use crate::driver::SocketOption;
use crate::event_loop::handle::EventLoop;

/// Servers at one address, one on each loop of a group: created by [`ServerBootstrap::bind_on_each_loop`]. This
/// is one handle for all of these servers, usable from any thread.
#[derive(Clone)]
pub struct Servers {
    channels: Vec<Channel>,
    open: ChannelGroup,
}

impl Servers {
    fn new(channels: Vec<Channel>) -> Self {
        let open = ChannelGroup::new("servers");
        for channel in &channels {
            open.add(channel);
        }
        Self { channels, open }
    }

    /// Returns the address that all servers are bound to.
    #[must_use]
    pub fn local_address(&self) -> Option<Address> {
        self.channels.first().and_then(Channel::local_address)
    }

    /// Returns the servers' channels, in the order of the loops.
    #[must_use]
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Closes all servers; their connections stay open.
    #[track_caller]
    pub fn close(&self) -> ChannelGroupFuture {
        self.open.close()
    }

    /// Completes when all servers have been closed.
    #[track_caller]
    pub fn closed(&self) -> ChannelGroupFuture {
        self.open.closed()
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Servers").field(&self.channels).finish()
    }
}

impl ServerBootstrap {
    /// Binds one server on each loop of the group, all to the same address (SO_REUSEPORT): the kernel
    /// distributes the connections ([`SocketOption::ReusePort`]), and each stays on the loop that accepted it.
    /// No loop accepts for another; [`boss`](Self::boss) and the group's chooser have no effect.
    ///
    /// If the port is 0, the operating system chooses a port for the first server, and the others use this port. The
    /// future returns the servers when all of them accept connections. If one of them cannot be bound, the
    /// others are closed and then the future fails: for instance because the transport does not support sharing
    /// an address, or because the group has one loop per channel.
    ///
    /// Connections in the backlog of a server are lost when it is closed, even though other servers still accept at
    /// its address.
    #[track_caller]
    pub fn bind_on_each_loop(&self, to: impl Into<AddressSpec>) -> PromiseFuture<Servers> {
        if self.workers.is_per_channel() {
            let why =
                "bind_on_each_loop needs shared loops, but this group has one loop per channel";
            return self.workers.failed(Error::new(why));
        }
        let to = match run_callback("address", || to.into()) {
            Ok(to) => to,
            Err(error) => return self.workers.failed(error),
        };
        let mut bootstrap = self.clone();
        bootstrap.own.socket_options.push(SocketOption::ReusePort(true));
        let loops = self.workers.all();
        let at = loops[0].clone(); // A group has at least one loop.
        let (mut promise, future) = at.new_promise();
        let opening = Arc::new(OnceLock::<Canceller>::new());
        let given_up = opening.clone();
        promise.on_cancel(move || _ = given_up.get().map(Canceller::cancel));
        let spawned = at.spawn(async move {
            match bootstrap.open_all(loops, to).await {
                Ok(servers) => {
                    if !promise.set_success(servers.clone()) {
                        drop(servers.close()); // The future was cancelled.
                    }
                }
                Err(error) => _ = promise.set_failure(error),
            }
        });
        match spawned {
            Ok(spawned) => {
                // The canceller is stored before the caller gets the future and could cancel it.
                let _ = opening.set(spawned.canceller());
                future
            }
            Err(rejected) => at.failed(rejected.into()),
        }
    }

    async fn open_all(self, loops: Vec<EventLoop>, to: AddressSpec) -> Result<Servers, Error> {
        let mut opened = OpeningServers::default();
        let mut to = Some(to);
        for at in &loops {
            let place = match to.take() {
                Some(first) => first,
                None => opened.address()?.into(),
            };
            opened.pending.push_back(self.open_on(at, place));
            if opened.servers.is_empty() {
                opened.all().await?;
            }
        }
        match opened.all().await {
            Ok(()) => Ok(Servers::new(std::mem::take(&mut opened.servers))),
            Err(error) => {
                let closed: Vec<_> =
                    opened.servers.drain(..).map(|server| server.close()).collect();
                for closed in closed {
                    let _ = closed.await;
                }
                Err(error)
            }
        }
    }
}

/// Servers that are being opened. Dropping this value closes them.
#[derive(Default)]
struct OpeningServers {
    pending: VecDeque<PromiseFuture<Channel>>,
    servers: Vec<Channel>,
}

impl OpeningServers {
    /// Returns the address of the first server.
    fn address(&self) -> Result<Address, Error> {
        let Some(first) = self.servers.first() else {
            return Err(ChannelError::Closed { cause: None }.into());
        };
        first.local_address().ok_or_else(|| first.closed_error())
    }

    /// Waits for all pending servers.
    async fn all(&mut self) -> Result<(), Error> {
        let mut all = Ok(());
        while let Some(next) = self.pending.front_mut() {
            let opened = next.await;
            self.pending.pop_front();
            match opened {
                Ok(server) => self.servers.push(server),
                Err(error) => all = all.and(Err(error)),
            }
        }
        all
    }
}

impl Drop for OpeningServers {
    fn drop(&mut self) {
        for mut pending in self.pending.drain(..) {
            if !pending.cancel() {
                self.servers.extend(pending.try_take().and_then(Result::ok));
            }
        }
        for server in &self.servers {
            drop(server.close());
        }
    }
}
