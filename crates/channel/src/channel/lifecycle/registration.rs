//! Binding and activating a channel, and registering it with its loop (C02, C04).

use std::rc::Rc;

use waterwheel_executor::Error;

use crate::address::Address;
use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::error::ChannelError;
use crate::channel::lifecycle::step_queue::LifecycleStep;
use crate::pipeline::Completion;

impl ChannelCore {
    /// Binds the channel; the request has passed all handlers.
    pub(crate) fn bind(self: &Rc<Self>, to: Address, done: Completion) {
        let bound = self
            .check_may_activate()
            .and_then(|()| self.with_transport(|transport, context| transport.bind(context, to)));
        if bound.is_ok() {
            self.activate(done);
        } else {
            self.complete_later(done, bound);
        }
    }

    /// Returns an error if the channel cannot be bound or connected in its present state.
    pub(in crate::channel) fn check_may_activate(&self) -> Result<(), Error> {
        let life = self.lifecycle.get();
        Err(Error::new(if !life.is_open() {
            return Err(self.closed_error());
        } else if !life.is_registered() {
            ChannelError::NotRegistered
        } else if life.is_active() {
            ChannelError::AlreadyActive
        } else if self.is_connecting() {
            ChannelError::Connecting
        } else {
            return Ok(());
        }))
    }

    /// Activates a channel that is connected or bound. The completion runs before the handlers are called.
    pub(in crate::channel) fn activate(self: &Rc<Self>, done: Completion) {
        let mut life = self.lifecycle.get();
        let first = life.set_active();
        self.lifecycle.set(life);
        self.complete_later(done, Ok(()));
        if first {
            self.store_addresses();
            self.shared.set_active(true);
            self.queue_step(LifecycleStep::Active);
        }
    }

    /// Stores the addresses, unless they are known. The driver is asked for the local address of a stream.
    fn store_addresses(&self) {
        let (local, peer) = {
            let transport = self.transport.borrow();
            (transport.local_address(), transport.peer_address())
        };
        let local = match self.stream_token() {
            Some(token) if local.is_none() && !self.shared.has_local_address() => {
                self.here.local_address(token)
            }
            _ => local,
        };
        if local.is_some() || peer.is_some() {
            self.shared.add_addresses(local, peer);
        }
    }

    /// Deregisters the channel from its loop; the request has passed all handlers.
    pub(crate) fn deregister(self: &Rc<Self>, done: Completion) {
        self.write_out();
        let life = self.lifecycle.get();
        let left = if !life.is_open() {
            Err(self.closed_error())
        } else if !life.is_registered() {
            Err(Error::new(ChannelError::NotRegistered))
        } else {
            self.deregister_transport()
        };
        if left.is_ok() {
            if self.abort_round() {
                self.queue_step(LifecycleStep::RoundAborted);
            }
            let mut life = self.lifecycle.get();
            let announced = life.set_deregistered();
            self.lifecycle.set(life);
            self.shared.set_registered(false);
            if announced {
                self.queue_step(LifecycleStep::Unregistered);
            }
        }
        self.complete_later(done, left);
    }

    /// Deregisters the transport. If that fails, reading continues.
    fn deregister_transport(self: &Rc<Self>) -> Result<(), Error> {
        if self.is_between_attempts() {
            return Err(Error::new(ChannelError::Connecting));
        }
        let reading = self.is_reading();
        self.set_read(false);
        let left = self.with_socket_change(|transport, context| transport.deregister(context));
        if left.is_err() && reading {
            self.set_read(true);
        }
        left
    }

    /// Registers the channel with its loop, for the first time or again. On an error the channel is closed.
    pub(in crate::channel) fn register(self: &Rc<Self>) -> Result<(), Error> {
        let mut life = self.lifecycle.get();
        if !life.is_open() {
            return Err(self.closed_error());
        }
        if life.is_registered() {
            return Err(Error::new(ChannelError::AlreadyRegistered));
        }
        let registered = self.with_socket_change(|transport, context| transport.register(context));
        let connected = registered.inspect_err(|error| {
            self.close(Some(error.clone()), Completion::none());
        })?;
        let first = life.set_registered();
        self.lifecycle.set(life);
        self.shared.set_registered(true);
        if first {
            self.queue_step(LifecycleStep::Registered);
        }
        if connected && !life.is_active() {
            self.activate(Completion::none());
        } else if life.is_active() {
            self.clear_full_state();
            self.queue_step(LifecycleStep::ReadAgain);
            self.mark_deferred(DeferredWork::FLUSH);
        }
        Ok(())
    }
}
