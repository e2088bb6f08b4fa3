//! The event loop: its turns, timers, futures, metrics, watchdog and shutdown. The testkit's loop suite has
//! more, over every driver.

mod panicking_driver;
#[path = "../../../../support/slow_reports.rs"]
mod slow_reports;

mod driver_back_off;
mod future_misuse;
mod futures_across_loops;
mod long_event_rounds;
mod metrics;
mod regressions;
mod shutdown;
mod sleep_and_interval;
mod tail_tasks;
mod task_scope;
mod task_share;
mod watchdog;
