//! Idle connections in the order of their last use: doubly linked lists through the table of connections, so that any
//! connection leaves in constant time and nothing is allocated.

use waterwheel_channel::{Slab, Token};

use super::connection::PoolEntry;

/// A list of idle connections, least recently used first. Each idle connection is in two lists: the one of its address
/// and loop, and the one of the whole pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdleList {
    pub(super) oldest: Option<Token>,
    pub(super) newest: Option<Token>,
}

/// The place of a connection in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdleLink {
    older: Option<Token>,
    newer: Option<Token>,
}

/// Selects the list that a link belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListKind {
    /// The list of one address and loop.
    Loop = 0,
    /// The list of the whole pool.
    Pool = 1,
}

impl IdleList {
    /// Inserts a connection by the order of its last use. A connection that was just used goes to the newest end at
    /// once; only one that returns from a check while idle passes those that were used since.
    pub(super) fn insert<C>(
        &mut self,
        connections: &mut Slab<PoolEntry<C>>,
        kind: ListKind,
        id: Token,
    ) {
        let Some(used) = connections.get(id).map(|entry| entry.use_order) else { return };
        let mut newer = None;
        let mut older = self.newest;
        while let Some((at, entry)) = older.and_then(|at| Some((at, connections.get(at)?))) {
            if entry.use_order < used {
                break;
            }
            newer = Some(at);
            older = entry.links[kind as usize].older;
        }
        if let Some(entry) = connections.get_mut(id) {
            entry.links[kind as usize] = IdleLink { older, newer };
        }
        self.join(connections, kind, (older, Some(id)));
        self.join(connections, kind, (Some(id), newer));
    }

    /// Removes a connection.
    pub(super) fn remove<C>(
        &mut self,
        connections: &mut Slab<PoolEntry<C>>,
        kind: ListKind,
        id: Token,
    ) {
        let Some(entry) = connections.get_mut(id) else { return };
        let IdleLink { older, newer } = std::mem::take(&mut entry.links[kind as usize]);
        self.join(connections, kind, (older, newer));
    }

    /// Makes two connections neighbours; `None` is the end of the list.
    fn join<C>(
        &mut self,
        connections: &mut Slab<PoolEntry<C>>,
        kind: ListKind,
        (older, newer): (Option<Token>, Option<Token>),
    ) {
        match older.and_then(|id| connections.get_mut(id)) {
            Some(entry) => entry.links[kind as usize].newer = newer,
            None => self.oldest = newer,
        }
        match newer.and_then(|id| connections.get_mut(id)) {
            Some(entry) => entry.links[kind as usize].older = older,
            None => self.newest = older,
        }
    }
}
