//! How operations end: completion, cancellation, error, panic.

mod cancellation;
mod causes;
mod errors;
mod operations;
mod panics;
