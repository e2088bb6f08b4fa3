//! For tests, ours and yours: channels without a network, drivers without an operating system, and the
//! suites that every driver and every loop pass.
//!
//! | to | take |
//! |---|---|
//! | test handlers and pipelines, without a network and without waiting | [`embedded`] |
//! | test clients and servers against each other, without a network, over any driver | [`embedded::EmbeddedNetwork`] |
//! | write down what passes through a pipeline | [`recorder`] |
//! | gather the messages of one type | [`message_collector`] |
//! | test a decoder, however its bytes may be cut | [`decoder_verifier`] |
//! | run a loop without sockets and without waiting for time | [`manual`] |
//! | make a driver fail on purpose | [`faulty`] |
//! | replace single methods of a driver | [`driver_wrapper`] |
//! | have a file to send | [`temp_file`] |
//! | have events in another order with every seed | [`shuffled`] |
//! | show that a driver keeps the contract | [`driver_suite`](mod@driver_suite) |
//! | show that event loops keep their promises over a driver | [`loop_suite`](mod@loop_suite) |
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
