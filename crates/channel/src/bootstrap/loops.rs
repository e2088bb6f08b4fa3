//! The loops that the channels of a bootstrap run on.

use std::fmt;
use std::hash::Hash;

use waterwheel_executor::{Error, PromiseFuture};

use crate::channel::handle::new_channel::NewChannel;
use crate::event_loop::group::EventLoopGroup;
use crate::event_loop::handle::EventLoop;
use crate::event_loop::manual::ManualEventLoop;

/// The loops that a bootstrap uses for its channels: those of a group, or a single one.
///
/// Created by [`Bootstrap::new`](crate::Bootstrap::new) and
/// [`ServerBootstrap::new`](crate::ServerBootstrap::new) from an [`EventLoopGroup`], an [`EventLoop`] or a
/// [`ManualEventLoop`].
#[derive(Clone, PartialEq, Eq)]
pub struct Loops(LoopsKind);

#[derive(Clone, PartialEq, Eq)]
enum LoopsKind {
    Group(EventLoopGroup),
    One(EventLoop),
}

impl Loops {
    /// Returns the loop that the group's chooser picks for the next channel.
    #[must_use]
    pub fn next(&self) -> EventLoop {
        match &self.0 {
            LoopsKind::Group(group) => group.next(),
            LoopsKind::One(event_loop) => event_loop.clone(),
        }
    }

    /// Returns the loop for `key`.
    pub(super) fn next_for(&self, key: &impl Hash) -> EventLoop {
        match &self.0 {
            LoopsKind::Group(group) => group.next_for(key),
            LoopsKind::One(event_loop) => event_loop.clone(),
        }
    }

    /// Chooses a loop for a channel. On an error the channel is closed.
    pub(super) fn assign_loop(&self, new: NewChannel) -> Result<(EventLoop, NewChannel), Error> {
        match &self.0 {
            LoopsKind::Group(group) => group.assign_loop(new),
            LoopsKind::One(event_loop) => Ok((event_loop.clone(), new)),
        }
    }

    /// Returns all loops, in order: at least one.
    #[must_use]
    pub fn all(&self) -> Vec<EventLoop> {
        match &self.0 {
            LoopsKind::Group(group) => group.children().collect(),
            LoopsKind::One(event_loop) => vec![event_loop.clone()],
        }
    }

    /// True if this is a single loop.
    pub(super) fn is_single_loop(&self) -> bool {
        matches!(self.0, LoopsKind::One(_))
    }

    /// True if each channel gets a loop of its own: see [`EventLoopGroup::per_channel`].
    #[must_use]
    pub fn is_per_channel(&self) -> bool {
        matches!(&self.0, LoopsKind::Group(group) if group.is_per_channel())
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        match &self.0 {
            LoopsKind::Group(group) => group.is_shutting_down(),
            LoopsKind::One(event_loop) => event_loop.is_shutting_down(),
        }
    }

    /// Returns a handle that does not keep a group alive. The handle of a single loop is cloned.
    pub(super) fn without_lease(&self) -> Self {
        match &self.0 {
            LoopsKind::Group(group) => group.without_lease().into_loops(),
            LoopsKind::One(_) => self.clone(),
        }
    }

    /// Returns a failed future.
    #[track_caller]
    pub(super) fn failed<T: Send + 'static>(&self, error: Error) -> PromiseFuture<T> {
        self.next().failed(error)
    }
}

impl EventLoopGroup {
    fn into_loops(self) -> Loops {
        Loops(LoopsKind::Group(self))
    }
}

impl From<&EventLoopGroup> for Loops {
    fn from(group: &EventLoopGroup) -> Self {
        group.clone().into_loops()
    }
}

impl From<&EventLoop> for Loops {
    fn from(event_loop: &EventLoop) -> Self {
        Loops(LoopsKind::One(event_loop.clone()))
    }
}

impl From<&ManualEventLoop> for Loops {
    fn from(by_hand: &ManualEventLoop) -> Self {
        Loops(LoopsKind::One(by_hand.event_loop()))
    }
}

impl fmt::Debug for Loops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            LoopsKind::Group(group) => group.fmt(f),
            LoopsKind::One(event_loop) => event_loop.fmt(f),
        }
    }
}
