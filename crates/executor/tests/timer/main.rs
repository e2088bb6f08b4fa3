//! Timers (E13), and what they do to sleep, shutdown and virtual clocks.

#[path = "../support/mod.rs"]
mod support;

mod cancellation;
mod firing;
mod limit;
mod model;
mod shutdown;
mod virtual_clock;
mod wake_ups;
