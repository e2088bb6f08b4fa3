//! The suite that every event loop passes, whatever its driver: the clauses of the loop, one by one.
//!
//! The driver's crate writes one line:
//!
//! ```
//! use waterwheel_channel::driver::TaskOnly;
//!
//! waterwheel_testkit::loop_suite!(task_only, TaskOnly);
//! ```
//!
//! and another one for the part that needs something to watch, with the fixture that it has for the
//! [drivers' suite](mod@crate::driver_suite): `loop_io_suite!(epoll, MyFixture)`.
//!
//! Rules of the suite:
//!
//! 1. Most tests drive a loop by hand, on their own thread, turn by turn: what a turn does, and what it
//!    leaves to the next, can be told apart. Those that are about threads use a group.
//! 2. Nothing sleeps. Time is the driver's: on a virtual clock, which must jump, a test costs nothing.
//! 3. Every driver is wrapped in a [faulty](crate::faulty) one, which counts its calls and can be made
//!    to fail; every report of a loop is kept.
//!
//! The numbers in the names are the promises: l03 phases of a turn, l09 tail tasks, l12 loops driven by
//! hand, l15 futures, e10 wake-ups, e12 panics, e16 teardown, p04 blocking.

mod bench;
mod futures;
mod futures_ending;
mod futures_threads;
mod futures_time;
pub mod io;
mod manual_loop;
mod phases;
mod tail_tasks;
mod test_list;
mod threads;

pub use self::bench::{Bench, Reports, blow};
pub use self::futures::*;
pub use self::futures_ending::*;
pub use self::futures_threads::*;
pub use self::futures_time::*;
pub use self::manual_loop::*;
pub use self::phases::*;
pub use self::tail_tasks::*;
pub use self::threads::*;
