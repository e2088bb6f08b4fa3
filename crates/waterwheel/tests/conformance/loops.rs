//! What the channels of a cell run on.

use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel::channel::driver::OpenDriver;
use waterwheel_testkit::manual::Manual;

use crate::write_counter::WriteCounter;

/// A group with a loop for each channel has so many: each is a thread.
const MAX_CHANNELS: usize = 200;

/// A driver, and how loops are made of it.
pub(crate) struct Loops {
    driver: WriteCounter,
    /// Whose clock has to be moved.
    manual: Option<Manual>,
    per_channel: bool,
}

impl Loops {
    /// Loops that share the channels.
    pub(crate) fn over(driver: impl OpenDriver + 'static) -> Self {
        Self { driver: WriteCounter::new(driver), manual: None, per_channel: false }
    }

    /// The same, on a clock that stands.
    pub(crate) fn manual(manual: &Manual) -> Self {
        Self { manual: Some(manual.clone()), ..Self::over(manual.clone()) }
    }

    /// A loop for each channel.
    pub(crate) fn per_channel(driver: impl OpenDriver + 'static) -> Self {
        Self { per_channel: true, ..Self::over(driver) }
    }

    /// The driver's name.
    pub(crate) fn name(&self) -> &'static str {
        self.driver.open().expect("a driver").name()
    }

    /// So many, unless each channel has its own.
    pub(crate) fn group(&self, threads: usize) -> EventLoopGroup {
        let builder = match self.per_channel {
            false => EventLoopGroup::builder(self.driver.clone()).threads(threads),
            true => EventLoopGroup::per_channel(self.driver.clone()).max_channels(MAX_CHANNELS),
        };
        builder.build().expect("a group")
    }

    /// Why no two channels have the same loop, if it is so.
    pub(crate) fn why_one_each(&self) -> Option<&'static str> {
        let why = "each channel has a thread of its own: who is next is the kernel's affair";
        self.per_channel.then_some(why)
    }

    /// How many connections there may be at the same time: a tenth of the descriptors that a process may
    /// have by default. Where each channel has a loop, both ends of a connection have one, and those that
    /// have just been closed may still have theirs.
    pub(crate) fn at_once(&self) -> usize {
        if self.per_channel { MAX_CHANNELS / 5 } else { 100 }
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
