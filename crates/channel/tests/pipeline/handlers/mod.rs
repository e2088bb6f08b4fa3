//! Handlers in a pipeline: adding, replacing, removing, interest, message types, timers.

mod editing;
mod handover;
mod interest;
mod message_types;
mod protocol_upgrade;
mod removal;
mod timers;
