//! Unix sockets over every driver, with real sockets at the other end.

#[path = "../loops/mod.rs"]
mod loops;

#[path = "../tcp/door.rs"]
#[allow(dead_code, reason = "what is about TCP is not used here")]
mod door;

mod connecting;
mod credentials;
mod datagrams;
mod files;
mod held_descriptors;
mod house;
mod like_tcp;
mod mixed;
mod parcels;
mod passing;
mod streams;
