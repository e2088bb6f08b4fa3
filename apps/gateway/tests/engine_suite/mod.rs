//! The conformance suite of engines, over any engine: a test for each sentence of the contract in
//! `waterwheel_gateway::engine`.
//!
//! An engine gets the suite by one macro: `engine_suite!(name_of_the_module, Fixture)`.
//!
//! Rules of the suite:
//!
//! 1. A test starts a fixture, which is a store of its own, and one or more engines over it.
//! 2. Nothing sleeps: a test waits for a future or for the sink, up to a deadline.
//! 3. Of a topic that no filter matches, the sink may get publications or not: no test expects either.

mod bench;
mod ending;
mod history;
mod order;
mod presence;
mod test_list;

pub(crate) use bench::{
    EngineFixture, RecordingSink, SinkCall, filter, json, member, number, poll_once, publish,
    topic, wait,
};
pub(crate) use ending::*;
pub(crate) use history::*;
pub(crate) use order::*;
pub(crate) use presence::*;
pub(crate) use test_list::engine_suite;
