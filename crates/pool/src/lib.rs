//! Pools of client connections: acquire, use, give back.
//!
//! ```text
//!   acquire(address) ──► idle connection of this loop? ──► check ──► Lease ──► your requests
//!        │ none            ▲                                           │
//!        ▼                 │ idle: watched, checked, limited           │ dropped, on any thread
//!   below the limits? ─────┼── connect ──► on_created ─────────────────┤
//!        │ no              │                                           ▼
//!        ▼                 └──────────────── nobody waits ◄── usable? ─── on_released
//!   waits, first come first served ◄──────── somebody waits ◄──┘ no: closed
//! ```
//!
//! ```
//! use std::time::Duration;
//! use waterwheel_channel::driver::TaskOnly;
//! use waterwheel_channel::{Address, Bootstrap, EventLoopGroup, ServerBootstrap, local};
//! use waterwheel_pool::{ChannelPool, PoolError};
//!
//! let group = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
//! let door = Address::local("door");
//! let server = ServerBootstrap::new(&group, local::Local).bind(door.clone()).join()?;
//!
//! let pool = ChannelPool::builder(Bootstrap::new(&group, local::Local)).max_open(1).build()?;
//! let lease = pool.acquire(door.clone()).join()?;
//! lease.write_and_flush(String::from("a request")).join()?;
//! let late = pool.acquire_within(door.clone(), Duration::from_millis(1)).join().unwrap_err();
//! assert!(matches!(late.find(), Some(PoolError::TimedOut { counts, .. }) if counts.leased == 1));
//!
//! let first = lease.id();
//! drop(lease);
//! assert_eq!(pool.acquire(door).join()?.id(), first, "the connection was used again");
//! pool.close().join()?;
//! # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! 1. **Order.** Acquires that wait for an address are served in the order in which they were made, by whichever
//!    connection is ready first: given back, newly opened (for whomever), or checked.
//! 2. **Loops.** A connection stays on its loop. An acquire on a loop prefers connections of that loop
//!    ([`LoopAffinity`]), so that no call on them changes threads. The limits count all loops together.
//! 3. **Cancel.** Dropping an [`Acquire`] takes it out of the queue. A connection that was opened for it serves the next
//!    acquire or becomes idle.
//! 4. **Failures.** A failed connect fails the acquire that waits longest, and the next one gets the room. A failed
//!    health check fails nobody: the next idle connection is checked, or a new one opened.
//! 5. **Broken connections** are never handed out, as far as the loop knows: an idle connection leaves the pool when it
//!    is closed by anybody, half-closed, or when something arrives on it. One that breaks while leased, or that its
//!    user has told to close, is closed when it is given back. What is still on the wire nobody knows: a connection can break between acquire and request, so
//!    retry requests that may be repeated.
//! 6. **Unfinished exchanges.** The pool does not know your protocol. If a lease can be dropped between request and
//!    answer, use [`Lease::set_reusable`], or check the pipeline in
//!    [`on_released`](ChannelPoolBuilder::on_released). What a decoder holds is not seen by the pool.
//! 7. **Close.** [`ChannelPool::close`] and [`drain`](ChannelPool::drain) refuse new acquires, fail those that wait, and
//!    close idle connections at once, leased ones when they are given back. Dropping the last handle of the pool does
//!    the same.
//! 8. **Shutdown of loops.** While a loop or group drains, the pool goes on with the connections it has, so that work in
//!    progress can finish, and opens none; a lease keeps the drain waiting, an idle connection does not. When a loop
//!    ends, its connections leave the pool; acquires that wait are served by the other loops, or fail.
//! 9. **Reads.** While a connection is idle the pool reads it, also without auto-read: one round of reads that was
//!    requested then may serve the next lease.
//! 10. **Closing.** A connection counts as open until its close is complete. A close does not wait for a peer that does
//!     not read, but it waits for handlers that hold it back.
//!
//! The pool adds one handler to each pipeline, `pool-watch`, next to the transport, or
//! [after TLS](ChannelPoolBuilder::watch_after). Acquire and release of an idle connection take one lock each, for a
//! short change of the state, and allocate nothing while the number of idle connections varies little. No change looks
//! at all connections or addresses, except for the close of the pool and [`retire`](ChannelPool::retire).
#![forbid(unsafe_code)]

mod acquire;
mod builder;
mod connection_life;
mod error;
mod hooks;
mod lease;
mod metrics;
mod options;
mod pool;
mod pooled_channel;
mod shared;
mod state;
mod watch;

pub use crate::acquire::Acquire;
pub use crate::builder::ChannelPoolBuilder;
pub use crate::error::{InvalidPool, PoolError};
pub use crate::lease::Lease;
pub use crate::metrics::{PoolCloseReason, PoolCounts, PoolMetrics};
pub use crate::options::{
    DEFAULT_ACQUIRE_TIMEOUT, DEFAULT_CHECK_TIMEOUT, DEFAULT_IDLE_LIMIT, DEFAULT_MAX_OPEN,
    DEFAULT_MAX_WAITING, DEFAULT_MAX_WAITING_TOTAL, LoopAffinity, ReuseOrder,
};
pub use crate::pool::ChannelPool;
