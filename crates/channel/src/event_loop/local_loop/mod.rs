//! The loop as seen from its own thread.
//!
//! Here is what lives on it, and how it begins and ends; `attached` is what it does with sockets, `phases`
//! what its turns do.

mod driver_calls;
mod phases;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use waterwheel_executor::engine::run_as;
use waterwheel_executor::{CommandSender, Error, Nanos, Origin, UserCode};

use crate::driver::Driver;
use crate::event_loop::channel_layer::{HostedChannelSet, HostedChannels};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::loop_drain::CurrentDrain;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::loop_pool::{LoopLease, LoopPool};
use crate::event_loop::registrations::Registrations;
use crate::event_loop::tail_tasks::TailTasks;
use crate::futures::{LocalJoin, Sleepers, SpawnedFutures};
use crate::metrics::Counters;

/// An event loop, on its own thread: registers, reads and writes at once, and holds what need not be
/// `Send`. Cheap to clone; not `Send`.
///
/// It does not keep the loop alive. Once the loop has ended its calls fail.
#[derive(Clone)]
pub struct LocalLoop {
    parts: Rc<LocalLoopParts>,
}

/// What only the loop's thread touches. Nothing in here is borrowed while user code runs.
struct LocalLoopParts {
    /// `None` once it is closed.
    driver: RefCell<Option<Box<dyn Driver>>>,
    registrations: Registrations,
    channels: HostedChannelSet,
    drain: CurrentDrain,
    futures: SpawnedFutures,
    sleepers: Sleepers,
    tail: TailTasks,
    sender: CommandSender<LoopCommand>,
    counters: Arc<Counters>,
    /// Of a group with a loop for each channel, and what this one was taken by.
    loop_pool: Option<Weak<LoopPool>>,
    lease: RefCell<Option<LoopLease>>,
    /// Nothing is registered any more: the loop is shutting down.
    closing: Cell<bool>,
    /// The driver waits.
    waiting: Cell<bool>,
    /// The panic that the loop died of.
    death: RefCell<Option<Error>>,
    /// A rebuild was asked for.
    rebuild: Cell<bool>,
    /// No wait goes beyond this: of a loop that is driven by hand. Otherwise the end of time.
    wait_limit: Cell<Nanos>,
}

/// The loop was shut down, or is shutting down.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the event loop is shutting down")]
pub struct LoopShutDown;

thread_local! {
    static CURRENT: RefCell<Option<LocalLoop>> = const { RefCell::new(None) };
}

impl LocalLoop {
    pub(crate) fn new(
        driver: Box<dyn Driver>,
        sender: CommandSender<LoopCommand>,
        counters: Arc<Counters>,
        loop_pool: Option<Weak<LoopPool>>,
    ) -> Self {
        let parts = LocalLoopParts {
            driver: RefCell::new(Some(driver)),
            registrations: Registrations::default(),
            channels: HostedChannelSet::default(),
            drain: CurrentDrain::default(),
            futures: SpawnedFutures::default(),
            sleepers: Sleepers::default(),
            tail: TailTasks::default(),
            sender,
            counters,
            loop_pool,
            lease: RefCell::default(),
            closing: Cell::new(false),
            waiting: Cell::new(false),
            death: RefCell::default(),
            rebuild: Cell::new(false),
            wait_limit: Cell::new(Nanos::MAX),
        };
        Self { parts: Rc::new(parts) }
    }

    /// The loop that runs on this thread, if there is one.
    ///
    /// ```
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{EventLoopGroup, LocalLoop};
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
    /// assert!(group.submit(|| LocalLoop::current().is_some())?.join()?);
    /// assert!(LocalLoop::current().is_none(), "this thread is no loop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        let current = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
        // Not while an executor that is driven by hand runs in one of its callbacks.
        current.filter(|here| here.parts.sender.in_event_loop())
    }

    /// Makes it this thread's loop, until the guard goes.
    pub(crate) fn enter(&self) -> CurrentLoopGuard {
        // Gone, if a loop driven by hand is kept in a thread-local and dropped with its thread.
        let entered = CURRENT.try_with(|current| current.replace(Some(self.clone())));
        CurrentLoopGuard { previous: entered.ok().flatten() }
    }

    /// A handle, for other threads. It keeps the loop alive only if there is another one.
    #[must_use]
    pub fn handle(&self) -> EventLoop {
        EventLoop::new(self.parts.sender.executor())
    }

    /// The time, by the loop's clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.parts.sender.clock().now()
    }

    /// Runs a future on this loop. It need not be `Send`, nor what it gives. Dropping the handle lets
    /// it run on.
    #[track_caller]
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> LocalJoin<F::Output> {
        self.parts.futures.spawn_local(self, Origin::here(), future)
    }

    /// What the layer above keeps on this loop, as the loop knows it.
    #[inline]
    pub(super) fn hosted_channels(&self) -> &impl HostedChannels {
        &self.parts.channels
    }

    /// The same, as the layer above knows it.
    #[inline]
    pub(crate) fn channel_set(&self) -> &HostedChannelSet {
        &self.parts.channels
    }

    pub(crate) fn drain(&self) -> &CurrentDrain {
        &self.parts.drain
    }

    /// Whether nothing more is registered: the loop is shutting down.
    pub(crate) fn is_closing(&self) -> bool {
        self.parts.closing.get() || self.parts.sender.is_shutting_down()
    }

    pub(crate) fn futures(&self) -> &SpawnedFutures {
        &self.parts.futures
    }

    pub(crate) fn tail(&self) -> &TailTasks {
        &self.parts.tail
    }

    pub(crate) fn sleepers(&self) -> &Sleepers {
        &self.parts.sleepers
    }

    pub(crate) fn sender(&self) -> &CommandSender<LoopCommand> {
        &self.parts.sender
    }

    pub(crate) fn set_wait_limit(&self, limit: Option<Nanos>) {
        self.parts.wait_limit.set(limit.unwrap_or(Nanos::MAX));
    }

    pub(crate) fn wait_limit(&self) -> Nanos {
        self.parts.wait_limit.get()
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.parts.counters
    }

    /// Takes this loop for something that comes without having taken one, if it is idle.
    pub(crate) fn claim(&self) -> Result<Option<LoopLease>, Error> {
        let Some(loop_pool) = self.parts.loop_pool.as_ref().and_then(Weak::upgrade) else {
            return Ok(None);
        };
        loop_pool.claim(self.parts.sender.id()).map_err(Error::new)
    }

    /// What the loop was taken by is here, or has failed to be: then the loop is free again.
    pub(crate) fn keep(&self, lease: Option<LoopLease>) {
        if lease.is_some() {
            self.parts.lease.replace(lease);
            self.vacate();
        }
    }

    /// Gives the loop back to its group, if nothing is left here.
    pub(crate) fn vacate(&self) {
        if self.parts.loop_pool.is_some() && !self.is_populated() {
            drop(self.parts.lease.take());
        }
    }

    pub(crate) fn registrations(&self) -> usize {
        self.parts.registrations.len()
    }

    /// Whether something is still registered, or on its way out.
    pub(crate) fn is_populated(&self) -> bool {
        self.registrations() > 0 || self.hosted_channels().count() > 0
    }

    /// The shutdown has begun: whatever is registered goes, and nothing more is.
    pub(crate) fn begin_closing(&self) {
        if !self.parts.closing.replace(true) {
            self.cut_drain_short();
            self.hosted_channels().close_all(&Error::new(LoopShutDown));
            for token in self.parts.registrations.to_be_detached() {
                self.detach_with(token, Some(Error::new(LoopShutDown)));
            }
        }
    }

    /// The loop has died of this: all that are told of its end learn the cause.
    pub(crate) fn die(&self, cause: Error) {
        self.parts.death.replace(Some(cause));
    }

    /// Why the loop lets go of whatever is left on it.
    fn cause_of_end(&self) -> Error {
        self.parts.death.borrow().clone().unwrap_or_else(|| Error::new(LoopShutDown))
    }

    /// The loop is over: driver, registrations, futures, in this order. TailTasks tasks that came with the
    /// last commands run before: they were accepted.
    pub(crate) fn close(&self) {
        self.parts.closing.set(true);
        self.cut_drain_short();
        self.parts.tail.run(&self.parts.sender);
        let cause = self.cause_of_end();
        self.hosted_channels().end_all(&cause);
        let driver = self.parts.driver.borrow_mut().take();
        let origin = Origin::labelled("driver");
        let _ = run_as(UserCode::Destructor, origin, || drop(driver));
        self.parts.registrations.finish_all(self, &cause);
        self.parts.counters.registrations(0);
        self.parts.futures.close();
        self.parts.sleepers.close();
        drop(self.parts.lease.take());
    }
}

impl fmt::Debug for LocalLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalLoop").field(&self.parts.sender).finish()
    }
}

/// The thread's previous loop comes back when it is dropped.
#[must_use = "leaving happens when it is dropped"]
#[derive(Debug)]
pub(crate) struct CurrentLoopGuard {
    previous: Option<LocalLoop>,
}

impl Drop for CurrentLoopGuard {
    fn drop(&mut self) {
        let previous = self.previous.take();
        let left = CURRENT.try_with(|current| current.replace(previous));
        drop(left); // Outside of the borrow: destructors may ask for the current loop.
    }
}
