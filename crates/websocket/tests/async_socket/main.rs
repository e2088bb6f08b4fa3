//! A connection as async code sees it: messages and ends, back-pressure, calls that are dropped, halves, `Stream` and `Sink`
//! (W01, W02, W05, A01, A06).

mod back_pressure;
mod dropped_calls;
mod ends;
mod futures_traits;
mod halves;
mod messages;
mod server_functions;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod support;

use waterwheel_testkit::manual::Peer;
use waterwheel_websocket::{WebSocket, WebSocketOptions};

use crate::support::client_bench::ClientBench;

/// Returns a client that is connected to the test, with default options.
fn connected() -> (ClientBench, Peer, WebSocket) {
    let mut bench = ClientBench::new(&WebSocketOptions::default());
    let (peer, socket) = bench.open();
    (bench, peer, socket)
}
