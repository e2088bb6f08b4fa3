//! The client against scripted servers: sockets of the manual driver, whose other ends are the test, on one loop that
//! the test turns, and a clock that it moves.

mod bodies;
mod broken;
mod draining;
mod exchanges;
mod own_server;
mod proxies;
mod random;
mod redirects;
mod support;
mod tls;
mod tls_server;
mod upgrades;
