//! Channels as async code sees them.

mod back_pressure;
mod byte_stream;
mod dropped_halves;
mod ending;
mod messages;
mod re_entrancy;
mod support;
