//! UDP channels over every driver, with real sockets on the loopback (C13).

#[path = "../support/loop_rig.rs"]
mod loop_rig;

mod addresses;
mod errors;
mod pressure;
mod reading;
mod reregistration;
mod rounds;
mod sending;
mod support;
