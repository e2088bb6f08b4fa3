//! WebSocket servers and clients against those that others wrote: Autobahn's suite, Chromium, Python's websockets, Node's ws
//! and Netty. Most talk to a server in the process of the test, which notes what it sees (`echo_server.rs`); `peers/` has the
//! programs at the other end.
//!
//! A test whose program is not installed prints a note and passes; `scripts/test` installs the programs.

mod autobahn;
mod autobahn_report;
mod echo_server;
mod peers;
mod peers_as_clients;
mod peers_as_servers;
mod programs;
mod support;
mod transports;

#[path = "../tls/support/certificates.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod certificates;
#[path = "../tls/support/peer_program.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod peer_program;
#[path = "../support/program.rs"]
mod program;

/// The name in the certificates of servers.
const NAME: &str = "localhost";
