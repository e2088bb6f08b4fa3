//! The driver suite over the drivers of this crate: manual, faulty without faults, and shuffled.

mod support;

use waterwheel_testkit::driver_suite;
use waterwheel_testkit::faulty::Faulty;
use waterwheel_testkit::manual::Manual;
use waterwheel_testkit::shuffled::Shuffled;

use crate::support::ManualFixture;

driver_suite!(readiness, ManualFixture::new(Manual::readiness(), |manual| manual));
driver_suite!(completion, ManualFixture::new(Manual::completion(), |manual| manual));
driver_suite!(faulty_readiness, ManualFixture::new(Manual::readiness(), Faulty::new));
driver_suite!(faulty_completion, ManualFixture::new(Manual::completion(), Faulty::new));
driver_suite!(
    shuffled_readiness,
    ManualFixture::new(Manual::readiness(), |manual| Shuffled::new(manual, 1))
);
driver_suite!(
    shuffled_completion,
    ManualFixture::new(Manual::completion(), |manual| Shuffled::new(manual, 2))
);
