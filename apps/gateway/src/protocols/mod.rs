//! The protocols of the gateway's clients: each brings commands into a session, and writes its answers and pushes.
//!
//! | to understand | read |
//! |---|---|
//! | what can be configured | [`options`] |
//! | the routes of HTTP | [`http`] |
//! | lines over TCP | [`lines`] |

pub mod http;
pub mod lines;
pub mod options;

pub use self::options::{ProtocolOptions, SlowClientPolicy};
