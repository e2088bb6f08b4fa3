//! The part of a pool that its handles, channels and leases share: the lock, and what is done after it is released.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel_channel::{AddressSpec, Bootstrap, EventLoop, Hold, Token};
use waterwheel_executor::{Clock, ExecutorId, Nanos, Promise};

use crate::acquire::Waiter;
use crate::error::PoolError;
use crate::hooks::{PoolHooks, call_pipeline_hook};
use crate::lease::Lease;
use crate::metrics::PoolCloseReason;
use crate::pooled_channel::PooledChannel;
use crate::state::{EnqueueOutcome, PoolAction, PoolActions, PoolCore, ReadyOutcome};
use crate::watch::WatchTimes;

pub(crate) type Actions = PoolActions<Arc<PooledChannel>, Waiter>;

/// The shared half of a pool.
///
/// Any thread may take the lock: those that acquire and give back, and the loops of the connections. It is held for one
/// change of the state ([`PoolCore`]), which is longer only when a pool or an address is closed. Nothing
/// of the user's is called or dropped under it; changes return actions, which are performed afterwards.
/// There is no other synchronisation than this lock, the flag of [`PooledChannel`] and the executor's promises.
///
/// Handles own this value; channels, leases, timers and hooks refer to it weakly. When the last handle is dropped, the
/// pool is closed.
pub(crate) struct ChannelPoolShared {
    locked: Mutex<LockedPool>,
    /// Connects on any loop.
    bootstrap: Bootstrap,
    /// The loops of the bootstrap and a bootstrap for each; empty if each channel has a loop of its own.
    loops: Vec<(EventLoop, Bootstrap)>,
    pub(crate) loop_index: HashMap<ExecutorId, usize>,
    pub(crate) clock: Clock,
    pub(crate) hooks: PoolHooks,
    pub(crate) times: WatchTimes,
    /// The name of the handler before the pool's; `None` for the transport.
    pub(crate) watch_after: Option<Arc<str>>,
    holds_drain: bool,
    tickets: AtomicU64,
}

pub(crate) struct LockedPool {
    pub(crate) core: PoolCore<Arc<PooledChannel>, Waiter>,
    /// Closes that wait until the last connection is gone. They keep the pool until then, for its state.
    pub(crate) closes: Vec<PendingClose>,
}

pub(crate) struct PendingClose {
    pub(crate) promise: Promise<()>,
    pub(crate) pool: Arc<ChannelPoolShared>,
}

/// The settings of a pool beside its limits.
pub(crate) struct PoolParts {
    pub(crate) bootstrap: Bootstrap,
    pub(crate) loops: Vec<(EventLoop, Bootstrap)>,
    pub(crate) clock: Clock,
    pub(crate) hooks: PoolHooks,
    pub(crate) times: WatchTimes,
    /// The name of the handler before the pool's; `None` for the transport.
    pub(crate) watch_after: Option<Arc<str>>,
    pub(crate) holds_drain: bool,
}

impl ChannelPoolShared {
    pub(crate) fn new(core: PoolCore<Arc<PooledChannel>, Waiter>, parts: PoolParts) -> Arc<Self> {
        let PoolParts { bootstrap, loops, clock, hooks, times, watch_after, holds_drain } = parts;
        let index = |(index, (at, _)): (usize, &(EventLoop, Bootstrap))| (at.id(), index);
        Arc::new(Self {
            locked: Mutex::new(LockedPool { core, closes: Vec::new() }),
            loop_index: loops.iter().enumerate().map(index).collect(),
            bootstrap,
            loops,
            clock,
            hooks,
            times,
            watch_after,
            holds_drain,
            tickets: AtomicU64::new(0),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LockedPool> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then performs the actions.
    pub(crate) fn change<R>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut PoolCore<Arc<PooledChannel>, Waiter>, &mut Actions) -> R,
    ) -> R {
        self.change_for(None, change)
    }

    /// Changes the state because a connect has failed; acquires among the actions fail with `failure`.
    pub(crate) fn change_for<R>(
        self: &Arc<Self>,
        failure: Option<&PoolError>,
        change: impl FnOnce(&mut PoolCore<Arc<PooledChannel>, Waiter>, &mut Actions) -> R,
    ) -> R {
        let mut actions = Vec::new();
        let result = change(&mut self.lock().core, &mut actions);
        for action in actions {
            self.perform(action, failure);
        }
        result
    }

    fn perform(
        self: &Arc<Self>,
        action: PoolAction<Arc<PooledChannel>, Waiter>,
        failure: Option<&PoolError>,
    ) {
        match action {
            PoolAction::Connect { id, address, event_loop } => {
                self.connect(id, address, event_loop)
            }
            PoolAction::Check { id, connection } => self.check(id, &connection),
            PoolAction::Deliver { waiter, connection } => self.deliver(waiter, connection),
            PoolAction::Close(connection) => connection.channel.close_without_future(),
            PoolAction::Forget(connection) => drop(connection),
            PoolAction::CancelConnect(connect) => _ = connect.cancel(),
            PoolAction::Fail(waiter) => {
                let failure = failure.cloned().unwrap_or(PoolError::Closed);
                waiter.complete(Err(failure));
            }
            PoolAction::FailClosed(waiter) => waiter.complete(Err(PoolError::Closed)),
            PoolAction::RetryLater { address, delay } => self.retry_later(address, delay),
            PoolAction::Emptied => {
                let closes = std::mem::take(&mut self.lock().closes);
                for PendingClose { promise, pool } in closes {
                    promise.set_success(());
                    drop(pool);
                }
            }
        }
    }

    // Loops.

    /// Returns the index of the calling thread's loop, if it is one of the pool's.
    pub(crate) fn current_loop(&self) -> Option<usize> {
        let current = EventLoop::current()?;
        self.loop_index.get(&current.id()).copied()
    }

    /// Returns a loop for promises and timers: the given one, or the next one that is not shutting down.
    pub(crate) fn event_loop(&self, index: Option<usize>) -> EventLoop {
        let next = match index.and_then(|index| self.loops.get(index)) {
            Some((event_loop, _)) => event_loop.clone(),
            None => self.bootstrap.loops().next(),
        };
        if !next.is_shutting_down() {
            return next;
        }
        let running = self.loops.iter().find(|(event_loop, _)| !event_loop.is_shutting_down());
        running.map_or(next, |(event_loop, _)| event_loop.clone())
    }

    /// Returns the bootstrap to connect with: on the wanted loop, or on the next one that takes new channels.
    pub(crate) fn bootstrap_for(&self, wanted: Option<usize>) -> &Bootstrap {
        let is_accepting = |at: &EventLoop| !at.is_shutting_down() && !at.is_draining();
        if let Some((event_loop, bootstrap)) = wanted.and_then(|index| self.loops.get(index))
            && is_accepting(event_loop)
        {
            return bootstrap;
        }
        let picks = (0..self.loops.len()).map(|_| self.bootstrap.loops().next().id());
        let mut picked = picks.filter_map(|id| self.loops.get(*self.loop_index.get(&id)?));
        let any = || self.loops.iter().find(|(event_loop, _)| is_accepting(event_loop));
        let found = picked.find(|(event_loop, _)| is_accepting(event_loop)).or_else(any);
        found.map_or(&self.bootstrap, |(_, bootstrap)| bootstrap)
    }

    // Acquires.

    /// Returns a new place in the order of acquires.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues an acquire, or serves or refuses it at once.
    pub(crate) fn enqueue(self: &Arc<Self>, waiter: Waiter) {
        let (address, now) = (waiter.address.clone(), self.clock.now());
        let place = (waiter.event_loop, waiter.ticket);
        // One that is dropped later finds itself in the queue.
        let outcome = self.change(|core, actions| match waiter.promise.is_cancelled() {
            true => Err(waiter),
            false => Ok(core.enqueue(&address, place, waiter, now, actions)),
        });
        match outcome {
            Ok(EnqueueOutcome::Queued) => {}
            Ok(EnqueueOutcome::Served { connection, waiter }) => self.deliver(waiter, connection),
            Ok(EnqueueOutcome::Refused { error, waiter }) => waiter.complete(Err(error)),
            Err(cancelled) => cancelled.stop_timer(),
        }
    }

    /// Removes an acquire that was cancelled.
    pub(crate) fn cancel(self: &Arc<Self>, address: &AddressSpec, ticket: u64) {
        let cancelled = self.change(|core, actions| core.cancel(address, ticket, actions));
        if let Some(waiter) = cancelled {
            waiter.stop_timer();
        }
    }

    /// Fails an acquire whose deadline has come, or whose loop has ended and with it the timer.
    pub(crate) fn end_wait(
        self: &Arc<Self>,
        address: &Arc<AddressSpec>,
        ticket: u64,
        is_due: bool,
    ) {
        let address = address.clone();
        if !is_due {
            let lost = self.change(|core, actions| core.cancel(&address, ticket, actions));
            if let Some(waiter) = lost {
                waiter.complete(Err(PoolError::LoopEnded { address }));
            }
            return;
        }
        let overdue = self.change(|core, actions| core.time_out(&address, ticket, actions));
        if let Some((waiter, counts)) = overdue {
            let waited = self.clock.now().since(waiter.began);
            waiter.complete(Err(PoolError::TimedOut { address, waited, counts }));
        }
    }

    /// Hands a connection to an acquire, after the hook for it.
    pub(crate) fn deliver(self: &Arc<Self>, waiter: Waiter, connection: Arc<PooledChannel>) {
        let lease = self.new_lease(connection);
        let Some(hook) = &self.hooks.acquired else { return waiter.complete(Ok(lease)) };
        let (channel, pool) = (lease.clone(), Arc::downgrade(self));
        call_pipeline_hook(hook, &channel, move |outcome| {
            let (cause, was_called) = match outcome {
                Ok(Ok(())) => return waiter.complete(Ok(lease)),
                Ok(Err(cause)) => (cause, true),
                // After a panic of the hook the promise was dropped, which is no closed channel.
                Err(cause) => (cause.clone(), !cause.is_closed()),
            };
            lease.discard();
            match pool.upgrade() {
                // The acquire waits again, at its place in the order.
                Some(pool) if !was_called => pool.requeue(waiter),
                _ => {
                    let address = waiter.address.clone();
                    waiter.complete(Err(PoolError::AcquireHook { address, cause }));
                }
            }
        });
    }

    /// Queues an acquire again. It may have been dropped, and its timer may have fired, while it was not in the queue.
    fn requeue(self: &Arc<Self>, waiter: Waiter) {
        let (address, ticket, until) = (waiter.address.clone(), waiter.ticket, waiter.until);
        self.enqueue(waiter);
        if until.is_some_and(|until| until <= self.clock.now()) {
            self.end_wait(&address, ticket, true);
        }
    }

    pub(crate) fn new_lease(&self, connection: Arc<PooledChannel>) -> Lease {
        Lease::new(connection, self.holds_drain)
    }

    // Leases.

    pub(crate) fn give_back(
        self: &Arc<Self>,
        connection: Arc<PooledChannel>,
        hold: Option<Hold>,
        is_reusable: bool,
    ) {
        let id = connection.id;
        match &self.hooks.released {
            _ if !is_reusable => self.discard(id, PoolCloseReason::Discarded),
            None => self.make_ready(&connection),
            Some(hook) => {
                let channel = connection.channel.clone();
                call_pipeline_hook(hook, &channel, move |outcome| {
                    match (connection.pool.upgrade(), outcome.flatten()) {
                        (Some(pool), Ok(())) => pool.make_ready(&connection),
                        (Some(pool), Err(_)) => pool.discard(id, PoolCloseReason::HookFailed),
                        (None, _) => connection.channel.close_without_future(),
                    }
                    drop(hold);
                });
            }
        }
    }

    pub(crate) fn take_out(self: &Arc<Self>, id: Token) {
        let now = self.clock.now();
        self.change(|core, actions| core.take_out(id, now, actions));
    }

    fn discard(self: &Arc<Self>, id: Token, reason: PoolCloseReason) {
        self.change(|core, actions| core.discard(id, reason, actions));
    }

    pub(crate) fn make_ready(self: &Arc<Self>, connection: &PooledChannel) {
        let now = self.clock.now();
        let outcome = self.change(|core, actions| core.ready(connection.id, now, actions));
        if outcome == ReadyOutcome::Idle && !connection.channel.is_auto_read() {
            // Something unread, or the end of the stream, would not be noticed otherwise.
            connection.channel.read();
        }
    }

    // Calls of the handler.

    pub(crate) fn retire(self: &Arc<Self>, id: Token, reason: PoolCloseReason) {
        self.change(|core, actions| core.retire(id, reason, actions));
    }

    pub(crate) fn read_while_idle(self: &Arc<Self>, id: Token) -> bool {
        self.change(|core, actions| core.read_while_idle(id, actions))
    }

    pub(crate) fn expire_idle(self: &Arc<Self>, id: Token, now: Nanos) -> Option<Duration> {
        self.change(|core, actions| core.expire_idle(id, now, actions))
    }

    pub(crate) fn check_idle(
        self: &Arc<Self>,
        id: Token,
        interval: Duration,
        now: Nanos,
    ) -> Option<Duration> {
        self.change(|core, actions| core.check_idle(id, interval, now, actions))
    }
}

impl Drop for ChannelPoolShared {
    /// Closes the pool. Leases find it gone and close their channels when they are dropped.
    fn drop(&mut self) {
        let locked = self.locked.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut actions = Vec::new();
        locked.core.close(&mut actions);
        for action in actions {
            match action {
                PoolAction::Close(connection) => connection.channel.close_without_future(),
                PoolAction::CancelConnect(connect) => _ = connect.cancel(),
                PoolAction::FailClosed(waiter) => waiter.complete(Err(PoolError::Closed)),
                _ => {}
            }
        }
    }
}
