//! The handle of a pool.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::{AddressSpec, Bootstrap, Drained};
use waterwheel_executor::PromiseFuture;

use crate::acquire::{Acquire, Waiter};
use crate::builder::ChannelPoolBuilder;
use crate::error::PoolError;
use crate::lease::Lease;
use crate::metrics::{PoolCounts, PoolMetrics};
use crate::shared::{ChannelPoolShared, PendingClose};

/// A pool of client connections, by address and event loop. See the [crate's page](crate) for the rules.
///
/// This is a handle: cheap to clone, usable from any thread. It keeps its loops alive, as the
/// [`Bootstrap`] does that it was built from. Dropping the last handle closes the pool.
#[derive(Clone)]
pub struct ChannelPool {
    shared: Arc<ChannelPoolShared>,
    acquire_timeout: Option<Duration>,
}

impl ChannelPool {
    /// Returns a builder for a pool whose connections this bootstrap opens.
    pub fn builder(bootstrap: Bootstrap) -> ChannelPoolBuilder {
        ChannelPoolBuilder::new(bootstrap)
    }

    pub(crate) fn new(shared: Arc<ChannelPoolShared>, acquire_timeout: Option<Duration>) -> Self {
        Self { shared, acquire_timeout }
    }

    /// Acquires a connection: an idle one, one that is given back or arrives meanwhile, or a new one. Waits for at most
    /// the pool's [`acquire_timeout`](ChannelPoolBuilder::acquire_timeout).
    ///
    /// The future fails with a [`PoolError`], wrapped.
    pub fn acquire(&self, to: impl Into<AddressSpec>) -> Acquire {
        self.acquire_with(to.into(), self.acquire_timeout)
    }

    /// Acquires a connection as [`acquire`](Self::acquire) does, but waits for at most `limit`.
    pub fn acquire_within(&self, to: impl Into<AddressSpec>, limit: Duration) -> Acquire {
        self.acquire_with(to.into(), Some(limit))
    }

    /// Acquires an idle connection that needs neither a check nor a hook; `None` if there is none, or if other acquires
    /// wait.
    ///
    /// # Errors
    /// [`PoolError::Closed`].
    pub fn try_acquire(&self, to: impl Into<AddressSpec>) -> Result<Option<Lease>, PoolError> {
        if self.shared.hooks.acquired.is_some() {
            return Ok(None);
        }
        let (to, from, now) = (to.into(), self.shared.current_loop(), self.shared.clock.now());
        let taken =
            self.shared.change(|core, actions| core.try_acquire(&to, from, now, actions))?;
        Ok(taken.map(|connection| self.shared.new_lease(connection)))
    }

    fn acquire_with(&self, to: AddressSpec, limit: Option<Duration>) -> Acquire {
        match self.try_acquire(to.clone()) {
            Ok(Some(lease)) => return Acquire::served(lease),
            Err(error) => return Acquire::refused(error),
            Ok(None) => {}
        }
        let (address, ticket) = (Arc::new(to), self.shared.next_ticket());
        let (from, began) = (self.shared.current_loop(), self.shared.clock.now());
        let at = self.shared.event_loop(from);
        let (mut promise, future) = at.new_promise();
        let deadline = match limit {
            None => None,
            Some(limit) => match at.schedule(limit, || ()) {
                Ok(timer) => {
                    let canceller = timer.canceller();
                    let (pool, address) = (Arc::downgrade(&self.shared), address.clone());
                    timer.on_complete(move |outcome| {
                        if let Some(pool) = pool.upgrade() {
                            pool.end_wait(&address, ticket, outcome.is_ok());
                        }
                    });
                    Some(canceller)
                }
                Err(_) => return Acquire::refused(PoolError::LoopEnded { address }),
            },
        };
        let (pool, cancelled) = (Arc::downgrade(&self.shared), address.clone());
        promise.on_cancel(move || {
            if let Some(pool) = pool.upgrade() {
                pool.cancel(&cancelled, ticket);
            }
        });
        let until = limit.map(|limit| began.plus(limit));
        let waiter = Waiter { promise, address, ticket, event_loop: from, deadline, began, until };
        self.shared.enqueue(waiter);
        Acquire::waiting(future)
    }

    /// Opens connections to an address until the [minimum of idle ones](ChannelPoolBuilder::min_idle) is reached, and
    /// keeps it from now on. The first acquire does the same.
    pub fn warm_up(&self, to: impl Into<AddressSpec>) {
        let address = Arc::new(to.into());
        self.shared.change(|core, actions| core.warm_up(&address, actions));
    }

    /// Closes the idle connections to an address now, and those in use or being opened when they are given back. Later
    /// acquires open new ones. For an address that has failed over, or is not used any more.
    pub fn retire(&self, to: impl Into<AddressSpec>) {
        let address = to.into();
        self.shared.change(|core, actions| core.retire_address(&address, actions));
    }

    /// Closes the pool: acquires fail from now on, also those that wait; idle connections are closed, connects are given
    /// up, and leased connections are closed when they are given back. The future completes when the last connection is
    /// closed.
    #[track_caller]
    pub fn close(&self) -> PromiseFuture<()> {
        let (promise, future) = self.shared.event_loop(self.shared.current_loop()).new_promise();
        let close = PendingClose { promise, pool: self.shared.clone() };
        self.shared.lock().closes.push(close);
        self.shared.change(|core, actions| core.close(actions));
        future
    }

    /// Closes the pool as [`close`](Self::close) does, and closes the connections that are still leased after `limit`.
    /// The future completes when the last connection is closed, with the number of those.
    #[track_caller]
    pub fn drain(&self, limit: Duration) -> PromiseFuture<Drained> {
        let forced = Arc::new(AtomicUsize::new(0));
        let deadline = self.shared.clock.now().plus(limit);
        let timer = self.shared.close_leased_at(deadline, forced.clone());
        self.close().map(move |()| {
            timer.map(|timer| timer.cancel());
            match forced.load(Ordering::Relaxed) {
                0 => Drained::Complete,
                channels => Drained::DeadlineReached { channels },
            }
        })
    }

    /// True once the pool is closed or being closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().core.is_closed()
    }

    /// Returns a snapshot of the pool's counters.
    #[must_use]
    pub fn metrics(&self) -> PoolMetrics {
        self.shared.lock().core.metrics()
    }

    /// Returns the connections and waiting acquires of one address.
    #[must_use]
    pub fn counts(&self, of: impl Into<AddressSpec>) -> PoolCounts {
        let address = of.into();
        self.shared.lock().core.counts_of(&address)
    }
}

impl fmt::Debug for ChannelPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelPool({})", self.metrics().now)
    }
}
