//! The protocols of the gateway's clients, over sockets: the promises of `docs/GATEWAY.md`.

mod access;
mod draining;
mod events;
mod http_api;
mod lines;
mod malformed;
mod origins;
mod resume;
mod slow_readers;
mod support;
mod websocket;
