//! The drivers of this crate pass the drivers' suite; a faulty one without faults is no other, and the
//! order that a seed gives is as good as any.

mod support;

use waterwheel_testkit::driver_suite;
use waterwheel_testkit::faulty::Faulty;
use waterwheel_testkit::manual::Manual;
use waterwheel_testkit::seeded::Seeded;

use crate::support::ByHand;

driver_suite!(readiness, ByHand::new(Manual::readiness(), |manual| manual));
driver_suite!(completion, ByHand::new(Manual::completion(), |manual| manual));
driver_suite!(faulty_readiness, ByHand::new(Manual::readiness(), Faulty::new));
driver_suite!(faulty_completion, ByHand::new(Manual::completion(), Faulty::new));
driver_suite!(seeded_readiness, ByHand::new(Manual::readiness(), |manual| Seeded::new(manual, 1)));
driver_suite!(
    seeded_completion,
    ByHand::new(Manual::completion(), |manual| Seeded::new(manual, 2))
);
