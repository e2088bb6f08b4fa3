//! Errors of pools.

use std::sync::Arc;
use std::time::Duration;

use waterwheel_channel::AddressSpec;
use waterwheel_executor::Error;

use crate::metrics::PoolCounts;

/// The reason why an acquire failed. The future of an acquire fails with an [`Error`] that wraps it:
/// `error.find::<PoolError>()`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The pool was closed, or its last handle was dropped.
    #[error("the connection pool is closed")]
    Closed,
    /// Too many acquires wait for the address.
    #[error(
        "{waiting} acquires wait for a connection to {address} already (max_waiting {max}): {counts}"
    )]
    TooManyWaiting {
        /// The address.
        address: Arc<AddressSpec>,
        /// Acquires that wait while no connection is being opened for them.
        waiting: usize,
        /// The limit.
        max: usize,
        /// The state of the address.
        counts: PoolCounts,
    },
    /// Too many acquires wait in the whole pool.
    #[error(
        "{waiting} acquires wait in the connection pool already (max_waiting_total {max}); \
         {address}: {counts}"
    )]
    TooManyWaitingInTotal {
        /// The address.
        address: Arc<AddressSpec>,
        /// Acquires that wait while no connection is being opened for them, for any address.
        waiting: usize,
        /// The limit.
        max: usize,
        /// The state of the address.
        counts: PoolCounts,
    },
    /// No connection was ready in time.
    #[error("no connection to {address} within {waited:?}: {counts}")]
    TimedOut {
        /// The address.
        address: Arc<AddressSpec>,
        /// How long the acquire waited.
        waited: Duration,
        /// The state of the address when the time was over; the acquire still counts as waiting.
        counts: PoolCounts,
    },
    /// The loop that keeps the acquire's deadline has ended, or has reached its bound of timers.
    #[error(
        "the event loop that keeps the deadline of an acquire for {address} has ended, or takes no timer"
    )]
    LoopEnded {
        /// The address.
        address: Arc<AddressSpec>,
    },
    /// A connection could not be opened.
    #[error("cannot open a pooled connection to {address}: {cause}")]
    Connect {
        /// The address.
        address: Arc<AddressSpec>,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// The hook for new connections failed.
    #[error("cannot prepare a new connection to {address}: {cause}")]
    Prepare {
        /// The address.
        address: Arc<AddressSpec>,
        /// The reason.
        #[source]
        cause: Error,
    },
    /// The hook for acquired connections failed.
    #[error("the acquire hook failed for a connection to {address}: {cause}")]
    AcquireHook {
        /// The address.
        address: Arc<AddressSpec>,
        /// The reason.
        #[source]
        cause: Error,
    },
}

/// The reason why a pool could not be built.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidPool {
    /// A limit of open connections is zero: no acquire could ever succeed.
    #[error("{setting} is 0: no connection could be opened")]
    NoConnections {
        /// The setting.
        setting: &'static str,
    },
    /// A time is zero.
    #[error("{setting} is 0: leave it out instead")]
    ZeroTime {
        /// The setting.
        setting: &'static str,
    },
    /// More idle connections are kept than may be open.
    #[error("min_idle {min_idle} is above the limit of {max_open} open connections")]
    MinIdle {
        /// The minimum of idle connections.
        min_idle: usize,
        /// The limit of open connections.
        max_open: usize,
    },
    /// The jitter is not a part of the age limit.
    #[error("an age jitter of {percent} % is not below 100 %")]
    Jitter {
        /// The jitter, in percent.
        percent: u8,
    },
    /// Checks have a time or a limit, but there is no check.
    #[error("{setting} is set without health_check")]
    NoHealthCheck {
        /// The setting.
        setting: &'static str,
    },
}

impl From<InvalidPool> for Error {
    fn from(error: InvalidPool) -> Self {
        Error::new(error)
    }
}
