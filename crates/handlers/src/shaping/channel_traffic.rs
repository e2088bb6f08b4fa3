//! The limiters of one channel.

use waterwheel_channel::{AttrKey, Channel};

use super::limiter::TrafficLimiter;

static TRAFFIC: AttrKey<ChannelTraffic> = AttrKey::new("waterwheel.traffic");

/// The own limiters of a channel with a [`TrafficShapingHandler`](super::TrafficShapingHandler): rates and counters,
/// from any thread. A handle, cheap to clone.
///
/// ```
/// use waterwheel_handlers::{ChannelTraffic, TrafficRate, TrafficShaping};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let shaping = TrafficShaping::builder().build()?;
/// let channel = Embedded::new(|edit| {
///     edit.add_first("shaping", shaping.handler())?;
///     Ok(())
/// })?;
/// let traffic = ChannelTraffic::of(channel.channel()).expect("the channel has a shaping handler");
/// traffic.write().set_rate(TrafficRate::per_second(100_000));
/// assert_eq!(traffic.write().stats().held, 0);
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChannelTraffic {
    read: TrafficLimiter,
    write: TrafficLimiter,
}

impl ChannelTraffic {
    pub(super) fn new(read: TrafficLimiter, write: TrafficLimiter) -> Self {
        Self { read, write }
    }

    /// Returns the limiters of a channel; `None` if it never had a shaping handler. If it has several, those of the handler
    /// added last.
    #[must_use]
    pub fn of(channel: &Channel) -> Option<ChannelTraffic> {
        channel.attribute(&TRAFFIC).map(|traffic| ChannelTraffic::clone(&traffic))
    }

    /// Returns the limiter of what the channel reads.
    #[must_use]
    pub fn read(&self) -> &TrafficLimiter {
        &self.read
    }

    /// Returns the limiter of what the channel writes.
    #[must_use]
    pub fn write(&self) -> &TrafficLimiter {
        &self.write
    }

    pub(super) fn attach_to(&self, channel: &Channel) {
        channel.set_attribute(&TRAFFIC, self.clone());
    }
}
