//! The members of a group, by loop.

use std::collections::{BTreeMap, HashMap};

use waterwheel_executor::ExecutorId;

use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelId;

/// The members of a group. A loop without members has no entry: groups may outlive many loops.
#[derive(Default)]
pub(super) struct MemberTable {
    loops: HashMap<ExecutorId, BTreeMap<ChannelId, Channel>>,
    len: usize,
    /// True if a close is permanent.
    pub(super) stays_closed: bool,
    /// True once a permanent close was requested: channels that are added are closed.
    pub(super) is_closed: bool,
}

impl MemberTable {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, channel: &Channel) -> bool {
        let here = self.loops.get(&channel.loop_id());
        here.is_some_and(|here| here.contains_key(&channel.id()))
    }

    pub(super) fn find(&self, id: ChannelId) -> Option<Channel> {
        self.loops.values().find_map(|here| here.get(&id)).cloned()
    }

    /// Adds a channel. Returns false if it was a member before.
    pub(super) fn insert(&mut self, channel: Channel) -> bool {
        let here = self.loops.entry(channel.loop_id()).or_default();
        let new = here.insert(channel.id(), channel).is_none();
        self.len += usize::from(new);
        new
    }

    /// Removes and returns a member. The caller drops it while nothing is locked: it may be the last handle.
    #[must_use]
    pub(super) fn remove(&mut self, of: ExecutorId, id: ChannelId) -> Option<Channel> {
        let here = self.loops.get_mut(&of)?;
        let member = here.remove(&id);
        if here.is_empty() {
            self.loops.remove(&of);
        }
        self.len -= usize::from(member.is_some());
        member
    }

    /// Returns the members by loop, each in the order of their creation.
    pub(super) fn by_loop(&self) -> Vec<Vec<Channel>> {
        self.loops.values().map(|here| here.values().cloned().collect()).collect()
    }
}
