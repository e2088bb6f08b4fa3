//! The client and the example `reverse_proxy` against servers and clients that others wrote: nginx, hyper, Python's
//! http.server, curl, wrk; and against scripted servers, for what those do not do.
//!
//! A test whose program is not installed prints a note and passes; `scripts/test` installs the programs.

mod bodies;
mod client_program;
mod client_servers;
mod client_tls;
mod connect_proxy;
mod ends;
mod fields;
mod in_nginx;
mod nginx_files;
mod support;
mod upgrades;

#[path = "../tls/support/certificates.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod certificates;
#[path = "../support/program.rs"]
mod program;

/// The name in the certificates of servers.
const NAME: &str = "localhost";
