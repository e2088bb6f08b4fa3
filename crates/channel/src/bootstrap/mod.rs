//! Bootstraps: servers and clients in a few lines (C12).
//!
//! ```text
//!   ServerBootstrap ── bind ────► resolve ──► a boss's loop: register, bind ──► Channel
//!                                               │ accepted
//!                                               ▼
//!                                             Acceptor ──► guards, limit ──► a worker's loop: register, child
//!                                                                            initialiser
//!                   bind_on_each_loop: a server on every loop, and connections stay there
//!   Bootstrap ──────── connect ─► resolve ──► a loop: register, connect ──────► Channel
//! ```
//!
//! Either future returns the channel when it is bound or connected, before its handlers are called. If anything
//! fails, the channel is closed and the future fails with the reason; if the future is cancelled, the channel
//! is closed too.

mod accept_guard;
mod acceptor;
mod bind_each_loop;
mod channel_template;
mod client_bootstrap;
mod connection_limit;
mod loops;
mod opening;
mod server_bootstrap;
mod single_options;

pub use self::accept_guard::{
    AcceptGuard, AcceptPermit, AcceptVerdict, AcceptedConnection, GuardChain, Refusals,
};
pub use self::bind_each_loop::Servers;
pub use self::client_bootstrap::Bootstrap;
pub use self::connection_limit::ConnectionLimit;
pub use self::loops::Loops;
pub use self::server_bootstrap::ServerBootstrap;
