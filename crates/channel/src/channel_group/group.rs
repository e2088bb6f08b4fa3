//! A group of channels, and its members.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::leave_on_close::GroupMemberships;
use super::member_table::MemberTable;
use super::outcome::ChannelGroupFuture;
use super::selected::Selected;
use super::shared_send::send_to_loops;
use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelId;
use crate::pipeline::{Message, Msg};

/// A named set of channels, on any loops, for writing to all of them or closing them. A channel leaves when it is
/// closed: code that learns of the close from the close future or from a completion does not find the channel
/// here any more.
///
/// This is a handle: cheap to clone, and usable from any thread. It keeps no channel open and no loop running.
/// A channel may be in any number of groups.
///
/// An operation on a group applies to the channels that are members at that moment;
/// [`matching`](Self::matching) restricts it to some of them. Each loop gets one command for all of its
/// channels, and the calling loop none. Servers may be members too: they are closed with the others, and
/// nothing is written to them.
///
/// All receivers of bytes share them, and so they do the bytes that a handler makes of a message by
/// [`encode_shared`](crate::Handler::encode_shared); any other message is cloned for each. Messages to a slow reader wait in
/// memory: [`matchers::writable`](crate::matchers::writable) leaves out channels above their
/// high water mark.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{ChannelGroup, EventLoopGroup, local, matchers};
///
/// let loops = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
/// let room = ChannelGroup::new("room");
/// let (ann, bob) = local::pair();
/// let (ann, bob) = (loops.register(ann).join()?, loops.register(bob).join()?);
/// room.add(&ann);
/// room.add(&bob);
/// let told = room.matching(matchers::all_but(&ann)).write_and_flush("hello").join()?;
/// assert!(told.is_success() && told.len() == 1);
///
/// room.close().join()?.into_result()?;
/// assert!(room.is_empty(), "a closed channel leaves");
/// # loops.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ChannelGroup {
    inner: Arc<ChannelGroupShared>,
}

/// The state that the handles of a group share. Any thread may take the lock, for a lookup or a change; no user
/// code runs meanwhile.
pub(super) struct ChannelGroupShared {
    pub(super) name: Arc<str>,
    members: Mutex<MemberTable>,
}

impl ChannelGroup {
    /// Creates an empty group.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            inner: Arc::new(ChannelGroupShared { name: name.into(), members: Mutex::default() }),
        }
    }

    /// Makes a [close](Self::close) permanent: a channel that is added later is closed at once. For a server
    /// that ends while its last connections are being accepted.
    #[must_use]
    pub fn stay_closed(self) -> Self {
        self.inner.members().stays_closed = true;
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Adds a channel; a group that stays closed closes it. Returns false for a member, or a closed or closing channel.
    pub fn add(&self, channel: &Channel) -> bool {
        let Some(memberships) = GroupMemberships::of(channel) else { return false };
        let mut members = self.inner.members();
        if members.contains(channel) || !memberships.join(&self.inner) {
            return false;
        }
        let superfluous = members.insert(channel.clone());
        let is_closed = members.is_closed;
        drop(members);
        drop(superfluous);
        if is_closed {
            drop(channel.close());
        }
        true
    }

    /// Removes a channel without closing it. Returns false if it is not a member.
    pub fn remove(&self, channel: &Channel) -> bool {
        let mut members = self.inner.members();
        let superfluous = members.remove(channel.loop_id(), channel.id());
        let was_in = superfluous.member.is_some();
        if was_in && let Some(memberships) = GroupMemberships::find(channel) {
            memberships.leave(Arc::as_ptr(&self.inner));
        }
        drop(members);
        drop(superfluous);
        was_in
    }

    /// True if the channel is a member.
    #[must_use]
    pub fn contains(&self, channel: &Channel) -> bool {
        self.inner.members().contains(channel)
    }

    /// Returns the member with this id.
    #[must_use]
    pub fn find(&self, id: ChannelId) -> Option<Channel> {
        self.inner.members().find(id)
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.members().len()
    }

    /// True if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the members, in the order of their creation.
    #[must_use]
    pub fn channels(&self) -> Vec<Channel> {
        let mut channels = self.by_loop().concat();
        channels.sort_unstable_by_key(Channel::id);
        channels
    }

    pub(super) fn by_loop(&self) -> Vec<Vec<Channel>> {
        self.inner.members().by_loop()
    }

    pub(super) fn receivers_by_loop(&self) -> Vec<Arc<[Channel]>> {
        self.inner.members().receivers_by_loop()
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        self.inner.name.clone()
    }

    /// Selects the members for which `matches` is true, for an operation. `matches` is called once per channel,
    /// on the calling thread, when an operation is called. If it panics, the operation does nothing.
    pub fn matching<F: Fn(&Channel) -> bool>(&self, matches: F) -> Selected<'_, F> {
        Selected::new(self, matches)
    }

    fn all(&self) -> Selected<'_, fn(&Channel) -> bool> {
        Selected::new(self, |_| true)
    }

    // Operations on all members, as on a selection.

    /// Writes a message to each member: see [`Selected::write`].
    #[track_caller]
    pub fn write(&self, msg: impl Message + Clone) -> ChannelGroupFuture {
        self.all().write(msg)
    }

    /// Writes a message to each member, and flushes: see [`Selected::write_and_flush`].
    #[track_caller]
    pub fn write_and_flush(&self, msg: impl Message + Clone) -> ChannelGroupFuture {
        self.all().write_and_flush(msg)
    }

    /// Creates a message for each member, writes it, and flushes: see [`Selected::write_and_flush_each`].
    #[track_caller]
    pub fn write_and_flush_each<M: Into<Msg>>(
        &self,
        make: impl FnMut(&Channel) -> M,
    ) -> ChannelGroupFuture {
        self.all().write_and_flush_each(make)
    }

    /// Writes a message to each member and flushes, without a future: see [`Selected::send`].
    pub fn send(&self, msg: impl Message + Clone) {
        send_to_loops(self.receivers_by_loop(), msg);
    }

    /// Flushes all members: sends all messages that were written before.
    pub fn flush(&self) {
        self.all().flush();
    }

    /// Closes all members, servers too, after their flushed messages. With [`stay_closed`](Self::stay_closed)
    /// the group stays closed from now on.
    #[track_caller]
    pub fn close(&self) -> ChannelGroupFuture {
        {
            let mut members = self.inner.members();
            members.is_closed = members.stays_closed; // Set before the members are read.
        }
        self.all().close()
    }

    /// Disconnects all members.
    #[track_caller]
    pub fn disconnect(&self) -> ChannelGroupFuture {
        self.all().disconnect()
    }

    /// Deregisters all members from their loops without closing them.
    #[track_caller]
    pub fn deregister(&self) -> ChannelGroupFuture {
        self.all().deregister()
    }

    /// Completes when all current members have been closed.
    #[track_caller]
    pub fn closed(&self) -> ChannelGroupFuture {
        self.all().closed()
    }
}

impl ChannelGroupShared {
    pub(super) fn members(&self) -> MutexGuard<'_, MemberTable> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ChannelGroupShared {
    /// Removes the group from the memberships of its channels.
    fn drop(&mut self) {
        let members = self.members.get_mut().unwrap_or_else(PoisonError::into_inner);
        let left = members.by_loop();
        for memberships in left.iter().flatten().filter_map(GroupMemberships::find) {
            memberships.leave(&raw const *self);
        }
    }
}

/// Handles of the same group are equal.
impl PartialEq for ChannelGroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for ChannelGroup {}

impl fmt::Debug for ChannelGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelGroup({}, {} channels)", self.name(), self.len())
    }
}
