//! The loops of a cell: a driver, and how groups are built over it.

use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel::channel::driver::OpenDriver;
use waterwheel_testkit::manual::Manual;

use crate::write_counter::WriteCounter;

/// Maximum number of channels of a group with a loop, and so a thread, for each channel.
const MAX_CHANNELS: usize = 200;

/// A driver, and how groups are built over it.
pub(crate) struct Loops {
    driver: WriteCounter,
    /// The manual driver, whose clock the test advances.
    manual: Option<Manual>,
    per_channel: bool,
}

impl Loops {
    /// Describes loops that serve many channels each, over this driver.
    pub(crate) fn over(driver: impl OpenDriver + 'static) -> Self {
        Self { driver: WriteCounter::new(driver), manual: None, per_channel: false }
    }

    /// Describes loops over the manual driver, on its manual clock.
    pub(crate) fn manual(manual: &Manual) -> Self {
        Self { manual: Some(manual.clone()), ..Self::over(manual.clone()) }
    }

    /// Describes groups with a loop for each channel.
    pub(crate) fn per_channel(driver: impl OpenDriver + 'static) -> Self {
        Self { per_channel: true, ..Self::over(driver) }
    }

    /// Returns the driver's name.
    pub(crate) fn name(&self) -> &'static str {
        self.driver.open().expect("the driver opens").name()
    }

    /// Builds a group of this many loops, or with a loop for each channel.
    pub(crate) fn group(&self, threads: usize) -> EventLoopGroup {
        let builder = match self.per_channel {
            false => EventLoopGroup::builder(self.driver.clone()).threads(threads),
            true => EventLoopGroup::per_channel(self.driver.clone()).max_channels(MAX_CHANNELS),
        };
        builder.build().expect("the group is built")
    }

    /// Returns why channels do not share a loop; `None` if they do.
    pub(crate) fn why_no_shared_loop(&self) -> Option<&'static str> {
        let why = "each channel has a thread of its own: the kernel decides which runs next";
        self.per_channel.then_some(why)
    }

    /// Returns how many connections may be open at the same time: a tenth of a process's default descriptor limit. If
    /// each channel has a loop, both ends of a connection use one, and channels that were just closed may still use
    /// theirs.
    pub(crate) fn max_connections(&self) -> usize {
        if self.per_channel { MAX_CHANNELS / 5 } else { 100 }
    }

    /// Returns how many writes the drivers have made.
    pub(crate) fn writes(&self) -> usize {
        self.driver.writes()
    }

    /// Advances the manual clock, if there is one.
    pub(crate) fn advance_clock(&self, time: Duration) {
        if let Some(manual) = &self.manual {
            manual.advance(time);
        }
    }
}
