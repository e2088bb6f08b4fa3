//! The context of a transport: how it reports events to its channel, and how it asks to be polled.

use std::fmt;
use std::io;
use std::rc::Weak;
use std::sync::Arc;

use crate::base::token::Token;
use crate::channel::core::ChannelCore;
use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelShared;
use crate::channel::transport::TransportEvent;
use crate::driver::{Io, Role, SocketOption};
use crate::event_loop::local_loop::LocalLoop;

/// A transport's access to its channel, on their loop. It does not keep the channel alive.
#[derive(Clone)]
pub struct TransportContext {
    here: LocalLoop,
    core: Weak<ChannelCore>,
}

impl TransportContext {
    pub(crate) fn new(here: &LocalLoop, core: Weak<ChannelCore>) -> Self {
        Self { here: here.clone(), core }
    }

    /// Returns the loop.
    #[must_use]
    pub fn event_loop(&self) -> &LocalLoop {
        &self.here
    }

    /// Reports an event to the channel. Must be called from the loop, never inside of a method of the transport.
    pub fn event(&self, event: TransportEvent) {
        if let Some(core) = self.core.upgrade() {
            core.on_transport_event(event);
        }
    }

    /// Attaches a socket to the driver and sets its options. The socket is detached if an option cannot be set.
    #[track_caller]
    pub(in crate::channel) fn attach(
        &self,
        io: Io,
        role: Role,
        options: Vec<SocketOption>,
    ) -> io::Result<Token> {
        let Some(core) = self.core.upgrade() else { return Err(io::ErrorKind::NotFound.into()) };
        let token = self.here.attach_receiver(io, role, core)?;
        let set = |option| self.here.set_option(token, option);
        let all = options.into_iter().try_for_each(set).map(|()| token);
        if all.is_err() {
            self.here.detach(token);
        }
        all
    }

    /// Makes the channel poll the transport for events at the end of this turn's work. May be called anywhere
    /// on the loop.
    pub fn wake(&self) {
        if let Some(core) = self.core.upgrade() {
            core.poll_transport_later();
        }
    }

    /// Returns a waker that does the same as [`wake`](Self::wake) from any thread.
    #[must_use]
    pub fn waker(&self) -> Option<TransportWaker> {
        self.core.upgrade().map(|core| TransportWaker { shared: core.shared().clone() })
    }

    /// Returns a handle of the channel.
    #[must_use]
    pub fn channel(&self) -> Option<Channel> {
        self.core.upgrade().map(|core| core.channel())
    }
}

impl fmt::Debug for TransportContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransportContext").field(&self.core.upgrade()).finish()
    }
}

/// Makes a channel poll its transport for events, from any thread.
#[derive(Clone, Debug)]
pub struct TransportWaker {
    shared: Arc<ChannelShared>,
}

impl TransportWaker {
    /// Makes the channel poll for events: at the end of this turn's work on its own loop, by a command from
    /// another thread. Does nothing if the loop is gone.
    pub fn wake(&self) {
        self.shared.request_poll();
    }
}
