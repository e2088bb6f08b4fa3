//! TLS handlers in embedded channels: two ends that the test joins.

mod algorithms;
mod alpn;
mod authority;
mod certificates;
mod choice;
mod client_certificates;
mod closing;
mod data;
mod handshake;
mod hostile;
mod resumption;
mod stopping;
mod support;
