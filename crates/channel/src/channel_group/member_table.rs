//! The members of a group, by loop.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use waterwheel_executor::ExecutorId;

use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelId;

/// The members of a group. A loop without members has no entry: groups may outlive many loops.
#[derive(Default)]
pub(super) struct MemberTable {
    loops: HashMap<ExecutorId, LoopMembers>,
    len: usize,
    /// True if a close is permanent.
    pub(super) stays_closed: bool,
    /// True once a permanent close was requested: channels that are added are closed.
    pub(super) is_closed: bool,
}

/// The members of one loop.
#[derive(Default)]
struct LoopMembers {
    by_id: BTreeMap<ChannelId, Channel>,
    /// The members that are not servers, for broadcasts; `None` since the last change.
    receivers: Option<Arc<[Channel]>>,
}

/// Handles that a change of the table has made superfluous. The caller drops them while nothing is locked: they may be
/// the last handles of their channels.
#[must_use = "dropped while nothing is locked"]
#[derive(Default)]
pub(super) struct Superfluous {
    pub(super) member: Option<Channel>,
    _receivers: Option<Arc<[Channel]>>,
}

impl MemberTable {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, channel: &Channel) -> bool {
        let here = self.loops.get(&channel.loop_id());
        here.is_some_and(|here| here.by_id.contains_key(&channel.id()))
    }

    pub(super) fn find(&self, id: ChannelId) -> Option<Channel> {
        self.loops.values().find_map(|here| here.by_id.get(&id)).cloned()
    }

    /// Adds a channel; returns the handle that it replaces.
    pub(super) fn insert(&mut self, channel: Channel) -> Superfluous {
        let here = self.loops.entry(channel.loop_id()).or_default();
        let member = here.by_id.insert(channel.id(), channel);
        self.len += usize::from(member.is_none());
        Superfluous { member, _receivers: here.receivers.take() }
    }

    /// Removes and returns a member.
    pub(super) fn remove(&mut self, of: ExecutorId, id: ChannelId) -> Superfluous {
        let Some(here) = self.loops.get_mut(&of) else { return Superfluous::default() };
        let (member, receivers) = (here.by_id.remove(&id), here.receivers.take());
        if here.by_id.is_empty() {
            self.loops.remove(&of);
        }
        self.len -= usize::from(member.is_some());
        Superfluous { member, _receivers: receivers }
    }

    /// Returns the members by loop, each in the order of their creation.
    pub(super) fn by_loop(&self) -> Vec<Vec<Channel>> {
        self.loops.values().map(|here| here.by_id.values().cloned().collect()).collect()
    }

    /// Returns the members that are not servers, as [`by_loop`](Self::by_loop) does. The lists are shared until the next
    /// change: a broadcast clones no handle.
    pub(super) fn receivers_by_loop(&mut self) -> Vec<Arc<[Channel]>> {
        self.loops.values_mut().map(LoopMembers::receivers).collect()
    }
}

impl LoopMembers {
    fn receivers(&mut self) -> Arc<[Channel]> {
        let by_id = &self.by_id;
        let collect = || by_id.values().filter(|channel| !channel.is_server()).cloned().collect();
        self.receivers.get_or_insert_with(collect).clone()
    }
}
