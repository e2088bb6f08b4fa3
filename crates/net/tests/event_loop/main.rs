//! Event loops over every driver of this crate, with real descriptors.

#[path = "../support/driver_rig.rs"]
mod driver_rig;
#[path = "../support/loop_rig.rs"]
mod loop_rig;

mod drain;
mod event_order;
mod fairness;
mod faults;
mod foreign_descriptors;
mod hostile_registrations;
mod no_spinning;
mod selector_rebuild;
mod single_read_rounds;
mod sleep_and_wake;
