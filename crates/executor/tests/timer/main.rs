//! Timers (E13), and their effect on sleep, shutdown and virtual clocks.

#[path = "../support/mod.rs"]
mod support;

mod cancellation;
mod firing;
mod limit;
mod model;
mod shutdown;
mod virtual_clock;
mod wake_ups;
