//! For tests, ours and yours: channels without a network, drivers without an operating system, and the
//! suites that every driver and every loop pass.
//!
//! | to | take |
//! |---|---|
//! | test handlers and pipelines, without a network and without waiting | [`embedded`] |
//! | test clients and servers against each other, without a network, over any driver | [`embedded::Wires`] |
//! | write down what passes through a pipeline | [`recorder`] |
//! | gather the messages of one type | [`collector`] |
//! | test a decoder, however its bytes may be cut | [`decoder_verifier`] |
//! | run a loop without sockets and without waiting for time | [`manual`] |
//! | make a driver fail on purpose | [`faulty`] |
//! | replace single methods of a driver | [`decorator`] |
//! | have a file to send | [`paper`] |
//! | have events in another order with every seed | [`seeded`] |
//! | show that a driver keeps the contract | [`driver_suite`](mod@driver_suite) |
//! | show that event loops keep their promises over a driver | [`loop_suite`](mod@loop_suite) |
#![forbid(unsafe_code)]

pub mod collector;
pub mod decoder_verifier;
pub mod decorator;
pub mod driver_suite;
pub mod embedded;
pub mod faulty;
#[cfg(test)]
mod listed;
pub mod loop_suite;
pub mod manual;
pub mod paper;
pub mod recorder;
pub mod seeded;
