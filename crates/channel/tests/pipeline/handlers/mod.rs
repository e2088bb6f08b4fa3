//! Handlers in a pipeline: how they are added, replaced and removed, what they are called for.

mod editing;
mod interest;
mod message_types;
mod protocol_upgrade;
mod removal;
mod timers;
