//! Async functions on Waterwheel's loops, and the way back: a connection as an `async fn`, answers in order, and the
//! traits of `futures`, tokio and hyper.
//!
//! # Parts
//!
//! | module | contents | begin with |
//! |---|---|---|
#![forbid(unsafe_code)]
