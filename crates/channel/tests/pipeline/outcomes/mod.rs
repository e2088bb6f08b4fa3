//! How operations end: completion, cancellation, error, panic.

mod cancellation;
mod errors;
mod operations;
mod panics;
