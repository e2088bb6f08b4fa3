//! Chunked writes on an embedded channel, with every wait under the test's control.

mod support;

mod cancelling;
mod closing;
mod flow;
mod order;
mod properties;
mod reader;
mod removal;
mod results;
