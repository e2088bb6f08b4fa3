//! Gateways in this process, and the program as a child process.

pub(crate) mod cheating_gateway;
pub(crate) mod load_process;
pub(crate) mod real_gateway;
