//! TLS on the gateway's port: its configuration and its handlers in [`tls_port`], the handler after TLS in
//! [`handshake_monitor`].

pub mod handshake_monitor;
pub mod tls_port;
