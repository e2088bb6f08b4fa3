//! TCP channels over every driver, with real sockets on the loopback.

#[path = "../support/loop_rig.rs"]
mod loop_rig;
#[path = "../support/probe.rs"]
mod probe;

mod bootstraps;
mod buffer_owners;
mod connection_limit;
mod driver_panics;
mod existing_sockets;
mod faults;
mod half_closure;
mod lifecycle_order;
mod linger;
mod listener_per_loop;
mod no_spinning;
mod options;
mod reregistration;
mod worker_choice;
mod writes_and_reads;
