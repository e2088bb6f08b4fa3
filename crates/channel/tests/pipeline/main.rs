//! The pipeline's contract, clause by clause, on the embedded channel: what happens, in which order.
//!
//! Every test asserts the whole order, as the lines that recording handlers wrote.

mod support;

mod handlers;
mod io;
mod order;
mod outcomes;
mod page_examples;
