//! A push gateway: clients connect over TCP, take a name, subscribe to topics and receive what others publish. It
//! shows the classic use of the event-loop model: business threads look up a user's channel and write to it, on
//! whichever loop the channel is registered.
//!
//! ```text
//!   clients ⇄ loops (EventLoopGroup)                    business threads (EventExecutorGroup)
//!       (tls ⇄) lines ⇄ idle ⇄ outbox ⇄ offloaded ───────► session ──► registry: who, where
//!                            writer ◄── outbox ◄──────── deliver ◄──┘ of another client, on another loop
//! ```
//!
//! # Rules
//!
//! 1. A line is accepted when it is in the outbox of every receiver; only then is the sender answered `OK`.
//! 2. An accepted line reaches every client that stays connected and does not overflow, even if the gateway is
//!    drained meanwhile.
//! 3. Everything is bounded: clients, names, topics, line length, each client's outbox, pending bytes in its channel,
//!    and how long a client may be idle or take to disconnect.
//!
//! | to understand | read |
//! |---|---|
//! | commands and replies | [`protocol`] |
//! | how a command is executed and a line delivered | [`line_session`], [`registry`], [`client`], [`outbox`] |
//! | how queued lines are written, and how a client disconnects | [`outbox_writer`] |
//! | how the parts are assembled and drained | [`gateway`], [`drain_gate`] |
//! | TLS, and the reload of its files | [`tls`] |
//! | statistics | [`stats`], [`line_counters`] |
#![forbid(unsafe_code)]

pub mod access;
pub mod client;
pub mod client_protocol;
pub mod config;
pub mod demo;
pub mod drain_gate;
pub mod engine;
pub mod error_code;
pub mod gateway;
pub mod line_counters;
pub mod line_session;
pub mod log;
pub mod metrics;
pub mod outbox;
pub mod outbox_writer;
pub mod page;
pub mod protocol;
pub mod protocols;
pub mod registry;
pub mod session;
pub mod stats;
pub mod tls;
pub mod topic;
