//! The events of connections: connected, failed, ready, given back, closed, and limits of time.

use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_executor::{Canceller, Nanos};

use super::ConnectionStage::{Checking, Closing, Connecting, Idle, Leased, Preparing};
use super::connection::PooledHandle;
use super::{PoolAction, PoolActions, PoolCore, ReadyOutcome};
use crate::metrics::PoolCloseReason;

impl<C: PooledHandle, W> PoolCore<C, W> {
    /// Keeps the canceller of a connect, unless the connect has ended. Returns it if it is not kept.
    pub(crate) fn keep_canceller(&mut self, id: Token, canceller: Canceller) -> Option<Canceller> {
        match self.connections.get_mut(id) {
            Some(entry) if entry.stage == Connecting && !self.is_closed => {
                entry.canceller.replace(canceller)
            }
            _ => Some(canceller),
        }
    }

    /// Records that a connect has succeeded, on this loop. Returns the canceller, which is of no more use, and false if
    /// the connection is closed at once.
    pub(crate) fn connected(
        &mut self,
        id: Token,
        (connection, event_loop): (C, Option<usize>),
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> (Option<Canceller>, bool) {
        let Some(entry) = self.connections.get_mut(id) else {
            actions.push(PoolAction::Close(connection));
            return (None, false);
        };
        entry.handle = Some(connection);
        entry.event_loop = event_loop;
        let canceller = entry.canceller.take();
        let (retired, key) = (entry.retired, entry.address);
        self.set_stage(id, Preparing);
        self.counters.created += 1;
        if let Some(reason) = retired {
            self.begin_close(id, reason, actions);
            self.cover(key, None, now, actions);
            self.settle(key, actions);
        }
        (canceller, retired.is_none())
    }

    /// Records that a connect has failed, or the preparation of a new connection. The acquire that it costs is among
    /// the actions.
    pub(crate) fn failed(&mut self, id: Token, now: Nanos, actions: &mut PoolActions<C, W>) {
        let Some(entry) = self.connections.get(id) else { return };
        let (stage, key) = (entry.stage, entry.address);
        if !matches!(stage, Connecting | Preparing) {
            return;
        }
        match stage {
            Connecting => self.remove_entry(id, actions),
            _ => self.begin_close(id, PoolCloseReason::HookFailed, actions),
        }
        self.fail_oldest(key, actions);
        self.back_off(key, actions);
        self.use_room(key, now, actions);
        self.settle(key, actions);
    }

    /// Records that a connection is prepared, healthy or given back: it serves the next acquire, or becomes idle.
    pub(crate) fn ready(
        &mut self,
        id: Token,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> ReadyOutcome {
        let Some(entry) = self.connections.get_mut(id) else { return ReadyOutcome::NotIdle };
        let (stage, key) = (entry.stage, entry.address);
        if !matches!(stage, Preparing | Checking | Leased) {
            return ReadyOutcome::NotIdle;
        }
        if stage != Checking {
            self.uses += 1;
            (entry.use_order, entry.last_used) = (self.uses, now);
        }
        let outcome = self.offer(id, now, actions);
        self.settle(key, actions);
        outcome
    }

    /// Records that a connection was given back and is not to be used again.
    pub(crate) fn discard(
        &mut self,
        id: Token,
        reason: PoolCloseReason,
        actions: &mut PoolActions<C, W>,
    ) {
        let Some(entry) = self.connections.get(id) else { return };
        let key = entry.address;
        if entry.stage != Closing {
            self.begin_close(id, reason, actions);
            self.settle(key, actions);
        }
    }

    /// Closes a connection that failed its check, and covers the acquire that it was checked for.
    pub(crate) fn check_failed(&mut self, id: Token, now: Nanos, actions: &mut PoolActions<C, W>) {
        let Some(entry) = self.connections.get(id) else { return };
        let key = entry.address;
        if entry.stage == Checking {
            self.begin_close(id, PoolCloseReason::CheckFailed, actions);
            self.cover(key, None, now, actions);
            self.settle(key, actions);
        }
    }

    /// Removes a connection that has been closed, whoever closed it. A connection that is closed while it is prepared
    /// has failed; the acquire that it costs is among the actions.
    pub(crate) fn closed(&mut self, id: Token, now: Nanos, actions: &mut PoolActions<C, W>) {
        let Some(entry) = self.connections.get(id) else { return };
        let (key, reason) = (entry.address, entry.retired.unwrap_or(PoolCloseReason::Closed));
        let (is_new, was_used) = (entry.stage == Preparing, entry.was_used);
        self.remove_entry(id, actions);
        self.counters.closed[reason as usize] += 1;
        if is_new {
            self.fail_oldest(key, actions);
        }
        if !was_used && reason.blames_peer() {
            self.back_off(key, actions);
        }
        self.use_room(key, now, actions);
        self.settle(key, actions);
    }

    /// Takes a leased connection out of the pool without closing it. Returns false if it is not in the pool any more.
    pub(crate) fn take_out(
        &mut self,
        id: Token,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> bool {
        match self.connections.get_mut(id) {
            Some(entry) if entry.stage == Leased => entry.retired = Some(PoolCloseReason::TakenOut),
            _ => return false,
        }
        self.closed(id, now, actions);
        true
    }

    /// Retires a connection: closes it if it is idle, otherwise when it is given back. Returns true if it was idle.
    pub(crate) fn retire(
        &mut self,
        id: Token,
        reason: PoolCloseReason,
        actions: &mut PoolActions<C, W>,
    ) -> bool {
        let Some(key) = self.connections.get(id).map(|entry| entry.address) else { return false };
        let was_idle = self.retire_entry(id, reason, actions);
        self.settle(key, actions);
        was_idle
    }

    /// Closes a connection that received something while it was idle. Returns false if it was not idle.
    pub(crate) fn read_while_idle(&mut self, id: Token, actions: &mut PoolActions<C, W>) -> bool {
        let is_idle = self.connections.get(id).is_some_and(|entry| entry.stage == Idle);
        is_idle && self.retire(id, PoolCloseReason::UnexpectedRead, actions)
    }

    /// Closes a connection whose idle limit is reached, unless the minimum of idle connections needs it. Returns when
    /// to look again.
    pub(crate) fn expire_idle(
        &mut self,
        id: Token,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> Option<Duration> {
        let limit = self.limits.idle_limit?;
        let entry = self.connections.get(id)?;
        let idle = now.since(entry.last_used);
        match entry.stage {
            Idle | Checking if idle < limit => return Some(limit - idle),
            Idle => {}
            // A check ends soon, and does not count as a use.
            Checking => return Some(limit / 16),
            _ => return Some(limit),
        }
        let state = self.addresses.get(entry.address)?;
        if state.is_stocked && state.stages.of(Idle) <= self.limits.min_idle {
            return Some(limit);
        }
        self.retire(id, PoolCloseReason::IdleLimit, actions);
        None
    }

    /// Begins a check of a connection that was idle for `interval`. Returns when to look again.
    pub(crate) fn check_idle(
        &mut self,
        id: Token,
        interval: Duration,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> Option<Duration> {
        let entry = self.connections.get(id)?;
        let (idle, key) = (now.since(entry.idle_since), entry.address);
        if entry.stage != Idle {
            return Some(interval);
        }
        if idle < interval {
            return Some(interval - idle);
        }
        self.begin_check(id, actions);
        self.settle(key, actions);
        Some(interval)
    }
}
