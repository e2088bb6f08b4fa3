//! Channels as async code sees them.

mod back_pressure;
mod byte_stream;
mod ending;
mod messages;
mod support;
