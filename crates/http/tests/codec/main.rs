//! The codecs as handlers of a pipeline, over embedded channels.

mod aggregators;
mod allocations;
mod answers;
mod client;
mod endings;
mod pair;
mod requests;
mod test_bench;
mod upgrades;
