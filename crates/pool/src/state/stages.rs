//! The only code that changes the stages of connections, and with them the counts and the idle lists.

use std::sync::Arc;

use waterwheel_channel::{AddressSpec, Token};

use super::ConnectionStage::{Closing, Idle};
use super::address_state::AddressState;
use super::connection::{ConnectionStage, PooledHandle};
use super::idle_list::ListKind;
use super::{PoolAction, PoolActions, PoolCore};
use crate::metrics::CloseReason;

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
        let (key, event_loop) = (entry.address, entry.event_loop);
        if let Some(handle) = entry.handle.as_ref().filter(|_| (before == Idle) != (stage == Idle))
        {
            handle.set_idle(stage == Idle);
        }
        self.stages.remove(before);
        self.stages.add(stage);
        let Some(state) = self.addresses.get_mut(key) else { return };
        state.stages.remove(before);
        state.stages.add(stage);
        if before == Idle {
            state.idle_of(event_loop).remove(&mut self.connections, ListKind::Loop, id);
            self.idle.remove(&mut self.connections, ListKind::Pool, id);
        }
        if stage == Idle {
            state.idle_of(event_loop).insert(&mut self.connections, ListKind::Loop, id);
            self.idle.insert(&mut self.connections, ListKind::Pool, id);
        }
    }

    /// Begins to close a connection.
    pub(super) fn begin_close(
        &mut self,
        id: Token,
        reason: CloseReason,
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
        reason: CloseReason,
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

    pub(super) fn count_uncovered(&mut self, key: Token) {
        let Some(state) = self.addresses.get_mut(key) else { return };
        let uncovered = state.count_uncovered();
        self.uncovered = self.uncovered - state.uncovered + uncovered;
        state.uncovered = uncovered;
    }
}
