//! The event loop as its own thread sees it.
//!
//! This file holds the state of the loop, its start and its end; `driver_calls` the calls into the driver, `phases` the
//! parts of a turn.

mod driver_calls;
mod phases;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use waterwheel_executor::engine::run_as;
use waterwheel_executor::{CommandSender, Error, Nanos, Origin, UserCode};

use crate::base::metrics::LoopCounters;
use crate::driver::Driver;
use crate::event_loop::channel_layer::{HostedChannelSet, HostedChannels};
use crate::event_loop::command::LoopCommand;
use crate::event_loop::drain::loop_drain::CurrentDrain;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::loop_pool::{LoopLease, LoopPool};
use crate::event_loop::registrations::Registrations;
use crate::event_loop::tail_tasks::TailTasks;
use crate::futures::{LocalJoin, Sleepers, SpawnedFutures};

/// An event loop, on its own thread. Its calls act at once and need no queue, and its registrants, futures and
/// handlers need not be `Send`. Cheap to clone; not `Send`.
///
/// A `LocalLoop` does not keep the loop alive. Once the loop has ended, its calls fail.
/// Parameters of this type are called `here`.
#[derive(Clone)]
pub struct LocalLoop {
    parts: Rc<LocalLoopParts>,
}

/// The state that only the loop's thread uses. No part of it is borrowed while user code runs.
struct LocalLoopParts {
    /// `None` once the loop is closed.
    driver: RefCell<Option<Box<dyn Driver>>>,
    registrations: Registrations,
    channels: HostedChannelSet,
    drain: CurrentDrain,
    futures: SpawnedFutures,
    sleepers: Sleepers,
    tail_tasks: TailTasks,
    sender: CommandSender<LoopCommand>,
    counters: Arc<LoopCounters>,
    /// The pool and the current lease, in a group with one loop for each channel.
    loop_pool: Option<Weak<LoopPool>>,
    lease: RefCell<Option<LoopLease>>,
    /// True once the shutdown has begun: nothing can be registered any more.
    is_closing: Cell<bool>,
    /// True during a call to the driver's `wait`.
    is_waiting: Cell<bool>,
    /// When the wait of this turn has ended.
    turn_start: Cell<Nanos>,
    /// The panic that ended the loop.
    death_cause: RefCell<Option<Error>>,
    /// True if a rebuild of the selector was requested.
    rebuild_requested: Cell<bool>,
    /// The latest end of a wait, for a manual loop; otherwise `Nanos::MAX`.
    wait_limit: Cell<Nanos>,
}

/// The error of a call to a loop that is shutting down or has been shut down.
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
        counters: Arc<LoopCounters>,
        loop_pool: Option<Weak<LoopPool>>,
    ) -> Self {
        let parts = LocalLoopParts {
            driver: RefCell::new(Some(driver)),
            registrations: Registrations::default(),
            channels: HostedChannelSet::default(),
            drain: CurrentDrain::default(),
            futures: SpawnedFutures::default(),
            sleepers: Sleepers::default(),
            tail_tasks: TailTasks::default(),
            sender,
            counters,
            loop_pool,
            lease: RefCell::default(),
            is_closing: Cell::new(false),
            is_waiting: Cell::new(false),
            turn_start: Cell::new(Nanos(0)),
            death_cause: RefCell::default(),
            rebuild_requested: Cell::new(false),
            wait_limit: Cell::new(Nanos::MAX),
        };
        Self { parts: Rc::new(parts) }
    }

    /// Returns the loop that runs on the calling thread, if there is one.
    ///
    /// ```
    /// use waterwheel_channel::driver::TaskOnly;
    /// use waterwheel_channel::{EventLoopGroup, LocalLoop};
    ///
    /// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
    /// assert!(group.submit(|| LocalLoop::current().is_some())?.join()?);
    /// assert!(LocalLoop::current().is_none(), "this thread runs no loop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        let current = CURRENT.try_with(|current| current.borrow().clone()).ok().flatten();
        // None while a manual executor runs inside of one of the loop's callbacks.
        current.filter(|here| here.parts.sender.in_event_loop())
    }

    /// Calls `f` with the loop of `sender`, if it runs on the calling thread. Returns whether it does. `f` neither calls
    /// nor drops user code.
    #[inline]
    pub(crate) fn with_current(sender: &CommandSender<LoopCommand>, f: impl FnOnce(&Self)) -> bool {
        let call = |current: &RefCell<Option<Self>>| match &*current.borrow() {
            Some(here) if here.parts.sender.id() == sender.id() && sender.in_event_loop() => {
                f(here);
                true
            }
            _ => false,
        };
        CURRENT.try_with(call).unwrap_or(false)
    }

    /// Makes this the current loop of the thread until the guard is dropped.
    pub(crate) fn make_current(&self) -> CurrentLoopGuard {
        // The thread-local is already destroyed if a manual loop is itself in a thread-local and dropped with its
        // thread.
        let entered = CURRENT.try_with(|current| current.replace(Some(self.clone())));
        CurrentLoopGuard { previous: entered.ok().flatten() }
    }

    /// Returns a handle for other threads. It keeps the loop alive only as long as another handle does.
    #[must_use]
    pub fn handle(&self) -> EventLoop {
        EventLoop::new(self.parts.sender.executor())
    }

    /// Returns the current time of the loop's clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.parts.sender.clock().now()
    }

    /// Returns when the wait of this turn has ended, without reading the clock.
    #[inline]
    #[must_use]
    pub fn turn_start(&self) -> Nanos {
        self.parts.turn_start.get()
    }

    /// Runs a future on this loop. Neither the future nor its output need be `Send`. If the returned handle is
    /// dropped, the future continues to run.
    #[track_caller]
    pub fn spawn_local<F: Future + 'static>(&self, future: F) -> LocalJoin<F::Output> {
        self.parts.futures.spawn_local(self, Origin::here(), future)
    }

    /// Returns the loop's channels by the trait that the loop knows.
    #[inline]
    pub(super) fn hosted_channels(&self) -> &impl HostedChannels {
        &self.parts.channels
    }

    /// Returns the loop's channels by the type that the channel layer knows.
    #[inline]
    pub(crate) fn channel_set(&self) -> &HostedChannelSet {
        &self.parts.channels
    }

    pub(crate) fn current_drain(&self) -> &CurrentDrain {
        &self.parts.drain
    }

    /// True if the loop is shutting down, so that nothing can be registered any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.parts.is_closing.get() || self.parts.sender.is_shutting_down()
    }

    pub(crate) fn futures(&self) -> &SpawnedFutures {
        &self.parts.futures
    }

    pub(crate) fn tail_tasks(&self) -> &TailTasks {
        &self.parts.tail_tasks
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

    pub(crate) fn counters(&self) -> &Arc<LoopCounters> {
        &self.parts.counters
    }

    /// In a group with a loop per channel: leases this loop, if idle, for a channel that arrives without a lease.
    pub(crate) fn claim_lease(&self) -> Result<Option<LoopLease>, Error> {
        let Some(loop_pool) = self.parts.loop_pool.as_ref().and_then(Weak::upgrade) else {
            return Ok(None);
        };
        loop_pool.lease_idle(self.parts.sender.id()).map_err(Error::new)
    }

    /// Stores the lease of a channel that has arrived. If the channel failed to register, releases the lease at once.
    pub(crate) fn keep_lease(&self, lease: Option<LoopLease>) {
        if lease.is_some() {
            self.parts.lease.replace(lease);
            self.release_lease_if_unused();
        }
    }

    /// Returns the loop to its pool if it has no channel and no registration left.
    pub(crate) fn release_lease_if_unused(&self) {
        if self.parts.loop_pool.is_some() && !self.has_registrations_or_channels() {
            drop(self.parts.lease.take());
        }
    }

    pub(crate) fn registration_count(&self) -> usize {
        self.parts.registrations.len()
    }

    /// True if the loop has a registration or a channel, even one that is being detached or closed.
    pub(crate) fn has_registrations_or_channels(&self) -> bool {
        self.registration_count() > 0 || self.hosted_channels().count() > 0
    }

    /// Begins the shutdown: closes all channels and detaches all registrations. No more can be registered.
    pub(crate) fn begin_closing(&self) {
        if !self.parts.is_closing.replace(true) {
            self.cut_drain_short();
            self.hosted_channels().close_all(&Error::new(LoopShutDown));
            for token in self.parts.registrations.tokens_to_detach() {
                self.detach_with(token, Some(Error::new(LoopShutDown)));
            }
        }
    }

    /// Records the panic that ended the loop, as the close cause of everything that is still registered.
    pub(crate) fn set_death_cause(&self, cause: Error) {
        self.parts.death_cause.replace(Some(cause));
    }

    /// Returns the close cause of everything that is still registered when the loop ends.
    fn end_cause(&self) -> Error {
        self.parts.death_cause.borrow().clone().unwrap_or_else(|| Error::new(LoopShutDown))
    }

    /// Ends the loop: its channels, driver, registrations and futures, in this order. Tail tasks that arrived with the
    /// last commands were accepted, so they run first.
    pub(crate) fn close(&self) {
        self.parts.is_closing.set(true);
        self.cut_drain_short();
        self.parts.tail_tasks.run(&self.parts.sender);
        let cause = self.end_cause();
        self.hosted_channels().finish_all(&cause);
        let driver = self.parts.driver.borrow_mut().take();
        let origin = Origin::labelled("driver");
        let _ = run_as(UserCode::Destructor, origin, || drop(driver));
        self.parts.registrations.notify_all(self, &cause);
        self.parts.counters.set_registrations(0);
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

/// Restores the thread's previous current loop when dropped.
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
