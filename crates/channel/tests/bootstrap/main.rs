//! Bootstraps: servers that accept, clients that connect, over a manually driven driver and its clock.

mod support;

mod accept;
mod connect;
mod guards;
mod servers_and_clients;
