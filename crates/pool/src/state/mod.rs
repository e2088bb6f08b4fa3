//! The state of a pool: which connections there are, in which stage, and who waits. A plain value: no channel, clock,
//! lock or user code. The pool calls it under its lock, and afterwards performs the [`PoolAction`]s it asked for.
//!
//! ```text
//!             connect            prepared             acquire, or a waiting one
//!   (room) ──► Connecting ──► Preparing ──► Idle ◄──────────────────────────► Leased
//!                  │              │          │ ▲                                │
//!                  │              │   check  ▼ │ healthy                        │
//!                  │              │        Checking                             │
//!                  │ failed       │ failed     │ failed        broken, discarded │
//!                  ▼              ▼            ▼                                ▼
//!                gone ◄───────────────────── Closing ◄──────────────────────────┘
//! ```
//!
//! Rules:
//! 1. A connection that becomes ready goes to the acquire that waits longest for its address, whoever it was opened
//!    for; only if none waits does it become idle.
//! 2. Connections are opened or checked until as many are *arriving* (connecting, preparing, checking) as acquires wait,
//!    or until the limits are reached. A waiting acquire beyond that is *uncovered*; the limits of waiting acquires
//!    count those.
//! 3. A connect that fails takes the oldest waiting acquire with it, unless as many others are arriving as wait. The
//!    next uncovered acquire gets the room: a failure costs one acquire, and never keeps the others waiting.
//! 4. A connection counts as open from the decision to connect until its close is notified, whoever closes it.
//! 5. Under the total limit room goes to the acquire that waits longest, of any address. If there is no room, the
//!    connection that is idle longest is evicted.

mod address_state;
mod connection;
#[cfg(test)]
mod costs;
mod decisions;
mod events;
mod idle_list;
#[cfg(test)]
mod properties;
mod stages;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::{AddressSpec, Slab, Token};
use waterwheel_executor::{Canceller, Nanos};

use self::address_state::{AddressState, WaitingAcquire};
pub(crate) use self::connection::{ConnectionStage, PooledHandle};
use self::connection::{PoolEntry, StageCounts};
use self::idle_list::IdleList;
use crate::error::PoolError;
use crate::metrics::{PoolCloseReason, PoolCounts, PoolMetrics};
use crate::options::PoolLimits;

/// Something for the pool to do after it has released its lock.
pub(crate) enum PoolAction<C, W> {
    Connect {
        id: Token,
        address: Arc<AddressSpec>,
        /// The index of the loop to connect on; `None` for any.
        event_loop: Option<usize>,
    },
    Check {
        id: Token,
        connection: C,
    },
    Deliver {
        waiter: W,
        connection: C,
    },
    Close(C),
    /// Drops the handle of a connection that is gone: it may be the last one, and drops values of users then.
    Forget(C),
    CancelConnect(Canceller),
    /// Fails an acquire with the error of the connect that has just failed.
    Fail(W),
    FailClosed(W),
    /// Calls [`PoolCore::retry`] after a delay.
    RetryLater {
        address: Arc<AddressSpec>,
        delay: Duration,
    },
    /// The pool is closed and its last connection is gone.
    Emptied,
}

/// The actions of one call. Empty in the steady state, and then without an allocation.
pub(crate) type PoolActions<C, W> = Vec<PoolAction<C, W>>;

/// The fate of a connection that has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadyOutcome {
    Idle,
    /// Handed to an acquire that waited, or closed.
    NotIdle,
}

/// The result of an acquire that could not be served at once.
pub(crate) enum EnqueueOutcome<C, W> {
    /// A connection has become idle meanwhile.
    Served {
        connection: C,
        waiter: W,
    },
    Queued,
    Refused {
        error: PoolError,
        waiter: W,
    },
}

pub(crate) struct PoolCore<C, W> {
    limits: PoolLimits,
    /// The number of loops that the pool knows.
    loops: usize,
    addresses: Slab<AddressState<W>>,
    by_address: HashMap<Arc<AddressSpec>, Token>,
    connections: Slab<PoolEntry<C>>,
    stages: StageCounts,
    /// Under a total limit: idle connections of all addresses, least recently used first.
    idle: IdleList,
    /// Under a total limit: addresses with uncovered acquires that only the total limit keeps waiting, by the ticket of
    /// the oldest.
    need_room: BTreeMap<u64, Token>,
    uses: u64,
    waiting: usize,
    uncovered: usize,
    counters: PoolMetrics,
    is_closed: bool,
}

impl<C: PooledHandle, W> PoolCore<C, W> {
    pub(crate) fn new(limits: PoolLimits, loops: usize) -> Self {
        Self {
            limits,
            loops,
            addresses: Slab::default(),
            by_address: HashMap::new(),
            connections: Slab::default(),
            stages: StageCounts::default(),
            idle: IdleList::default(),
            need_room: BTreeMap::new(),
            uses: 0,
            waiting: 0,
            uncovered: 0,
            counters: PoolMetrics::default(),
            is_closed: false,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Leases an idle connection that needs no check, if no acquire waits.
    pub(crate) fn try_acquire(
        &mut self,
        address: &AddressSpec,
        from: Option<usize>,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> Result<Option<C>, PoolError> {
        if self.is_closed {
            return Err(PoolError::Closed);
        }
        let Some(&key) = self.by_address.get(address) else { return Ok(None) };
        let taken = self.lease_idle(key, from, now, actions);
        self.settle(key, actions);
        Ok(taken)
    }

    /// Queues an acquire. `ticket` is larger than those of earlier acquires, or about to be: order is by ticket.
    pub(crate) fn enqueue(
        &mut self,
        address: &Arc<AddressSpec>,
        (from, ticket): (Option<usize>, u64),
        waiter: W,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> EnqueueOutcome<C, W> {
        if self.is_closed {
            return EnqueueOutcome::Refused { error: PoolError::Closed, waiter };
        }
        let key = self.address_of(address);
        if let Some(connection) = self.lease_idle(key, from, now, actions) {
            self.settle(key, actions);
            return EnqueueOutcome::Served { connection, waiter };
        }
        if let Err(error) = self.check_waiting_limits(key) {
            self.counters.acquires_refused += 1;
            self.settle(key, actions);
            return EnqueueOutcome::Refused { error, waiter };
        }
        if let Some(state) = self.addresses.get_mut(key) {
            state.waiting.insert(ticket, WaitingAcquire { waiter, event_loop: from });
            // An address that was retired is in use again.
            state.is_stocked = true;
            self.waiting += 1;
        }
        self.cover(key, from, now, actions);
        self.settle(key, actions);
        EnqueueOutcome::Queued
    }

    /// Removes an acquire that was given up, if it still waits.
    pub(crate) fn cancel(
        &mut self,
        address: &AddressSpec,
        ticket: u64,
        actions: &mut PoolActions<C, W>,
    ) -> Option<W> {
        let key = *self.by_address.get(address)?;
        let cancelled = self.addresses.get_mut(key)?.waiting.remove(&ticket)?;
        self.waiting -= 1;
        self.settle(key, actions);
        Some(cancelled.waiter)
    }

    /// Removes an acquire whose time is over, if it still waits, and returns the state of its address before.
    pub(crate) fn time_out(
        &mut self,
        address: &AddressSpec,
        ticket: u64,
        actions: &mut PoolActions<C, W>,
    ) -> Option<(W, PoolCounts)> {
        let counts = self.counts_of(address);
        let waiter = self.cancel(address, ticket, actions)?;
        self.counters.acquire_timeouts += 1;
        Some((waiter, counts))
    }

    /// Keeps the minimum of idle connections for an address from now on, even if nothing was acquired yet.
    pub(crate) fn warm_up(&mut self, address: &Arc<AddressSpec>, actions: &mut PoolActions<C, W>) {
        if self.is_closed {
            return;
        }
        let key = self.address_of(address);
        if let Some(state) = self.addresses.get_mut(key) {
            state.is_stocked = true;
        }
        self.settle(key, actions);
    }

    /// Ends the pause after a failed connect.
    pub(crate) fn retry(&mut self, address: &AddressSpec, actions: &mut PoolActions<C, W>) {
        let Some(&key) = self.by_address.get(address) else { return };
        if let Some(state) = self.addresses.get_mut(key) {
            state.is_backing_off = false;
        }
        self.settle(key, actions);
    }

    /// Closes the idle connections of an address now and its others when they are given back.
    pub(crate) fn retire_address(
        &mut self,
        address: &AddressSpec,
        actions: &mut PoolActions<C, W>,
    ) {
        let Some(&key) = self.by_address.get(address) else { return };
        if let Some(state) = self.addresses.get_mut(key) {
            state.is_stocked = false;
            state.is_backing_off = false;
        }
        let is_its = |id: &Token| self.connections.get(*id).is_some_and(|it| it.address == key);
        let all: Vec<_> = self.connections.tokens().filter(is_its).collect();
        for id in all {
            self.retire_entry(id, PoolCloseReason::Retired, actions);
        }
        self.settle(key, actions);
    }

    /// Closes the pool: fails waiting acquires, closes what is idle, gives up connects. Leased connections are closed
    /// when they are given back.
    pub(crate) fn close(&mut self, actions: &mut PoolActions<C, W>) {
        self.is_closed = true;
        for id in self.connections.tokens().collect::<Vec<_>>() {
            let Some(entry) = self.connections.get_mut(id) else { continue };
            actions.extend(entry.canceller.take().map(PoolAction::CancelConnect));
            match entry.stage {
                ConnectionStage::Connecting | ConnectionStage::Leased => {
                    entry.retired.get_or_insert(PoolCloseReason::PoolClosed);
                }
                ConnectionStage::Closing => {}
                _ => self.begin_close(id, PoolCloseReason::PoolClosed, actions),
            }
        }
        let keys: Vec<_> = self.addresses.tokens().collect();
        for key in keys {
            if let Some(state) = self.addresses.get_mut(key) {
                state.is_backing_off = false;
                let waiting = std::mem::take(&mut state.waiting);
                self.waiting -= waiting.len();
                let fail = |(_, acquire): (u64, WaitingAcquire<W>)| acquire.waiter;
                actions.extend(waiting.into_iter().map(fail).map(PoolAction::FailClosed));
            }
            self.settle(key, actions);
        }
        if self.stages.open() == 0 {
            actions.push(PoolAction::Emptied);
        }
    }

    /// Closes all leased connections, and returns their number: for a drain whose time is over.
    pub(crate) fn close_leased(&mut self, actions: &mut PoolActions<C, W>) -> usize {
        let all: Vec<_> = self.connections.tokens().collect();
        let mut closed = 0;
        for id in all {
            let Some(entry) = self.connections.get(id) else { continue };
            if entry.stage == ConnectionStage::Leased {
                closed += 1;
                self.begin_close(id, PoolCloseReason::PoolClosed, actions);
            }
        }
        closed
    }

    /// Returns the counts of an address.
    pub(crate) fn counts_of(&self, address: &AddressSpec) -> PoolCounts {
        let key = self.by_address.get(address);
        let state = key.and_then(|key| self.addresses.get(*key));
        state.map_or_else(PoolCounts::default, |state| counts(&state.stages, state.waiting.len()))
    }

    pub(crate) fn metrics(&self) -> PoolMetrics {
        let now = counts(&self.stages, self.waiting);
        PoolMetrics { now, addresses: self.addresses.len(), ..self.counters }
    }
}

fn counts(stages: &StageCounts, waiting: usize) -> PoolCounts {
    use ConnectionStage::{Checking, Closing, Connecting, Idle, Leased, Preparing};
    PoolCounts {
        open: stages.open(),
        idle: stages.of(Idle),
        leased: stages.of(Leased),
        connecting: stages.of(Connecting) + stages.of(Preparing),
        checking: stages.of(Checking),
        closing: stages.of(Closing),
        waiting,
    }
}
