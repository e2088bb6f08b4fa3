//! TLS on the gateway's port: its configuration and its handlers in [`port`], the handler after TLS in
//! [`handshake_monitor`].

pub mod handshake_monitor;
pub mod port;
