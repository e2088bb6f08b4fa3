//! The clients of a run, all on one event loop.

pub(crate) mod connection_counts;
pub(crate) mod connector;
pub(crate) mod opening;
pub(crate) mod publisher;
pub(crate) mod subscriber;
