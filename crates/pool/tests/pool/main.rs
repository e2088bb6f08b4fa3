//! The client pool (K12), over a manually driven driver and its clock.

mod support;

mod acquire;
mod broken;
mod closing;
mod hooks;
mod limits;
mod loops;
mod reentrancy;
mod time_limits;
