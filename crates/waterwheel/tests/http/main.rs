//! The server of HTTP against programs and libraries that others wrote: curl, wrk, ab, nghttp, slowhttptest, Python's
//! http.client and requests, hyper and reqwest. Most talk to the examples `json_api` and `sse_clock`.
//!
//! A test whose program is not installed prints a note and passes; `scripts/test` installs the programs.

mod corpus_over_sockets;
mod curl;
mod drain;
mod events;
mod http2_refused;
mod hyper_client;
mod lingering;
mod load;
mod python;
mod slow_clients;

#[path = "../../../http/tests/corpus/mod.rs"]
#[allow(dead_code, reason = "the runner of the embedded channel is not used here")]
mod corpus;
mod peer_program;
#[path = "../support/program.rs"]
mod program;
mod raw_client;
mod test_server;
