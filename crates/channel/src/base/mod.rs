//! Values and small containers without any knowledge of loops or channels.
//!
//! | file | holds |
//! |---|---|
//! | `token.rs` | names of registrations with a generation, and tables indexed by them |
//! | `metrics.rs` | the counters of a loop |
//! | `local_queue.rs`, `queue_capacity.rs` | queues of one thread, and how much room an empty one keeps |
//! | `wake_flag.rs` | a flag that any thread raises and a loop lowers |
//! | `report_throttle.rs` | how often a repeated fault is reported |
//! | `quoted.rs` | a peer's bytes in an error text |

pub(crate) mod local_queue;
pub(crate) mod metrics;
pub(crate) mod queue_capacity;
pub(crate) mod quoted;
pub(crate) mod report_throttle;
pub(crate) mod token;
pub(crate) mod wake_flag;
