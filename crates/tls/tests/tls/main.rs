//! TLS handlers in embedded channels: two ends that the test joins.

mod alpn;
mod certificates;
mod choice;
mod closing;
mod data;
mod handshake;
mod hostile;
mod stopping;
mod support;
