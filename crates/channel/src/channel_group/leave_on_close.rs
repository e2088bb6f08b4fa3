//! The group memberships of a channel, which end when it is closed.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use waterwheel_executor::ExecutorId;

use super::group::ChannelGroupShared;
use crate::channel::handle::Channel;
use crate::channel::handle::attributes::{AttrKey, ChannelCompanion, companion_key};
use crate::channel::handle::shared_state::ChannelId;

/// The groups that a channel is in; `None` once it is closed. Kept as an attribute of the channel, from its
/// first group on.
///
/// Threads that add and remove use this, and hold the lock of the group meanwhile. The channel's loop uses this
/// when it notifies the close: the loop takes the list out, and leaves the groups afterwards.
///
/// The loop clears the channel's open flag before it looks for this attribute; a thread that adds the channel
/// creates the attribute before it reads the flag. Both take the lock of the attributes, so one of them
/// sees the other: either the loop removes the channel from the new group, or the other thread learns that the
/// channel is closed.
pub(super) struct GroupMemberships(Mutex<Option<Vec<Weak<ChannelGroupShared>>>>);

static GROUP_MEMBERSHIPS: AttrKey<GroupMemberships> = companion_key("groups");

impl GroupMemberships {
    /// Returns the memberships of a channel, creating them if absent; `None` if the channel is closed.
    pub(super) fn of(channel: &Channel) -> Option<Arc<Self>> {
        let make = || Self(Mutex::new(Some(Vec::new())));
        let memberships = channel.attributes().get_or_set(&GROUP_MEMBERSHIPS, make);
        channel.is_open().then_some(memberships)
    }

    /// Returns the memberships of a channel, if it was ever in a group.
    pub(super) fn find(channel: &Channel) -> Option<Arc<Self>> {
        channel.attribute(&GROUP_MEMBERSHIPS)
    }

    /// Adds a group. Returns false if the channel is closed.
    pub(super) fn join(&self, group: &Arc<ChannelGroupShared>) -> bool {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(groups) = &mut *groups {
            groups.push(Arc::downgrade(group));
        }
        groups.is_some()
    }

    pub(super) fn leave(&self, group: *const ChannelGroupShared) {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(groups) = &mut *groups
            && let Some(at) = groups.iter().position(|it| it.as_ptr() == group)
        {
            groups.swap_remove(at);
        }
    }

    /// Removes a closed channel from all its groups, before anybody else is notified of the close.
    fn leave_all(&self, of: ExecutorId, id: ChannelId) {
        let groups = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        for group in groups.into_iter().flatten().filter_map(|group| group.upgrade()) {
            let superfluous = group.members().remove(of, id);
            drop(superfluous);
        }
    }
}

impl ChannelCompanion for GroupMemberships {
    fn on_closed(&self, channel: &Channel) {
        self.leave_all(channel.loop_id(), channel.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel_group::ChannelGroup;
    use crate::driver::TaskOnly;
    use crate::{EventLoopGroup, local};

    /// Returns the number of groups that a channel remembers.
    fn remembered(channel: &Channel) -> Option<usize> {
        let memberships = GroupMemberships::find(channel)?;
        let groups = memberships.0.lock().unwrap();
        groups.as_ref().map(Vec::len)
    }

    #[test]
    fn c14_a_channel_forgets_groups_that_it_left_or_that_were_dropped() {
        let loops = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
        // A channel whose peer is dropped would be closed too early.
        let (channel, _peer) = local::pair();
        let channel = loops.register(channel).join().unwrap();
        let stays = ChannelGroup::new("stays");
        assert!(stays.add(&channel));
        for _ in 0..100 {
            let goes = ChannelGroup::new("goes");
            assert!(goes.add(&channel) && goes.remove(&channel) && goes.add(&channel));
        }
        assert_eq!(remembered(&channel), Some(1));
        channel.close().join().unwrap();
        assert_eq!((remembered(&channel), stays.len()), (None, 0));
        assert!(!stays.add(&channel));
    }
}
