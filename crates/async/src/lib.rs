//! Async functions on Waterwheel's loops, and the way back: a connection as an `async fn`, answers in order, and the
//! traits of `futures`, tokio and hyper.
//!
//! # Parts
//!
//! | module | contents | begin with |
//! |---|---|---|
//! | `tokio_runtime` (feature `tokio`) | calls of crates that need tokio, on a runtime of the user's | [`TokioRuntime`] |
#![forbid(unsafe_code)]

#[cfg(feature = "tokio")]
mod tokio_runtime;

#[cfg(feature = "tokio")]
pub use crate::tokio_runtime::{TokioRuntime, TokioTask, TokioTaskError};
