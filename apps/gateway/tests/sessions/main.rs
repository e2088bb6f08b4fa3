//! Sessions and the hub on a loop with a virtual clock, over an engine that does what a test says.

mod commands;
mod draining;
mod gaps;
mod interests;
mod lines;
mod races;
mod support;
