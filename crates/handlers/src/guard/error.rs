//! The errors of guards that cannot be built.

use std::time::Duration;

use thiserror::Error;

/// A guard that cannot be built from these values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidGuard {
    /// A prefix is longer than an address.
    #[error("a prefix of {prefix} bits is too long for {version} addresses, which have {max}")]
    PrefixTooLong {
        /// The version of the address: IPv4 or IPv6.
        version: &'static str,
        /// The prefix length.
        prefix: u8,
        /// The bits of an address.
        max: u8,
    },
    /// A table without room for an address.
    #[error("a table of 0 addresses cannot tell addresses apart: it needs room for at least 1")]
    NoAddresses,
    /// A rate of no connections, or a burst of none: every connection would be refused.
    #[error(
        "{connections} connections per {period:?} with a burst of {burst} admits none: each must be above 0"
    )]
    NothingAdmitted {
        /// The connections in each period.
        connections: u32,
        /// The period.
        period: Duration,
        /// The burst.
        burst: u32,
    },
    /// A rate that leaves less than a nanosecond between connections.
    #[error(
        "{connections} connections per {period:?} is beyond the resolution of one per nanosecond"
    )]
    RateTooHigh {
        /// The connections in each period.
        connections: u32,
        /// The period.
        period: Duration,
    },
    /// A bucket that takes longer to fill than a clock can show.
    #[error(
        "a burst of {burst} at {connections} connections per {period:?} refills in more than 500 years"
    )]
    RateTooLow {
        /// The connections in each period.
        connections: u32,
        /// The period.
        period: Duration,
        /// The burst.
        burst: u32,
    },
}

impl From<InvalidGuard> for waterwheel_executor::Error {
    fn from(error: InvalidGuard) -> Self {
        waterwheel_executor::Error::new(error)
    }
}
