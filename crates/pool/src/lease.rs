//! Leases: pooled channels in use.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use waterwheel_channel::{AddressSpec, Channel, Hold};

use crate::pooled_channel::PooledChannel;

/// A pooled channel in use. Dereferences to its [`Channel`]; dropping the lease gives the channel back, on any thread.
///
/// Clones of the channel can outlive the lease. Do not use them after it: another lease may have the channel by then.
///
/// A lease keeps a drain of the channel's loop waiting, up to the drain's deadline, like a
/// [`Hold`](waterwheel_channel::Hold); see
/// [`holds_drain`](crate::ChannelPoolBuilder::holds_drain).
#[must_use = "dropping a lease gives the connection back"]
pub struct Lease {
    /// `None` once it is given back.
    connection: Option<Arc<PooledChannel>>,
    hold: Option<Hold>,
    is_reusable: bool,
}

impl Lease {
    pub(crate) fn new(connection: Arc<PooledChannel>, holds_drain: bool) -> Self {
        let hold = holds_drain.then(|| connection.channel.hold());
        Self { connection: Some(connection), hold, is_reusable: true }
    }

    fn connection(&self) -> &Arc<PooledChannel> {
        let Some(connection) = &self.connection else {
            unreachable!("a lease has its connection until it is consumed")
        };
        connection
    }

    /// Returns the address that the connection was acquired for.
    #[must_use]
    pub fn address(&self) -> &AddressSpec {
        &self.connection().address
    }

    /// Sets whether the connection may be used again after this lease; true at first.
    ///
    /// Clear it before a request and set it when the answer is complete: if the lease is dropped in between, by a
    /// cancelled task or an early return, the connection is closed. Otherwise the next user would read an answer that
    /// is not its own.
    pub fn set_reusable(&mut self, is_reusable: bool) {
        self.is_reusable = is_reusable;
    }

    /// Closes the connection instead of giving it back.
    pub fn discard(mut self) {
        self.is_reusable = false;
    }

    /// Takes the connection out of the pool, which no longer counts, limits or closes it: for a connection that changes
    /// its protocol or is kept for long, such as one with a subscription.
    #[must_use = "the channel stays open until it is closed"]
    pub fn into_channel(mut self) -> Channel {
        let Some(connection) = self.connection.take() else {
            unreachable!("a lease has its connection until it is consumed")
        };
        if let Some(pool) = connection.pool.upgrade() {
            pool.take_out(connection.id);
        }
        connection.channel.clone()
    }
}

impl Deref for Lease {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.connection().channel
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        match connection.pool.upgrade() {
            Some(pool) => pool.give_back(connection, self.hold.take(), self.is_reusable),
            None => connection.channel.close_without_future(),
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&**self).finish()
    }
}
