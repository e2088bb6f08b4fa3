//! The pipeline's contract, rule by rule, on the embedded channel.
//!
//! Every test asserts the order of all calls, as logged by recording handlers.

mod support;

mod handlers;
mod io;
mod order;
mod outcomes;
mod page_examples;
