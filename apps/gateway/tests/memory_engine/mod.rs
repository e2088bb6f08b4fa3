//! The promises of the engine in memory beyond the contract: its limits, and the threads that call the sink.

mod bounds;
mod model;
