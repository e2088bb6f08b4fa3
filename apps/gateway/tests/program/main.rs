//! The gateway program as its users and its operators see it: processes, signals, sockets.

mod support;

mod arguments;
mod descriptors;
mod detection;
mod drain_under_load;
mod half_open_tls;
mod life;
mod reload;
mod service_manager;
mod standard_output;
mod take_over;
mod take_over_failures;
mod tls;
