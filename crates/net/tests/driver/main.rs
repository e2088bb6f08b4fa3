//! Drivers called directly, without an event loop, over every selector.

#[path = "../support/closable.rs"]
mod closable;
#[path = "../support/driver_rig.rs"]
mod driver_rig;

mod accepts;
mod foreign_descriptors;
mod no_spinning;
mod short_reads;
mod streams;
mod token_identity;
mod waits_and_wakers;
