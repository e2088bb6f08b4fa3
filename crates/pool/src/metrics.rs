//! Counters of a pool, as values to read.

use std::fmt;

/// Why a connection left its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolCloseReason {
    /// Closed by the peer, by a handler or a user of the channel, or because its loop ended.
    Closed,
    /// [Discarded](crate::Lease::discard), or given back while it was [not reusable](crate::Lease::set_reusable).
    Discarded,
    /// The peer sent something while the connection was idle: an answer that nobody waits for any more.
    UnexpectedRead,
    /// One direction has ended.
    HalfClosed,
    /// Idle for longer than the idle limit.
    IdleLimit,
    /// Older than the age limit.
    AgeLimit,
    /// A health check failed or took too long.
    CheckFailed,
    /// A hook failed, or the pool's handler was removed from the pipeline.
    HookFailed,
    /// Closed while idle to make room for another address under the total limit.
    Evicted,
    /// The address was [retired](crate::ChannelPool::retire).
    Retired,
    /// The pool was closed.
    PoolClosed,
    /// [Taken out](crate::Lease::into_channel) of the pool; still open.
    TakenOut,
}

impl PoolCloseReason {
    /// All reasons, in order.
    pub const ALL: [PoolCloseReason; 12] = [
        PoolCloseReason::Closed,
        PoolCloseReason::Discarded,
        PoolCloseReason::UnexpectedRead,
        PoolCloseReason::HalfClosed,
        PoolCloseReason::IdleLimit,
        PoolCloseReason::AgeLimit,
        PoolCloseReason::CheckFailed,
        PoolCloseReason::HookFailed,
        PoolCloseReason::Evicted,
        PoolCloseReason::Retired,
        PoolCloseReason::PoolClosed,
        PoolCloseReason::TakenOut,
    ];

    /// True if another connection to the same peer is likely to end in the same way.
    pub(crate) fn blames_peer(self) -> bool {
        use PoolCloseReason::{CheckFailed, Closed, HalfClosed, HookFailed, UnexpectedRead};
        matches!(self, Closed | UnexpectedRead | HalfClosed | CheckFailed | HookFailed)
    }
}

/// The connections and waiting acquires of one address, or of a whole pool, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Connections that count towards the limits: the sum of those below.
    pub open: usize,
    /// Connections ready to be leased.
    pub idle: usize,
    /// Connections in use.
    pub leased: usize,
    /// Connections being opened or prepared.
    pub connecting: usize,
    /// Connections whose health is being checked.
    pub checking: usize,
    /// Connections being closed.
    pub closing: usize,
    /// Acquires that wait, also those for which a connection is being opened.
    pub waiting: usize,
}

/// For error messages: `open 8 (idle 0, leased 8, connecting 0, checking 0, closing 0), waiting 3`.
impl fmt::Display for PoolCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, idle, leased, connecting, checking, closing, waiting } = self;
        write!(
            f,
            "open {open} (idle {idle}, leased {leased}, connecting {connecting}, \
             checking {checking}, closing {closing}), waiting {waiting}"
        )
    }
}

/// A snapshot of a pool's counters. All values belong to one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Connections and waiting acquires now.
    pub now: PoolCounts,
    /// Addresses with a connection or a waiting acquire.
    pub addresses: usize,
    /// Connections that were opened.
    pub created: u64,
    /// Connects and preparations that failed.
    pub connect_failures: u64,
    /// Leases that were handed out.
    pub acquired: u64,
    /// Acquires that reached their deadline.
    pub acquire_timeouts: u64,
    /// Acquires that were refused because too many were waiting.
    pub acquires_refused: u64,
    pub(crate) closed: [u64; PoolCloseReason::ALL.len()],
}

impl PoolMetrics {
    /// Returns the number of connections that left the pool for this reason.
    #[must_use]
    pub fn closed(&self, reason: PoolCloseReason) -> u64 {
        self.closed[reason as usize]
    }

    /// Returns the number of connections that left the pool, for any reason.
    #[must_use]
    pub fn closed_total(&self) -> u64 {
        self.closed.iter().sum()
    }
}
