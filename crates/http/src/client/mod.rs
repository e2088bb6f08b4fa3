//! The client.
//!
//! ```text
//!   Client::get ──► OutgoingRequest ──► follow_redirects ──► send_once ──► acquire ──► prepare (tunnel, TLS)
//!                                             ▲                  │            LoopPools
//!                                             └──── redirect ────┤
//!                                                                ▼
//!                              Response<Incoming> ◄──── connection: one exchange
//! ```

#[allow(clippy::module_inception, reason = "the type has the name of its folder")]
pub(crate) mod client;
mod connection;
mod destination;
pub(crate) mod error;
pub(crate) mod options;
mod outgoing_request;
mod pools;
mod preparing;
pub(crate) mod proxy;
mod redirect;
pub(crate) mod request_builder;
mod sending;
pub(crate) mod upgrade;
mod url_reference;
