//! The loop suite over the manual driver, and over no driver (`TaskOnly`).

use waterwheel_channel::driver::TaskOnly;
use waterwheel_testkit::loop_suite;
use waterwheel_testkit::manual::{ClockMode, Manual};

loop_suite!(readiness, Manual::readiness().with_clock_mode(ClockMode::AutoAdvance));
loop_suite!(completion, Manual::completion().with_clock_mode(ClockMode::AutoAdvance));
loop_suite!(task_only, TaskOnly);
