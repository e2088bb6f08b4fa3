//! The protocols of the gateway's clients: each brings commands into a session, and writes its answers and pushes.
//!
//! ```text
//!   /ws ─────► websocket ──┐                                       ┌── channel_client ◄── client_queue
//!   lines ───► lines ──────┼─► Session ─► hub, engine ─► pushes ───┤      (written at the end of the turn)
//!   /events ─► events ─────┘                                       └── events::stream ◄── client_queue
//!   /api, /topics ─► http_api ─► GatewayCore                              (taken while the channel has room)
//! ```
//!
//! | to understand | read |
//! |---|---|
//! | what can be configured | [`options`] |
//! | how commands are read and answers written as JSON | `json` |
//! | what waits for a client, and what happens if that is too much | `client_queue` |
//! | clients with a channel of their own: back-pressure, close | `channel_client`, `turn_end` |
//! | the routes of HTTP, and which pages may use them | [`http`], `origin` |
//! | lines over TCP | [`lines`] |

mod channel_client;
mod client_queue;
mod events;
pub mod http;
mod http_api;
mod json;
pub mod lines;
pub mod options;
mod origin;
mod turn_end;
mod websocket;

pub use self::options::{ProtocolOptions, SlowClientPolicy};
