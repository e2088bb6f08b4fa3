//! The state of one address: its connections by stage, its idle ones by loop, and the acquires that wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use waterwheel_channel::{AddressSpec, Token};

use super::connection::StageCounts;
use super::idle_list::IdleList;
use crate::options::{LoopAffinity, ReuseOrder};

/// An acquire that waits.
pub(super) struct WaitingAcquire<W> {
    pub(super) waiter: W,
    /// The index of the loop that it was made on.
    pub(super) event_loop: Option<usize>,
}

pub(super) struct AddressState<W> {
    pub(super) address: Arc<AddressSpec>,
    pub(super) stages: StageCounts,
    /// Idle connections by loop; the last list is for loops that the pool does not know.
    pub(super) idle: Vec<IdleList>,
    /// Waiting acquires by ticket: the first one is served first.
    pub(super) waiting: BTreeMap<u64, WaitingAcquire<W>>,
    /// Waiting acquires for which no connection is arriving, as last counted.
    pub(super) uncovered: usize,
    /// The ticket under which the address is among those that wait for room in total, if it is.
    pub(super) room_ticket: Option<u64>,
    /// True while the minimum of idle connections is kept.
    pub(super) is_stocked: bool,
    /// True from a failed connect until the retry, if the minimum of idle connections is kept.
    pub(super) is_backing_off: bool,
    /// Pauses in a row, since a connection was last leased.
    pub(super) failures: u32,
}

impl<W> AddressState<W> {
    pub(super) fn new(address: Arc<AddressSpec>, loops: usize) -> Self {
        Self {
            address,
            stages: StageCounts::default(),
            idle: vec![IdleList::default(); loops + 1],
            waiting: BTreeMap::new(),
            uncovered: 0,
            room_ticket: None,
            is_stocked: true,
            is_backing_off: false,
            failures: 0,
        }
    }

    /// Returns the waiting acquires for which no connection is arriving.
    pub(super) fn count_uncovered(&self) -> usize {
        self.waiting.len().saturating_sub(self.stages.arriving())
    }

    /// Returns the arriving connections that no acquire waits for.
    pub(super) fn count_spare(&self) -> usize {
        self.stages.arriving().saturating_sub(self.waiting.len())
    }

    pub(super) fn idle_of(&mut self, event_loop: Option<usize>) -> &mut IdleList {
        let unknown = self.idle.len() - 1;
        &mut self.idle[event_loop.unwrap_or(unknown)]
    }

    /// Chooses an idle connection for an acquire from this loop, by the rules of [`LoopAffinity`].
    pub(super) fn choose_idle(
        &self,
        from: Option<usize>,
        (reuse, affinity): (ReuseOrder, LoopAffinity),
        has_room: bool,
    ) -> Option<Token> {
        let end_of = |list: &IdleList| match reuse {
            ReuseOrder::NewestFirst => list.newest(),
            ReuseOrder::OldestFirst => list.oldest(),
        };
        let own = from.filter(|_| affinity != LoopAffinity::Ignored);
        if let Some(own) = own {
            let found = end_of(&self.idle[own]);
            if found.is_some() || (has_room && affinity == LoopAffinity::LocalFirst) {
                return found.map(|(_, id)| id);
            }
        }
        let ends = self.idle.iter().filter_map(end_of);
        let found = match reuse {
            ReuseOrder::NewestFirst => ends.max(),
            ReuseOrder::OldestFirst => ends.min(),
        };
        found.map(|(_, id)| id)
    }
}
