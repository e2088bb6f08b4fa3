//! A push gateway: clients subscribe to topics and publish, by WebSocket, server-sent events, HTTP or lines of text, all on one
//! port. `docs/GATEWAY.md` is the contract with clients and with operators.
//!
//! ```text
//!   port ──► protocols: WebSocket, events, HTTP, lines ──► session ──► operations ──► engine
//!     │                        ▲                                                        │
//!     │                        └── deliveries ◄── hub, on each loop ◄───────────────────┘
//!     └────► page, metrics, readiness
//! ```
//!
//! # Rules
//!
//! 1. A publication that was acknowledged reaches every subscriber that stays connected and reads, even if the gateway drains
//!    meanwhile; one that reads too slowly is told how many it has missed.
//! 2. Loops share the core and the engine; a client belongs to the loop of its connection.
//! 3. Everything that a client can make the gateway hold has a limit with a key, a default, and an answer that names it.
//!
//! | to understand | read |
//! |---|---|
//! | what operators set | [`config`], [`access`] |
//! | how the parts are assembled and drained | [`gateway`] |
//! | how a connection finds its protocol, and the routes of HTTP | [`port`] |
//! | what clients say and are told | [`protocols`], [`topic`], [`error_code`], [`client_protocol`] |
//! | how a command is carried out and a publication delivered | [`session`], [`engine`] |
//! | what operators see | [`page`], [`metrics`], [`log`]; [`demo`] makes something to see |
//! | the program: signals, take-over, service manager | [`operation`] |
#![forbid(unsafe_code)]

pub mod access;
pub mod client_protocol;
pub mod config;
pub mod demo;
pub mod engine;
pub mod error_code;
pub mod gateway;
pub mod log;
pub mod metrics;
pub mod operation;
pub mod page;
pub mod port;
pub mod protocols;
pub mod session;
pub mod topic;
