//! The decisions that follow from events: whom a ready connection serves, where a new one is opened, which idle one has
//! to go.

use std::time::Duration;

use waterwheel_channel::Token;
use waterwheel_executor::Nanos;

use super::ConnectionStage::{Checking, Closing, Connecting, Idle, Leased};
use super::connection::{PoolEntry, PooledHandle};
use super::{PoolAction, PoolActions, PoolCore, ReadyOutcome, counts};
use crate::error::PoolError;
use crate::metrics::PoolCloseReason;

/// Pauses between connects that keep the minimum of idle connections, while they fail: doubled from the first to the
/// last.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

impl<C: PooledHandle, W> PoolCore<C, W> {
    /// Leases an idle connection that needs no check, if no acquire waits.
    pub(super) fn lease_idle(
        &mut self,
        key: Token,
        from: Option<usize>,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> Option<C> {
        if !self.addresses.get(key)?.waiting.is_empty() {
            return None;
        }
        let id = self.choose_idle(key, from, actions)?;
        if self.needs_check(id, now) {
            return None;
        }
        self.lease(id)
    }

    fn lease(&mut self, id: Token) -> Option<C> {
        self.set_stage(id, Leased);
        self.counters.acquired += 1;
        let entry = self.connections.get_mut(id)?;
        entry.was_used = true;
        if let Some(state) = self.addresses.get_mut(entry.address) {
            state.failures = 0;
        }
        entry.handle.clone()
    }

    /// Chooses an idle connection. Those that were closed meanwhile are removed from the idle ones.
    fn choose_idle(
        &mut self,
        key: Token,
        from: Option<usize>,
        actions: &mut PoolActions<C, W>,
    ) -> Option<Token> {
        loop {
            let (has_room, rules) = (self.has_room(key), (self.limits.reuse, self.limits.affinity));
            let state = self.addresses.get(key)?;
            let id = state.choose_idle(from, rules, has_room)?;
            let handle = self.connections.get(id)?.handle.as_ref()?;
            if handle.is_usable() {
                return Some(id);
            }
            self.begin_close(id, PoolCloseReason::Closed, actions);
        }
    }

    fn needs_check(&self, id: Token, now: Nanos) -> bool {
        let idle = self.connections.get(id).map(|entry| now.since(entry.idle_since));
        matches!((idle, self.limits.check_after), (Some(idle), Some(after)) if idle >= after)
    }

    pub(super) fn begin_check(&mut self, id: Token, actions: &mut PoolActions<C, W>) {
        self.set_stage(id, Checking);
        let connection = self.connections.get(id).and_then(|entry| entry.handle.clone());
        actions.extend(connection.map(|connection| PoolAction::Check { id, connection }));
    }

    /// Hands a ready connection to the acquire that waits longest; without one, it becomes idle.
    pub(super) fn offer(
        &mut self,
        id: Token,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> ReadyOutcome {
        let Some(entry) = self.connections.get(id) else { return ReadyOutcome::NotIdle };
        let key = entry.address;
        let is_usable = entry.handle.as_ref().is_some_and(C::is_usable);
        if let Some(reason) = entry.retired.or((!is_usable).then_some(PoolCloseReason::Closed)) {
            self.begin_close(id, reason, actions);
            self.cover(key, None, now, actions);
            return ReadyOutcome::NotIdle;
        }
        if self.deliver_next(key, id, actions) {
            return ReadyOutcome::NotIdle;
        }
        if let Some(entry) = self.connections.get_mut(id) {
            entry.idle_since = now;
        }
        self.set_stage(id, Idle);
        if self.limits.max_open_total.is_some() {
            self.cover_oldest(key, now, actions);
        }
        let is_idle = self.connections.get(id).is_some_and(|entry| entry.stage == Idle);
        if is_idle { ReadyOutcome::Idle } else { ReadyOutcome::NotIdle }
    }

    /// Leases a connection to the acquire that waits longest for its address.
    fn deliver_next(&mut self, key: Token, id: Token, actions: &mut PoolActions<C, W>) -> bool {
        let Some(state) = self.addresses.get_mut(key) else { return false };
        let Some((_, acquire)) = state.waiting.pop_first() else { return false };
        self.waiting -= 1;
        if let Some(connection) = self.lease(id) {
            actions.push(PoolAction::Deliver { waiter: acquire.waiter, connection });
        }
        true
    }

    /// Fails the acquire that waits longest, because a connect has failed, unless as many others are arriving as wait.
    pub(super) fn fail_oldest(&mut self, key: Token, actions: &mut PoolActions<C, W>) {
        self.counters.connect_failures += 1;
        let Some(state) = self.addresses.get_mut(key) else { return };
        if state.count_uncovered() > 0
            && let Some((_, acquire)) = state.waiting.pop_first()
        {
            self.waiting -= 1;
            actions.push(PoolAction::Fail(acquire.waiter));
        }
    }

    /// Uses the room that a connection has left.
    pub(super) fn use_room(&mut self, key: Token, now: Nanos, actions: &mut PoolActions<C, W>) {
        match self.limits.max_open_total {
            Some(_) => self.cover_oldest(key, now, actions),
            None => self.cover(key, None, now, actions),
        }
    }

    /// Begins to check or open connections for the uncovered acquires of an address, as far as the limits allow.
    pub(super) fn cover(
        &mut self,
        key: Token,
        from: Option<usize>,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) {
        while self.is_uncovered(key) {
            if !self.cover_one(key, from, now, actions) {
                self.evict_for(key, actions);
                break;
            }
        }
    }

    /// Covers uncovered acquires of all addresses, in the order of their age: under a total limit, after a change of
    /// the address `changed`.
    fn cover_oldest(&mut self, changed: Token, now: Nanos, actions: &mut PoolActions<C, W>) {
        self.count_uncovered(changed);
        while let Some((_, &key)) = self.need_room.first_key_value() {
            let covered = self.cover_one(key, None, now, actions);
            self.count_uncovered(key);
            if !covered {
                return self.evict_for(key, actions);
            }
        }
    }

    fn is_uncovered(&self, key: Token) -> bool {
        self.addresses.get(key).is_some_and(|state| state.count_uncovered() > 0)
    }

    /// Begins to check or open one connection for an address, on the loop `from` or that of the oldest waiting acquire.
    fn cover_one(
        &mut self,
        key: Token,
        from: Option<usize>,
        now: Nanos,
        actions: &mut PoolActions<C, W>,
    ) -> bool {
        let Some(state) = self.addresses.get(key) else { return false };
        let oldest = state.waiting.first_key_value();
        let from = from.or_else(|| oldest.and_then(|(_, acquire)| acquire.event_loop));
        if let Some(id) = self.choose_idle(key, from, actions) {
            match self.needs_check(id, now) {
                true => self.begin_check(id, actions),
                false => _ = self.deliver_next(key, id, actions),
            }
            return true;
        }
        let has_room = self.has_room(key);
        if has_room {
            self.open_connection(key, from, actions);
        }
        has_room
    }

    fn open_connection(
        &mut self,
        key: Token,
        event_loop: Option<usize>,
        actions: &mut PoolActions<C, W>,
    ) {
        let Some(state) = self.addresses.get_mut(key) else { return };
        let address = state.address.clone();
        state.stages.add(Connecting);
        self.stages.add(Connecting);
        let id = self.connections.insert(PoolEntry::connecting(key, event_loop));
        actions.push(PoolAction::Connect { id, address, event_loop });
    }

    /// Closes the connection that was idle longest, of any address, if only the total limit keeps this address from
    /// opening one. At most as many are closing as acquires are uncovered.
    fn evict_for(&mut self, key: Token, actions: &mut PoolActions<C, W>) {
        self.count_uncovered(key);
        if self.has_own_room_or_idle(key)
            && self.stages.of(Closing) < self.uncovered
            && let Some((_, oldest)) = self.idle.oldest()
        {
            self.retire(oldest, PoolCloseReason::Evicted, actions);
        }
    }

    fn has_room(&self, key: Token) -> bool {
        let has_total = self.limits.max_open_total.is_none_or(|max| self.stages.open() < max);
        has_total && self.has_own_room(key)
    }

    fn has_own_room(&self, key: Token) -> bool {
        let open = self.addresses.get(key).map(|state| state.stages.open());
        !self.is_closed && self.limits.max_open.is_none_or(|max| open.is_some_and(|it| it < max))
    }

    pub(super) fn has_own_room_or_idle(&self, key: Token) -> bool {
        let idle = self.addresses.get(key).map_or(0, |state| state.stages.of(Idle));
        idle > 0 || self.has_own_room(key)
    }

    /// Refuses one more waiting acquire if it would be uncovered beyond the limits.
    pub(super) fn check_waiting_limits(&self, key: Token) -> Result<(), PoolError> {
        let Some(state) = self.addresses.get(key) else { return Ok(()) };
        if state.count_spare() > 0 || state.stages.of(Idle) > 0 || self.has_room(key) {
            return Ok(());
        }
        let (address, counts) = (state.address.clone(), counts(&state.stages, state.waiting.len()));
        let (waiting, max) = (state.count_uncovered(), self.limits.max_waiting);
        if waiting >= max {
            return Err(PoolError::TooManyWaiting { address, waiting, max, counts });
        }
        let (waiting, max) = (self.uncovered, self.limits.max_waiting_total);
        if waiting >= max {
            return Err(PoolError::TooManyWaitingInTotal { address, waiting, max, counts });
        }
        Ok(())
    }

    /// Pauses the connects that keep the minimum of idle connections, after one that failed or was of no use.
    pub(super) fn back_off(&mut self, key: Token, actions: &mut PoolActions<C, W>) {
        let Some(state) = self.addresses.get_mut(key) else { return };
        if self.limits.min_idle == 0 || self.is_closed || !state.is_stocked || state.is_backing_off
        {
            return;
        }
        state.is_backing_off = true;
        let delay = LAST_RETRY.min(FIRST_RETRY * 2_u32.pow(state.failures.min(8)));
        state.failures = state.failures.saturating_add(1);
        actions.push(PoolAction::RetryLater { address: state.address.clone(), delay });
    }

    /// Ends every change of an address: restocks it, or forgets it if nothing is left of it.
    pub(super) fn settle(&mut self, key: Token, actions: &mut PoolActions<C, W>) {
        let min_idle = if self.is_closed { 0 } else { self.limits.min_idle };
        while let Some(state) = self.addresses.get(key)
            && state.is_stocked
            && !state.is_backing_off
            && state.stages.of(Idle) + state.count_spare() < min_idle
            && self.has_room(key)
        {
            self.open_connection(key, None, actions);
        }
        self.count_uncovered(key);
        let Some(state) = self.addresses.get(key) else { return };
        if state.stages.open() == 0 && state.waiting.is_empty() && !state.is_backing_off {
            let address = state.address.clone();
            self.by_address.remove(&address);
            self.addresses.remove(key);
            if self.is_closed && self.stages.open() == 0 {
                actions.push(PoolAction::Emptied);
            }
        }
    }
}
