//! The executor's API besides running tasks: states, properties, the current executor, loop-local values.

#[path = "../support/mod.rs"]
mod support;

mod current;
mod loop_locals;
mod states_and_properties;
