//! The settings of a pool.

use std::time::Duration;

/// Which idle connection is used next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReuseOrder {
    /// The one that was used last: few connections stay busy, and the others reach their idle limit.
    #[default]
    NewestFirst,
    /// The one that was idle longest: all connections are used in turn.
    OldestFirst,
}

/// Which connections an acquire takes that is made on one of the pool's loops. An acquire from any other thread takes
/// any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopAffinity {
    /// An idle connection of the same loop; otherwise a new one on the same loop, if the limits allow it; otherwise an
    /// idle one of another loop. Soon each loop has its own connections, and no call changes threads.
    #[default]
    LocalFirst,
    /// An idle connection of the same loop; otherwise an idle one of another loop; otherwise a new one on the same
    /// loop. Opens the fewest connections of those that care about loops.
    ReuseFirst,
    /// Any idle connection; otherwise a new one on the next loop of the group.
    Ignored,
}

/// The settings that the state of a pool goes by; the builder documents them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) max_open: Option<usize>,
    pub(crate) max_open_total: Option<usize>,
    pub(crate) max_waiting: usize,
    pub(crate) max_waiting_total: usize,
    pub(crate) min_idle: usize,
    pub(crate) reuse: ReuseOrder,
    pub(crate) affinity: LoopAffinity,
    pub(crate) idle_limit: Option<Duration>,
    /// Checks a connection at an acquire if it was idle for this long.
    pub(crate) check_after: Option<Duration>,
}

/// Default limit of open connections for each address.
pub const DEFAULT_MAX_OPEN: usize = 64;

/// Default limit of acquires that wait for one address while no connection is being opened for them.
pub const DEFAULT_MAX_WAITING: usize = 1024;

/// Default limit of acquires that wait in the whole pool while no connection is being opened for them.
pub const DEFAULT_MAX_WAITING_TOTAL: usize = 16 * 1024;

/// Default time limit of an acquire.
pub const DEFAULT_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Default time limit of a health check, and of the preparation of a new connection.
pub const DEFAULT_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Default idle limit. Servers and load balancers commonly close idle connections after one minute or more.
pub const DEFAULT_IDLE_LIMIT: Duration = Duration::from_secs(50);

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            max_open: Some(DEFAULT_MAX_OPEN),
            max_open_total: None,
            max_waiting: DEFAULT_MAX_WAITING,
            max_waiting_total: DEFAULT_MAX_WAITING_TOTAL,
            min_idle: 0,
            reuse: ReuseOrder::default(),
            affinity: LoopAffinity::default(),
            idle_limit: Some(DEFAULT_IDLE_LIMIT),
            check_after: None,
        }
    }
}
