//! Servers: HTTP requests that become WebSocket connections.
//!
//! ```text
//!   service(request) ─► WebSocketUpgrade::of ─► HandshakeError ─► response 4xx
//!                              │
//!                              └─► handle | run | initialise ─► response 101, then the handlers of the connection
//! ```

pub(crate) mod upgrade;
