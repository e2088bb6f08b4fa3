//! Event loops over the manual driver pass the part of the loops' suite that watches something.

mod support;

use waterwheel_testkit::loop_io_suite;
use waterwheel_testkit::manual::Manual;

use crate::support::ByHand;

loop_io_suite!(readiness, ByHand::new(Manual::readiness(), |manual| manual));
loop_io_suite!(completion, ByHand::new(Manual::completion(), |manual| manual));
