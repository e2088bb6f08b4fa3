//! What the channels of a cell run on.

use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel::channel::driver::OpenDriver;
use waterwheel_testkit::manual::Manual;

use crate::counted::Counted;

/// A driver, and how loops are made of it.
pub(crate) struct Loops {
    driver: Counted,
    /// Whose clock has to be moved.
    manual: Option<Manual>,
}

impl Loops {
    /// Loops that share the channels.
    pub(crate) fn over(driver: impl OpenDriver + 'static) -> Self {
        Self { driver: Counted::new(driver), manual: None }
    }

    /// The same, on a clock that stands.
    pub(crate) fn by_hand(manual: &Manual) -> Self {
        Self { manual: Some(manual.clone()), ..Self::over(manual.clone()) }
    }

    /// The driver's name.
    pub(crate) fn name(&self) -> &'static str {
        self.driver.open().expect("a driver").name()
    }

    pub(crate) fn group(&self, threads: usize) -> EventLoopGroup {
        EventLoopGroup::builder(self.driver.clone()).threads(threads).build().expect("a group")
    }

    /// How often the drivers were asked to write.
    pub(crate) fn writes(&self) -> usize {
        self.driver.writes()
    }

    /// So long passes, on a clock that stands.
    pub(crate) fn pass(&self, time: Duration) {
        if let Some(manual) = &self.manual {
            manual.advance(time);
        }
    }
}
