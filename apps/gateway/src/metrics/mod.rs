//! The counters of the gateway, and how monitoring reads them.

pub mod counters;
