//! The port: one listening socket for all protocols.
//!
//! ```text
//!   accept ──► guards ──► (PROXY header) ──► (TLS) ──► first bytes ──┬─ HTTP/1, HTTP/2 preface ──► HTTP ──► routes
//!                                                                    └─ anything else, silence ──► lines
//!   routes: page, /api/live, /metrics, /healthz, /readyz, and those of the protocols of clients
//! ```
//!
//! # Rules
//!
//! 1. Connections are limited in all and per address before anything is built for them.
//! 2. The first bytes decide by whole request lines: no byte is lost, however the bytes are cut. HTTP/2 is refused by the answer
//!    that HTTP/1 gives to its preface.
//! 3. A client that sends nothing for a while is one of lines, so that a person at a terminal is greeted. Behind TLS the time
//!    counts from the end of the handshake.
//! 4. An open gateway answers requests for hosts of this machine alone: a page of a stranger's domain is not the gateway's own,
//!    wherever its name leads.
//! 5. A connection from a trusted proxy begins with a PROXY header; from others a PROXY header is a line that is not understood.

pub mod admission;
pub mod detection;
pub mod host_guard;
pub mod listening_socket;
pub mod options;
pub mod routes;
pub mod tls;
