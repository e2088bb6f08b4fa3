//! Groups with a loop and a thread for each channel: which loops are free (L13).
//!
//! ```text
//!            take: one that is idle, or a new one                    kept by the loop
//!   idle ──────────────────────────────────────────► LoopLease ──────────────────────────► channels,
//!     ▲                                                │ dropped unused                  registrations
//!     └────────────────────────────────────────────────┴──────────────────────────────── none left
//! ```
//!
//! Rules:
//! 1. A loop that was taken is nobody else's until its [`LoopLease`] is dropped. The lease travels with the
//!    channel that it was taken for, and stays with the loop once the channel has come there. So whatever
//!    goes wrong on the way, a refusal, a panic, a future that is cancelled, gives the loop back.
//! 2. A loop gives itself back when it has no channel and no registration any more. What tasks and timers it
//!    has left run on.
//! 3. The number of loop_pool is what is limited.
//! 4. Loops stay until the group ends. One that has ended by itself is forgotten here, and replaced in the
//!    group when another one is needed.
//!
//! Any thread takes and gives back, under one lock; nobody else's code runs meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use waterwheel_executor::engine::{CommandAccess, attachment_of};
use waterwheel_executor::{BuildError, CommandSender, Error, ExecutorId};

use crate::event_loop::builder::{LoopBuildError, LoopOptions};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::LoopDraining;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LoopShutDown;

/// A group with a loop for each channel has as many as it may.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("too many channels: the group has a loop for each, and {max} at most")]
pub struct TooManyChannels {
    /// How many it may have.
    pub max: usize,
}

/// The loops of a group with one for each channel. Attached to the group, which keeps it; the loops know it
/// weakly.
pub(crate) struct LoopPool {
    options: LoopOptions,
    max: Option<usize>,
    state: Mutex<Loops>,
}

/// How many are taken, and those that are not.
#[derive(Default)]
struct Loops {
    taken: usize,
    /// The one that was used last is taken first. They are known by their senders, which keep no loop from
    /// ending.
    idle: Vec<CommandSender<LoopCommand>>,
}

impl LoopPool {
    /// Of a group that is yet to be built.
    pub(crate) fn new(options: LoopOptions, max: Option<usize>) -> Arc<Self> {
        Arc::new_cyclic(|own: &Weak<Self>| {
            let options = LoopOptions { loop_pool: Some(own.clone()), ..options };
            Self { options, max, state: Mutex::default() }
        })
    }

    /// What its loops are built with.
    pub(crate) fn options(&self) -> &LoopOptions {
        &self.options
    }

    /// These are there from the start.
    pub(crate) fn open(&self, loops: impl Iterator<Item = EventLoop>) {
        self.lock().idle.extend(loops.map(|it| it.sender()));
    }

    /// Takes a loop of this group, its own.
    pub(crate) fn take(self: &Arc<Self>, group: &EventLoopGroup) -> Result<LoopLease, Error> {
        let mut lease = match self.count_one_more() {
            Ok(lease) => lease,
            Err(full) => return Err(ending(group).unwrap_or_else(|| Error::new(full))),
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
                return Err(ending(group).unwrap_or_else(|| Error::new(LoopShutDown)));
            }
            Err(error) => return Err(Error::new(error)),
        }
        Ok(lease)
    }

    /// Takes this very loop, if it is idle.
    pub(crate) fn claim(
        self: &Arc<Self>,
        id: ExecutorId,
    ) -> Result<Option<LoopLease>, TooManyChannels> {
        let at = |loops: &Loops| loops.idle.iter().position(|idle| idle.id() == id);
        if at(&self.lock()).is_none() {
            return Ok(None);
        }
        let mut lease = self.count_one_more()?;
        let mut loops = self.lock();
        lease.event_loop = at(&loops).map(|at| loops.idle.remove(at));
        drop(loops);
        Ok(Some(lease).filter(|lease| lease.event_loop.is_some()))
    }

    fn count_one_more(self: &Arc<Self>) -> Result<LoopLease, TooManyChannels> {
        let mut loops = self.lock();
        match self.max {
            Some(max) if loops.taken >= max => Err(TooManyChannels { max }),
            _ => {
                loops.taken += 1;
                Ok(LoopLease { loop_pool: self.clone(), event_loop: None })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Loops> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A loop that was taken for a channel. Dropped, it is free again.
pub(crate) struct LoopLease {
    loop_pool: Arc<LoopPool>,
    /// `None` until there is one: it is counted already.
    event_loop: Option<CommandSender<LoopCommand>>,
}

impl LoopLease {
    /// The loop.
    fn event_loop(&self) -> Option<EventLoop> {
        self.event_loop.as_ref().map(|it| EventLoop::new(it.executor()))
    }
}

impl Drop for LoopLease {
    fn drop(&mut self) {
        let mut loops = self.loop_pool.lock();
        loops.taken -= 1;
        loops.idle.extend(self.event_loop.take().filter(|it| !it.is_shutting_down()));
    }
}

/// Why a group takes no more channels, if it does not.
fn ending(group: &EventLoopGroup) -> Option<Error> {
    if group.is_shutting_down() {
        Some(Error::new(LoopShutDown))
    } else if group.is_draining() {
        Some(Error::new(LoopDraining))
    } else {
        None
    }
}

impl EventLoopGroup {
    /// Finds a loop for a channel: one of its own in a group that has one for each, otherwise the next one.
    /// The lease, if there is one, goes to the loop with the channel.
    ///
    /// # Errors
    /// There is none to be had: the limit is reached ([`TooManyChannels`]), the group is shutting down or
    /// draining, or a new one could not be built.
    pub(crate) fn find_loop(&self) -> Result<(EventLoop, Option<LoopLease>), Error> {
        let Some(loop_pool) = self.loop_pool() else { return Ok((self.next(), None)) };
        let lease = loop_pool.take(self)?;
        match lease.event_loop() {
            Some(event_loop) => Ok((event_loop, Some(lease))),
            None => unreachable!("it was taken"),
        }
    }

    /// Whether it has a loop for each channel.
    pub(crate) fn is_per_channel(&self) -> bool {
        self.loop_pool().is_some()
    }

    fn loop_pool(&self) -> Option<Arc<LoopPool>> {
        attachment_of(self)?.clone().downcast().ok()
    }
}
