//! The parts that engines over a network have in common.

pub(in crate::engine) mod back_off;
