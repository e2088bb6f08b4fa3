//! JSON: commands in, answers and pushes out. `docs/GATEWAY.md` has the protocol.

pub(super) mod commands;
pub(super) mod encoding;
pub(super) mod fields;
pub(super) mod items;
