//! TLS that begins, ends or chooses in the middle of a pipeline, over real sockets and with other programs: one port for
//! TLS and plain text, ALPN, STARTTLS, a proxy that terminates TLS, a router by name, a pool of clients. `scripts/test`
//! installs the programs.

mod client_pool;
mod one_port;
mod routing;
mod starttls;
mod support;
mod terminating_proxy;

#[path = "../support/program.rs"]
mod program;
#[path = "../support/random.rs"]
#[allow(dead_code, reason = "these tests cut bytes, and need no random ones")]
mod random;
