//! What an executor offers beside running tasks: its states, the current executor, loop-local values.

#[path = "../support/mod.rs"]
mod support;

mod current;
mod loop_locals;
mod states_and_properties;
