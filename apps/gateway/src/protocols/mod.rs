//! The protocols of the gateway's clients: each brings commands into a session, and writes its answers and pushes.
//!
//! | to understand | read |
//! |---|---|
//! | what can be configured | [`options`] |
//! | the routes of HTTP | [`http`] |
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
