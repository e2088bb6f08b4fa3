//! Embedded channels with a shaping handler.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::ChannelOptions;
use waterwheel_handlers::{
    ChannelTraffic, TrafficLimiter, TrafficRate, TrafficShaping, TrafficShapingBuilder,
};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// 100 bytes in a millisecond; a turn is 1,500 bytes, and the burst 3,000.
pub(crate) const SLOW: TrafficRate = TrafficRate::per_second(100_000);
pub(crate) const BURST: usize = 3000;

pub(crate) fn shaping() -> TrafficShapingBuilder {
    TrafficShaping::builder()
}

/// A channel whose only handler shapes its traffic.
pub(crate) struct Shaped {
    channel: Embedded,
    pub(crate) traffic: ChannelTraffic,
}

impl Shaped {
    /// Creates a stream of bytes.
    pub(crate) fn new(shaping: TrafficShapingBuilder) -> Self {
        Self::with(Embedded::builder().stream(), &shaping.build().unwrap())
    }

    pub(crate) fn with_options(shaping: TrafficShapingBuilder, options: ChannelOptions) -> Self {
        Self::with(Embedded::builder().stream().options(options), &shaping.build().unwrap())
    }

    pub(crate) fn with(builder: EmbeddedBuilder, shaping: &TrafficShaping) -> Self {
        let handler = shaping.handler();
        let traffic = handler.traffic().clone();
        let built = builder.build(|edit| {
            edit.add_last("shaping", handler)?;
            Ok(())
        });
        let mut channel = built.expect("the channel can be built");
        channel.run();
        Self { channel, traffic }
    }

    pub(crate) fn write_limiter(&self) -> &TrafficLimiter {
        self.traffic.write()
    }

    /// Takes what was sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<u8> {
        let sent = std::iter::from_fn(|| self.channel.read_outbound::<Bytes>());
        sent.flat_map(|bytes| bytes.to_vec()).collect()
    }

    pub(crate) fn sent_len(&mut self) -> usize {
        self.sent().len()
    }

    /// Takes what reached the tail since the last call.
    pub(crate) fn read_len(&mut self) -> usize {
        let read = std::iter::from_fn(|| self.channel.read_inbound::<Bytes>());
        read.map(|bytes| bytes.len()).sum()
    }

    /// Moves the clock in steps of a millisecond.
    pub(crate) fn pass(&mut self, millis: u32) {
        for _ in 0..millis {
            self.channel.advance(MS);
        }
    }

    /// Runs the loop after a rate was changed: a task, then a timer that is due at once.
    pub(crate) fn settle(&mut self) {
        self.channel.run();
        self.channel.run();
    }

    /// Counts the timers of the loop.
    pub(crate) fn timers(&mut self) -> usize {
        self.channel.run();
        self.channel.channel().event_loop().metrics().timers
    }
}

impl Deref for Shaped {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.channel
    }
}

impl DerefMut for Shaped {
    fn deref_mut(&mut self) -> &mut Embedded {
        &mut self.channel
    }
}

/// Returns bytes that show gaps and changes of order.
pub(crate) fn numbered(len: usize) -> Bytes {
    (0..len).map(|at| (at * 7 / 3) as u8).collect::<Vec<_>>().into()
}
