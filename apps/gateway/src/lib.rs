//! A push gateway: clients connect by TCP, say who they are and what they want to hear of, and are sent what
//! others publish. It is the example of the event-loop model that everybody knows: business threads look a
//! user's channel up and write to it, whichever loop it lives on.
//!
//! ```text
//!   clients ⇄ loops (EventLoopGroup)                    business threads (EventExecutorGroup)
//!             lines ⇄ idle ⇄ outlet ⇄ offloaded ───────► session ──► registry: who, where
//!                            outlet ◄── outbox ◄──────── deliver ◄──┘ of another client, on another loop
//! ```
//!
//! # Rules
//!
//! 1. A line is accepted when it is in the queues of all it is for; only then `OK` is said.
//! 2. A line that was accepted reaches every client that stays connected and does not overflow, also when the
//!    gateway is told to end meanwhile.
//! 3. Everything is bounded: clients, names, topics, lines, the queue of each client, what waits in its
//!    channel, and how long a client may be silent or take to leave.
//!
//! | to understand | read |
//! |---|---|
//! | what is said | [`protocol`] |
//! | how a line is heard, and delivered | [`session`], [`registry`], [`client`], [`outbox`] |
//! | how it goes out, and how a client leaves | [`outlet`] |
//! | how all of it is put together, and ends | [`gateway`], [`gate`] |
//! | what can be seen of it | [`stats`], [`traffic`] |
#![forbid(unsafe_code)]

pub mod client;
pub mod gate;
pub mod gateway;
pub mod outbox;
pub mod outlet;
pub mod protocol;
pub mod registry;
pub mod session;
pub mod stats;
pub mod traffic;
