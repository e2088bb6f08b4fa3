//! Test tools for Waterwheel and its users: channels without a network, drivers without an operating system, and
//! the conformance suites of drivers and event loops.
//!
//! | task | module |
//! |---|---|
//! | test handlers and pipelines without a network and without waiting | [`embedded`] |
//! | test clients and servers against each other without a network, over any driver | [`embedded::EmbeddedNetwork`] |
//! | record the events that pass through a pipeline | [`recorder`] |
//! | collect the inbound messages of one type | [`message_collector`] |
//! | test a decoder with its input split at every position | [`decoder_verifier`] |
//! | run a loop with sockets in memory and a virtual clock | [`manual`] |
//! | inject faults into a driver | [`faulty`] |
//! | override single methods of a driver | [`driver_wrapper`] |
//! | create a temporary file to send | [`temp_file`] |
//! | shuffle the order of a driver's events by a seed | [`shuffled`] |
//! | check that a driver keeps the `Driver` contract | [`driver_suite`](mod@driver_suite) |
//! | check that event loops keep their promises over a driver | [`loop_suite`](mod@loop_suite) |
#![forbid(unsafe_code)]

pub mod decoder_verifier;
pub mod driver_suite;
pub mod driver_wrapper;
pub mod embedded;
pub mod faulty;
pub mod loop_suite;
pub mod manual;
pub mod message_collector;
pub mod recorder;
pub mod shuffled;
#[cfg(test)]
mod suite_listing;
pub mod temp_file;
