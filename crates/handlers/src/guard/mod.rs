//! Stock accept guards: decide on connections by the peer's address, before anything is built for them (K10).
//!
//! The crate's page has their table and an example. They call no user code, and hold no lock for longer than a search
//! or a change of their own table.

mod accept_rate;
mod address_limit;
mod bucket_table;
mod error;
mod network_filter;
mod network_rules;
mod prefix_lengths;
mod range_table;

pub use self::accept_rate::{AcceptRate, AcceptRateBuilder, DEFAULT_TRACKED_ADDRESSES};
pub use self::address_limit::{AddressLimit, AddressLimitBuilder, DEFAULT_LIMITED_ADDRESSES};
pub use self::error::InvalidGuard;
pub use self::network_filter::NetworkFilter;
pub use self::network_rules::{NetworkAction, NetworkRules};
pub use self::prefix_lengths::PrefixLengths;
