//! The connection to a server: where to, its first commands, its calls, what comes in, and how it is made again.

pub(super) mod address;
pub(super) mod call_queue;
mod handshake;
mod incoming;
pub(super) mod life;
