//! ALPN chooses the pipeline of a connection (T03).
//!
//! ```text
//!   TlsHandler ──TlsHandshake──► AlpnHandler ──┬─ a protocol with a pipeline ► its initialiser edits the pipeline
//!                                   │          ├─ nothing was negotiated ────► the fallback's initialiser, or error and close
//!                                   │          └─ a protocol without one ────► error and close
//!                                   └ then removes itself: on_active, user events and plaintext go to the chosen handlers
//! ```
//!
//! 1. The choice is made when the [`TlsHandshake`](crate::TlsHandshake) event comes, before the first byte of plaintext:
//!    no byte is held. [`PipelineHandover`](waterwheel_channel::PipelineHandover) has the rules of the handing over.
//! 2. A handshake that fails chooses nothing: its error passes to the handlers after this one, which see neither
//!    `on_active` nor `on_inactive`. The limit of the handshake is the limit of the wait.
//! 3. Bytes before a handshake, or the end of the stream, mean that there is no TLS before this handler: error and
//!    close, so that a protocol that is meant for TLS is never spoken in the clear.

mod alpn_handler;
mod builder;
mod error;

pub use self::alpn_handler::AlpnHandler;
pub use self::builder::{AlpnHandlerBuilder, InvalidAlpnHandler};
pub use self::error::AlpnError;
