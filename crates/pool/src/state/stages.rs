//! The only code that changes the stages of connections, and with them the counts and the idle lists.

use std::sync::Arc;

use waterwheel_channel::{AddressSpec, Token};

use super::ConnectionStage::{Closing, Idle};
use super::address_state::AddressState;
use super::connection::{ConnectionStage, PooledHandle};
use super::{PoolAction, PoolActions, PoolCore};
use crate::metrics::PoolCloseReason;

impl<C: PooledHandle, W> PoolCore<C, W> {
    /// Returns the key of an address, creating its state it if absent.
    pub(super) fn address_of(&mut self, address: &Arc<AddressSpec>) -> Token {
        if let Some(&key) = self.by_address.get(address) {
            return key;
        }
        let key = self.addresses.insert(AddressState::new(address.clone(), self.loops));
        self.by_address.insert(address.clone(), key);
        key
    }

    /// Changes the stage of a connection: the only place that changes counts and idle lists.
    pub(super) fn set_stage(&mut self, id: Token, stage: ConnectionStage) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        let before = std::mem::replace(&mut entry.stage, stage);
        let (key, event_loop, used) = (entry.address, entry.event_loop, entry.use_order);
        if let Some(handle) = entry.handle.as_ref().filter(|_| (before == Idle) != (stage == Idle))
        {
            handle.set_idle(stage == Idle);
        }
        self.stages.remove(before);
        self.stages.add(stage);
        let Some(state) = self.addresses.get_mut(key) else { return };
        state.stages.remove(before);
        state.stages.add(stage);
        let has_total_limit = self.limits.max_open_total.is_some();
        if before == Idle {
            state.idle_of(event_loop).remove(used);
            if has_total_limit {
                self.idle.remove(used);
            }
        }
        if stage == Idle {
            state.idle_of(event_loop).insert(used, id);
            if has_total_limit {
                self.idle.insert(used, id);
            }
        }
    }

    /// Begins to close a connection.
    pub(super) fn begin_close(
        &mut self,
        id: Token,
        reason: PoolCloseReason,
        actions: &mut PoolActions<C, W>,
    ) {
        self.set_stage(id, Closing);
        let Some(entry) = self.connections.get_mut(id) else { return };
        entry.retired.get_or_insert(reason);
        actions.extend(entry.handle.clone().map(PoolAction::Close));
    }

    /// Closes an idle connection, and marks any other to be closed when it is given back.
    pub(super) fn retire_entry(
        &mut self,
        id: Token,
        reason: PoolCloseReason,
        actions: &mut PoolActions<C, W>,
    ) -> bool {
        let Some(entry) = self.connections.get_mut(id) else { return false };
        let is_idle = entry.stage == Idle;
        match is_idle {
            true => self.begin_close(id, reason, actions),
            false => _ = entry.retired.get_or_insert(reason),
        }
        is_idle
    }

    pub(super) fn remove_entry(&mut self, id: Token, actions: &mut PoolActions<C, W>) {
        // Leaves the idle lists first.
        self.set_stage(id, Closing);
        let Some(entry) = self.connections.remove(id) else { return };
        self.stages.remove(Closing);
        if let Some(state) = self.addresses.get_mut(entry.address) {
            state.stages.remove(Closing);
        }
        actions.extend(entry.handle.map(PoolAction::Forget));
    }

    /// Counts the uncovered acquires of an address anew, and records whether it waits for room in total.
    pub(super) fn count_uncovered(&mut self, key: Token) {
        let can_use_room = self.limits.max_open_total.is_some() && self.has_own_room_or_idle(key);
        let Some(state) = self.addresses.get_mut(key) else { return };
        let uncovered = state.count_uncovered();
        self.uncovered = self.uncovered - state.uncovered + uncovered;
        state.uncovered = uncovered;
        let oldest = state.waiting.first_key_value().map(|(ticket, _)| *ticket);
        let ticket = oldest.filter(|_| can_use_room && uncovered > 0);
        let before = std::mem::replace(&mut state.room_ticket, ticket);
        if before != ticket {
            before.map(|ticket| self.need_room.remove(&ticket));
            ticket.map(|ticket| self.need_room.insert(ticket, key));
        }
    }
}
