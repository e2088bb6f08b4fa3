//! Event loops over the drivers of this crate, and over none, pass the loops' suite.

use waterwheel_channel::driver::TaskOnly;
use waterwheel_testkit::loop_suite;
use waterwheel_testkit::manual::{ClockMode, Manual};

loop_suite!(readiness, Manual::readiness().with_clock_mode(ClockMode::AutoAdvance));
loop_suite!(completion, Manual::completion().with_clock_mode(ClockMode::AutoAdvance));
loop_suite!(task_only, TaskOnly);
