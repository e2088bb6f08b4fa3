//! A channel of a pool, as the pool's state, its handler and its lease share it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use waterwheel_channel::{AddressSpec, Channel, Token};

use crate::shared::ChannelPoolShared;
use crate::state::PooledHandle;

/// A channel and its place in the pool.
///
/// `is_idle` is written under the pool's lock, by any thread. The channel's loop reads it at every read, without the
/// lock: a handler that finds it set asks the state, which decides. A loop that misses a change passes on a read that
/// came before an acquire or after a release, as if it had come a moment later or earlier. An answer to a request of
/// the new lease is never misjudged: the request passes through the loop's queue after the flag was cleared.
pub(crate) struct PooledChannel {
    pub(crate) pool: Weak<ChannelPoolShared>,
    pub(crate) id: Token,
    pub(crate) channel: Channel,
    pub(crate) address: Arc<AddressSpec>,
    is_idle: AtomicBool,
}

impl PooledChannel {
    pub(crate) fn new(
        pool: Weak<ChannelPoolShared>,
        id: Token,
        channel: Channel,
        address: Arc<AddressSpec>,
    ) -> Arc<Self> {
        Arc::new(Self { pool, id, channel, address, is_idle: AtomicBool::new(false) })
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Acquire)
    }
}

impl PooledHandle for Arc<PooledChannel> {
    fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Release);
    }

    fn is_usable(&self) -> bool {
        self.channel.is_active() && !self.channel.is_close_requested()
    }
}
