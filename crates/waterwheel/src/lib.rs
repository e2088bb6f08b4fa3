//! Waterwheel: Netty's event-loop and threading model in Rust.
//!
//! This crate only re-exports; the layers below do the work.
//!
//! - [`executor`]: single-threaded executors, promises, graceful shutdown.
#![forbid(unsafe_code)]

pub use waterwheel_executor as executor;
