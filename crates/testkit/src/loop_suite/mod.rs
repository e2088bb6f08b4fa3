//! The conformance suite of event loops, over any driver.
//!
//! A driver's crate calls one macro:
//!
//! ```
//! use waterwheel_channel::driver::TaskOnly;
//!
//! waterwheel_testkit::loop_suite!(task_only, TaskOnly);
//! ```
//!
//! and another macro for the part that needs sockets, with its fixture of the
//! [driver suite](mod@crate::driver_suite): `loop_io_suite!(epoll, MyFixture)`.
//!
//! Rules of the suite:
//!
//! 1. Most tests run a manual loop on their own thread, turn by turn, which shows what each turn does. Tests about
//!    threads use a group.
//! 2. Nothing sleeps. Time is the driver's clock: on a virtual clock, which must advance by itself, a test costs no
//!    time.
//! 3. Every driver is wrapped in a [faulty](crate::faulty) one, which counts its calls and can be made to fail; every
//!    report of a loop is kept.
//!
//! The numbers in the names refer to the promises in `docs/PROMISES.md`: l03 phases of a turn, l09 tail tasks, l12
//! manual loops, l15 futures, e10 wake-ups, e12 panics, e16 teardown, p04 blocking.

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

pub use self::bench::{Bench, Reports, panic_quietly};
pub use self::futures::*;
pub use self::futures_ending::*;
pub use self::futures_threads::*;
pub use self::futures_time::*;
pub use self::manual_loop::*;
pub use self::phases::*;
pub use self::tail_tasks::*;
pub use self::threads::*;
