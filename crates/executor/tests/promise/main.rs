//! Promises and futures (P01 to P08).

#[path = "../support/mod.rs"]
mod support;

mod awaiting;
mod blocking;
mod chains;
mod combinators;
mod completion;
mod executor_binding;
mod listeners;
mod progress;
