//! Async functions over real sockets, with other libraries and programs. `scripts/test` installs the programs; a test
//! fails without its program.

mod axum;
mod examples;
mod grpc;
mod hyper;
mod ordered;
mod postgres;
mod tokio_crates;
mod with_tokio;

mod http_programs;
mod line_client;
mod page_server;
#[path = "../support/program.rs"]
mod program;
