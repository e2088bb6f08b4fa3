//! The state that engines keep in this process: histories, filters and present clients, each within its limits.

pub(in crate::engine) mod history;
pub(in crate::engine) mod interest;
pub(in crate::engine) mod presence;
mod rate;
mod topic_record;
