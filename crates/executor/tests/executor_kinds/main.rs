//! Executors without a thread of their own: the manual one, the immediate one (E19).

#[path = "../support/mod.rs"]
mod support;

mod immediate;
mod manual;
mod manual_timers;
