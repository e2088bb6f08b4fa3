//! The loops of a group with one loop and one thread for each channel (L13).
//!
//! ```text
//!          lease: an idle loop, or a new one                          kept by the loop
//!   idle ────────────────────────────────────► LoopLease ───────────────────────────► channels,
//!     ▲                                            │ dropped unused                   registrations
//!     └────────────────────────────────────────────┴─────────────────────────────────  none left
//! ```
//!
//! Rules:
//! 1. A leased loop serves no other channel until its [`LoopLease`] is dropped. The lease travels with its channel, and
//!    stays on the loop once the channel is registered there. So every failure on the way (a
//!    refusal, a panic, a cancelled future) returns the loop to the pool.
//! 2. A loop returns itself to the pool when it has no channel and no registration left. Its remaining tasks and
//!    timers continue to run.
//! 3. `max_channels` limits the number of leases.
//! 4. Loops live until the group ends. A loop that ended by itself is removed from the pool, and is replaced in the
//!    group when another loop is needed.
//!
//! Any thread takes and returns leases, under one lock; no user code runs under the lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use waterwheel_executor::engine::{CommandAccess, attachment_of};
use waterwheel_executor::{BuildError, CommandSender, Error, ExecutorId};

use crate::event_loop::builder::{LoopBuildError, LoopOptions};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::LoopDraining;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LoopShutDown;

/// The error of a channel that exceeds the limit of a group with one loop for each channel.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("too many channels: the group has one loop for each channel, and its limit is {max}")]
pub struct TooManyChannels {
    /// The limit set by `max_channels`.
    pub max: usize,
}

/// The pool of loops of a group with one loop for each channel. It is attached to the group, which owns it; the loops
/// have weak references.
pub(crate) struct LoopPool {
    options: LoopOptions,
    max_leases: Option<usize>,
    state: Mutex<PoolState>,
}

/// The number of leased loops, and the idle ones.
#[derive(Default)]
struct PoolState {
    leased: usize,
    /// The idle loops, the last used one on top. Each is named by its sender, which does not keep the loop alive.
    idle: Vec<CommandSender<LoopCommand>>,
}

impl LoopPool {
    /// Creates the pool of a group that is about to be built.
    pub(crate) fn new(options: LoopOptions, max_leases: Option<usize>) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            let options = LoopOptions { loop_pool: Some(own.clone()), ..options };
            Self { options, max_leases, state: Mutex::default() }
        })
    }

    /// Returns the options that the loops are built with.
    pub(crate) fn options(&self) -> &LoopOptions {
        &self.options
    }

    /// Adds the loops that the group begins with.
    pub(crate) fn add_idle(&self, loops: impl Iterator<Item = EventLoop>) {
        self.lock().idle.extend(loops.map(|event_loop| event_loop.sender()));
    }

    /// Leases an idle loop of `group`, or a new one. `group` is the group that this pool is attached to.
    pub(crate) fn lease(self: &Arc<Self>, group: &EventLoopGroup) -> Result<LoopLease, Error> {
        let mut lease = match self.reserve_lease() {
            Ok(lease) => lease,
            Err(full) => return Err(refusal_error(group).unwrap_or_else(|| Error::new(full))),
        };
        loop {
            let Some(idle) = self.lock().idle.pop() else { break };
            let event_loop = EventLoop::new(idle.executor());
            if !event_loop.is_draining() && !event_loop.is_shutting_down() {
                lease.event_loop = Some(idle);
                return Ok(lease);
            }
        }
        match group.grow(|builder| self.options.build(builder)) {
            Ok(new) => lease.event_loop = Some(new.sender()),
            Err(LoopBuildError::Executor(BuildError::GroupClosed)) => {
                return Err(refusal_error(group).unwrap_or_else(|| Error::new(LoopShutDown)));
            }
            Err(error) => return Err(Error::new(error)),
        }
        Ok(lease)
    }

    /// Leases the loop with this id, if it is idle.
    pub(crate) fn lease_idle(
        self: &Arc<Self>,
        id: ExecutorId,
    ) -> Result<Option<LoopLease>, TooManyChannels> {
        let position = |state: &PoolState| state.idle.iter().position(|idle| idle.id() == id);
        if position(&self.lock()).is_none() {
            return Ok(None);
        }
        let mut lease = self.reserve_lease()?;
        let mut state = self.lock();
        lease.event_loop = position(&state).map(|position| state.idle.remove(position));
        drop(state);
        Ok(Some(lease).filter(|lease| lease.event_loop.is_some()))
    }

    fn reserve_lease(self: &Arc<Self>) -> Result<LoopLease, TooManyChannels> {
        let mut state = self.lock();
        match self.max_leases {
            Some(max) if state.leased >= max => Err(TooManyChannels { max }),
            _ => {
                state.leased += 1;
                Ok(LoopLease { pool: self.clone(), event_loop: None })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exclusive use of a loop for one channel. Dropping the lease returns the loop to the pool.
pub(crate) struct LoopLease {
    pool: Arc<LoopPool>,
    /// `None` until a loop is found; the lease counts against the limit from the start.
    event_loop: Option<CommandSender<LoopCommand>>,
}

impl LoopLease {
    /// Returns the leased loop.
    fn event_loop(&self) -> Option<EventLoop> {
        self.event_loop.as_ref().map(|event_loop| EventLoop::new(event_loop.executor()))
    }
}

impl Drop for LoopLease {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.leased -= 1;
        state
            .idle
            .extend(self.event_loop.take().filter(|event_loop| !event_loop.is_shutting_down()));
    }
}

/// Returns the error of a group that accepts no channels because it is shutting down or draining.
fn refusal_error(group: &EventLoopGroup) -> Option<Error> {
    if group.is_shutting_down() {
        Some(Error::new(LoopShutDown))
    } else if group.is_draining() {
        Some(Error::new(LoopDraining))
    } else {
        None
    }
}

impl EventLoopGroup {
    /// Returns a loop for a new channel: a leased one in a group with one loop for each channel, otherwise the next
    /// one. The lease, if any, is passed to the loop with the channel.
    ///
    /// # Errors
    /// The limit is reached ([`TooManyChannels`]), the group is shutting down or draining, or a new loop could not be
    /// built.
    pub(crate) fn loop_for_channel(&self) -> Result<(EventLoop, Option<LoopLease>), Error> {
        let Some(loop_pool) = self.loop_pool() else { return Ok((self.next(), None)) };
        let lease = loop_pool.lease(self)?;
        match lease.event_loop() {
            Some(event_loop) => Ok((event_loop, Some(lease))),
            None => unreachable!("LoopPool::lease returns a lease with a loop"),
        }
    }

    /// True if the group has one loop for each channel.
    pub(crate) fn is_per_channel(&self) -> bool {
        self.loop_pool().is_some()
    }

    fn loop_pool(&self) -> Option<Arc<LoopPool>> {
        attachment_of(self)?.clone().downcast().ok()
    }
}
