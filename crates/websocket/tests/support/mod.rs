//! Connections whose peer is the test: a server or a client of this crate on a manual loop, and frames made by hand.

pub(crate) mod client_bench;
pub(crate) mod frames;
pub(crate) mod loop_bench;
pub(crate) mod script;
pub(crate) mod server_bench;
