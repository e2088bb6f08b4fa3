//! Event loops: executors that also wait for the outside world.
//!
//! | to understand | read |
//! |---|---|
//! | one turn | `turn`, with `strategy`, `budget` and `spin_guard` |
//! | what lives on the loop | `local_loop`, `registrations`; `residents` of the layer above |
//! | what other threads hold | `handle`, `group`, `waker`, `command` |
//! | draining | `drain`, then `draining` on the loop and `agreement` between loops |
//! | how loops are made | `builder`, `by_hand` |
//! | a loop for each channel | `berths` |

pub(crate) mod agreement;
pub(crate) mod berths;
pub(crate) mod budget;
pub(crate) mod builder;
pub(crate) mod by_hand;
pub(crate) mod command;
pub(crate) mod drain;
pub(crate) mod draining;
pub(crate) mod group;
pub(crate) mod handle;
pub(crate) mod local_loop;
pub(crate) mod registrations;
pub(crate) mod residents;
pub(crate) mod spin_guard;
pub(crate) mod strategy;
pub(crate) mod turn;
pub(crate) mod waker;
