//! User code and transports that misuse a channel: the channel survives, or at least its loop does.

mod support;

mod destructors_that_write;
mod extreme_sizes;
mod kept_contexts;
mod nested_writes;
mod panicking_destructors;
mod panicking_transports;
mod panics_while_closing;
mod refused_sockets;
mod repeated_events;
mod repeated_registration;
mod size_hint_that_panics;
mod size_hint_that_writes;
