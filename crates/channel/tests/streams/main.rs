//! Stream channels over manual drivers of both kinds (readiness and completion), with and without faults.

mod support;

mod close_after_flush;
mod connect_and_reset;
mod deregistration;
mod files;
mod half_closure;
mod loop_shutdown;
mod panics;
mod random_faults;
mod reads;
mod sends_at_once;
mod writes;
