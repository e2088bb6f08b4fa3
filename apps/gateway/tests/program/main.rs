//! The gateway program as its users and its operators see it: processes, signals, sockets.

#[path = "../redis_engine/server.rs"]
#[allow(dead_code, reason = "each test program uses a part of it")]
mod redis_server;
mod support;

mod arguments;
mod cluster;
mod descriptors;
mod detection;
mod drain_under_load;
mod half_open_tls;
mod life;
mod reload;
mod service_manager;
mod several_gateways;
mod standard_output;
mod take_over;
mod take_over_failures;
mod tls;
