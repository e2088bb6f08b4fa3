//! The commands of a client, whatever protocol it speaks.
//!
//! ```text
//!   WebSocket, lines ── GatewayCommand ──► Session ──► hub, engine
//!          ▲                           │
//!          └── ClientConnection ◄──────┴── answers in the order of the commands; pushes of the hub
//! ```
//!
//! A session lives on the loop of its client. It carries commands out one after the other, and writes answers and pushes
//! through a [`ClientConnection`](connection::ClientConnection), which the protocol implements: the answer to a subscription
//! comes before its recovered publications, which follow it at once, with no other push between, and those before what is
//! published from then on.

//!
//! | to understand | read |
//! |---|---|
//! | what clients ask for and are sent | [`command`], [`reply`], [`delivery`] |
//! | how a command is carried out | [`Session`], then [`operations`] |
//! | how a publication reaches the clients of all loops | `hub` |
//! | what all loops share, and the drain | [`core`] |
//! | the limits of clients | [`limits`] |

mod client;
pub mod command;
pub mod connection;
pub mod core;
pub mod delivery;
mod hub;
pub mod limits;
pub mod operations;
pub mod reply;
pub mod requester;

pub use self::client::{Session, SessionStart};
