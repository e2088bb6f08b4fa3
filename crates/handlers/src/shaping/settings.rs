//! Shaping as it is set up once for many channels.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel_executor::Error;

use super::channel_traffic::ChannelTraffic;
use super::handler::TrafficShapingHandler;
use super::limiter::{TrafficLimiter, WeakLimiter};
use super::rate::TrafficRate;

/// The default longest delay: 15 seconds, as in Netty.
pub(super) const DEFAULT_LONGEST_DELAY: Duration = Duration::from_secs(15);

/// Traffic shaping for many channels: creates their handlers, and changes the rates of all of them.
///
/// This is a handle: cheap to clone, usable from any thread, built once when the program starts. Each channel gets a
/// [`handler`](Self::handler), next to the transport. A write has to pass the channel's own [`TrafficLimiter`] and those
/// of its groups. Rates change at any time, from any thread, and apply at once to messages that wait.
///
/// # Writes
///
/// 1. While the rate allows it a message is passed on at once. Otherwise it is held, and later ones after it: the order
///    never changes. Held messages are pending bytes of the channel, so water marks, hard cap and the drain of a loop see
///    them; a program that respects writability holds about the high-water mark per channel.
/// 2. Held messages are sent after they were flushed. [`Bytes`](bytes::Bytes) and file regions are sent in parts,
///    without copying; any other message is sent whole when a part of it is allowed, and the excess is a debt that later
///    messages pay. A write completes when its last part was written.
/// 3. A flushed message is held for the [longest delay](TrafficShapingBuilder::longest_delay) at most (15 seconds unless
///    changed). Then it is sent, in addition to the rate that held it; the other rates are charged. A message may be sent
///    up to a sixteenth of that time early.
/// 4. `close`, `disconnect` and `shutdown_output` wait until everything flushed was passed on at the rate, so for the
///    longest delay at most, and go on as without the handler. Meanwhile the channel is open, reads nothing if it is to be
///    closed, and refuses writes with the error of a closed channel. Messages that were not flushed fail, as on any close.
///    To close at once, remove the handler first, or call [`Ctx::abort`](waterwheel_channel::Ctx::abort).
/// 5. A handler that is removed passes everything on, in order, at once. When the channel dies (a reset, a failed write, the
///    end of the peer's data without half-closure) held messages fail with the cause of the close. A drain of the
///    loop waits for held messages, until its own deadline.
///
/// # Reads
///
/// 1. Everything read is passed on at once; nothing is held. When the rate is used up reads pause
///    ([`Ctx::pause_reads`](waterwheel_channel::Ctx::pause_reads)) until the excess and about one more read are paid.
///    Auto-read and reads requested by handlers are not touched. The peer is slowed down by its own transport.
/// 2. A channel exceeds the rate by one read at most (64 KiB by default, see
///    [`ReceiveSizes`](waterwheel_channel::ReceiveSizes)), and then pauses for longer. With the longest delay, rates below
///    one such read per delay are exceeded: 4.4 KB/s with 15 seconds. [`TrafficShapingBuilder::no_longest_delay`] keeps
///    them.
///
/// # Turns
///
/// Channels that wait for a group take turns, in the order in which they began to wait; each passes 10 ms of the group's
/// rate (the quantum). A channel with much to send waits for all others in between. Each direction of a waiting channel has one timer, none while
/// it does not wait; timers are at common times, 2 ms apart, so that many channels wake a loop together.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_handlers::{TrafficLimiter, TrafficRate, TrafficShaping};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let uplink = TrafficLimiter::new(TrafficRate::per_second(1_000_000));
/// let shaping = TrafficShaping::builder()
///     .channel_write(TrafficRate::per_second(100_000))
///     .write_group(&uplink)
///     .build()?;
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_first("shaping", shaping.handler())?;
///     Ok(())
/// })?;
/// let sent = channel.write_outbound(Bytes::from(vec![0; 53_000]));
/// assert_eq!(uplink.stats().held, 50_000, "all but the burst");
/// for _ in 0..50 {
///     channel.advance(Duration::from_millis(10));
/// }
/// assert!(sent.is_done(), "half a second later");
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
#[derive(Clone)]
pub struct TrafficShaping {
    shared: Arc<ShapingShared>,
}

/// The state that the channels of one [`TrafficShaping`] share. The lock is held to add an entry, or to copy the list.
struct ShapingShared {
    read_groups: Vec<TrafficLimiter>,
    write_groups: Vec<TrafficLimiter>,
    longest_delay: Option<Duration>,
    channels: Mutex<ShapedChannels>,
}

#[derive(Default)]
struct ShapedChannels {
    read: ChannelLimiters,
    write: ChannelLimiters,
}

/// The limiters of one direction of all channels, and the rate of new ones.
#[derive(Default)]
struct ChannelLimiters {
    rate: Option<TrafficRate>,
    limiters: Vec<WeakLimiter>,
    /// The length at which dead entries are removed: twice the living ones of the last time.
    clean_at: usize,
}

impl TrafficShaping {
    /// Returns a builder without rates.
    pub fn builder() -> TrafficShapingBuilder {
        TrafficShapingBuilder::default()
    }

    /// Creates the handler of one channel, with limiters of its own and those of the groups.
    #[must_use]
    pub fn handler(&self) -> TrafficShapingHandler {
        let mut channels = self.shared.lock();
        let traffic = ChannelTraffic::new(channels.read.add(), channels.write.add());
        drop(channels);
        TrafficShapingHandler::new(
            traffic,
            &self.shared.read_groups,
            &self.shared.write_groups,
            self.shared.longest_delay,
        )
    }

    /// Changes the rate at which each channel reads, of all present and future channels; `None` for no limit. Rates that
    /// were set for single channels are replaced.
    pub fn set_channel_read_rate(&self, rate: impl Into<Option<TrafficRate>>) {
        let rate = rate.into();
        let limiters = self.shared.lock().read.set_rate(rate);
        limiters.iter().for_each(|limiter| limiter.set_rate(rate));
    }

    /// Changes the rate at which each channel writes, of all present and future channels; `None` for no limit. Rates
    /// that were set for single channels are replaced.
    pub fn set_channel_write_rate(&self, rate: impl Into<Option<TrafficRate>>) {
        let rate = rate.into();
        let limiters = self.shared.lock().write.set_rate(rate);
        limiters.iter().for_each(|limiter| limiter.set_rate(rate));
    }
}

impl ShapingShared {
    fn lock(&self) -> MutexGuard<'_, ShapedChannels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChannelLimiters {
    fn add(&mut self) -> TrafficLimiter {
        let limiter = TrafficLimiter::with_rate(self.rate);
        if self.limiters.len() >= self.clean_at {
            self.limiters.retain(|limiter| limiter.upgrade().is_some());
            self.clean_at = (2 * self.limiters.len()).max(16);
        }
        self.limiters.push(WeakLimiter::new(&limiter));
        limiter
    }

    /// Stores the rate for new channels. Returns the limiters of the present ones.
    fn set_rate(&mut self, rate: Option<TrafficRate>) -> Vec<TrafficLimiter> {
        self.rate = rate;
        self.limiters.iter().filter_map(WeakLimiter::upgrade).collect()
    }
}

impl fmt::Debug for TrafficShaping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channels = self.shared.lock();
        f.debug_struct("TrafficShaping")
            .field("channel_read", &channels.read.rate)
            .field("channel_write", &channels.write.rate)
            .field("read_groups", &self.shared.read_groups)
            .field("write_groups", &self.shared.write_groups)
            .field("longest_delay", &self.shared.longest_delay)
            .finish()
    }
}

/// Builds a [`TrafficShaping`]. Without rates and groups its handlers only count.
#[must_use]
#[derive(Clone, Debug)]
pub struct TrafficShapingBuilder {
    channel_read: Option<TrafficRate>,
    channel_write: Option<TrafficRate>,
    read_groups: Vec<TrafficLimiter>,
    write_groups: Vec<TrafficLimiter>,
    longest_delay: Option<Duration>,
}

impl Default for TrafficShapingBuilder {
    fn default() -> Self {
        Self {
            channel_read: None,
            channel_write: None,
            read_groups: Vec::new(),
            write_groups: Vec::new(),
            longest_delay: Some(DEFAULT_LONGEST_DELAY),
        }
    }
}

impl TrafficShapingBuilder {
    /// Limits the rate at which each channel reads.
    pub fn channel_read(mut self, rate: TrafficRate) -> Self {
        self.channel_read = Some(rate);
        self
    }

    /// Limits the rate at which each channel writes.
    pub fn channel_write(mut self, rate: TrafficRate) -> Self {
        self.channel_write = Some(rate);
        self
    }

    /// Limits what all channels of the group read together. A channel may be in several groups: of a tenant and of the
    /// server, for example. The same limiter may be given to several `TrafficShaping`s, and to both directions.
    pub fn read_group(mut self, group: &TrafficLimiter) -> Self {
        self.read_groups.push(group.clone());
        self
    }

    /// Limits what all channels of the group write together, like [`read_group`](Self::read_group).
    pub fn write_group(mut self, group: &TrafficLimiter) -> Self {
        self.write_groups.push(group.clone());
        self
    }

    /// Sets the longest time that a message is held or reads are paused. Default: 15 seconds, as in Netty. A message
    /// that has waited so long is sent in addition to the rate ([`TrafficStats::overdue`](super::TrafficStats::overdue)).
    /// A graceful close takes no longer than this either.
    pub fn longest_delay(mut self, delay: Duration) -> Self {
        self.longest_delay = Some(delay);
        self
    }

    /// Removes the limit of the delay: the rate is never exceeded. A close waits until everything flushed was sent,
    /// however long that takes at the rate.
    pub fn no_longest_delay(mut self) -> Self {
        self.longest_delay = None;
        self
    }

    /// Builds the shaping.
    ///
    /// # Errors
    /// [`InvalidShaping`] names the setting that is wrong.
    pub fn build(self) -> Result<TrafficShaping, InvalidShaping> {
        if self.longest_delay.is_some_and(|delay| delay.is_zero()) {
            return Err(InvalidShaping::ZeroDelay);
        }
        for (direction, groups) in [("read", &self.read_groups), ("write", &self.write_groups)] {
            let is_repeated = |(at, group): (usize, &TrafficLimiter)| {
                groups[..at].iter().any(|other| other.is_same(group))
            };
            if groups.iter().enumerate().any(is_repeated) {
                return Err(InvalidShaping::RepeatedGroup { direction });
            }
        }
        let channels = ShapedChannels {
            read: ChannelLimiters { rate: self.channel_read, ..ChannelLimiters::default() },
            write: ChannelLimiters { rate: self.channel_write, ..ChannelLimiters::default() },
        };
        Ok(TrafficShaping {
            shared: Arc::new(ShapingShared {
                read_groups: self.read_groups,
                write_groups: self.write_groups,
                longest_delay: self.longest_delay,
                channels: Mutex::new(channels),
            }),
        })
    }
}

/// Why a [`TrafficShaping`] cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidShaping {
    /// The longest delay is zero: nothing would ever be held.
    #[error(
        "the longest delay is zero, so no rate could hold; use `no_longest_delay` for no limit"
    )]
    ZeroDelay,
    /// A group was given twice for one direction: every byte would count twice.
    #[error(
        "the same group was given twice with `{direction}_group`; every byte would count twice"
    )]
    RepeatedGroup {
        /// The direction: `read` or `write`.
        direction: &'static str,
    },
}

impl From<InvalidShaping> for Error {
    fn from(error: InvalidShaping) -> Self {
        Error::new(error)
    }
}
