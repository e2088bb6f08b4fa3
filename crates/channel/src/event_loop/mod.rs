//! Event loops: executors that also wait for I/O.
//!
//! | to understand | read |
//! |---|---|
//! | one turn | `turn`, with its `select_strategy`, `task_budget` and `spin_guard` |
//! | the state that lives on the loop's thread | `local_loop`, `registrations`, `tail_tasks` |
//! | the contract with the channel layer above | `channel_layer` |
//! | the handles that other threads hold | `handle`, `group`, `waker`, `command` |
//! | draining | `drain`, then `drain::loop_drain` on one loop and `drain::consensus` between loops |
//! | building loops | `builder`; `manual` for a loop that its caller drives |
//! | groups with one loop for each channel | `loop_pool` |

pub(crate) mod builder;
pub(crate) mod channel_layer;
pub(crate) mod command;
pub(crate) mod drain;
pub(crate) mod group;
pub(crate) mod handle;
pub(crate) mod local_loop;
pub(crate) mod loop_pool;
pub(crate) mod manual;
pub(crate) mod registrations;
pub(crate) mod tail_tasks;
pub(crate) mod turn;
pub(crate) mod waker;
