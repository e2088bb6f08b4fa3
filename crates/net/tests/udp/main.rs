//! UDP channels over every driver, with real sockets on the loopback (C13).

#[path = "../loops/mod.rs"]
mod loops;

mod addresses;
mod errors;
mod leaving;
mod post;
mod pressure;
mod reading;
mod rounds;
mod sending;
