//! Idle connections in the order of their last use.

use std::collections::BTreeMap;

use waterwheel_channel::Token;

/// Idle connections by the order of their last use. A connection that returns from a check while idle takes its old
/// place, so that checks of thousands of connections cost no walk over the others.
#[derive(Clone, Debug, Default)]
pub(super) struct IdleList(BTreeMap<u64, Token>);

impl IdleList {
    pub(super) fn insert(&mut self, use_order: u64, id: Token) {
        self.0.insert(use_order, id);
    }

    pub(super) fn remove(&mut self, use_order: u64) {
        self.0.remove(&use_order);
    }

    /// Returns the least recently used connection, and the order of its use.
    pub(super) fn oldest(&self) -> Option<(u64, Token)> {
        self.0.first_key_value().map(|(order, id)| (*order, *id))
    }

    /// Returns the most recently used connection, and the order of its use.
    pub(super) fn newest(&self) -> Option<(u64, Token)> {
        self.0.last_key_value().map(|(order, id)| (*order, *id))
    }
}
