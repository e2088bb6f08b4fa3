//! The part of the loop suite that needs sockets, over the manual driver.

mod support;

use waterwheel_testkit::loop_io_suite;
use waterwheel_testkit::manual::Manual;

use crate::support::ManualFixture;

loop_io_suite!(readiness, ManualFixture::new(Manual::readiness(), |manual| manual));
loop_io_suite!(completion, ManualFixture::new(Manual::completion(), |manual| manual));
