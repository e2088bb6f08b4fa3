#![doc = include_str!("../../../README.md")]
#![forbid(unsafe_code)]

pub use waterwheel_executor as executor;
