//! TCP channels over every driver, with real sockets on the loopback.

#[path = "../loops/mod.rs"]
mod loops;

mod balance;
mod bootstraps;
mod corners;
mod door;
mod driver_panics;
mod each_loop;
mod existing;
mod faults;
mod half_closure;
mod leaving;
mod limits;
mod linger;
mod order;
mod owners;
mod writes;
