//! Clients: connections to WebSocket servers, over the HTTP client.
//!
//! ```text
//!   WebSocketConnector ─► WebSocketRequest ─► HTTP client: name, connect, proxy, TLS, request, response
//!                                                │
//!                                                └─► connect | connect_with | connect_pipeline, or ConnectError
//! ```

pub(crate) mod connect_error;
pub(crate) mod connector;
pub(crate) mod opening;
