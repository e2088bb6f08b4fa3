//! The event loop: an executor that also waits for the outside world.
#![forbid(unsafe_code)]

pub mod driver;
mod token;

pub use crate::token::{Slab, Token, TokenMap};
