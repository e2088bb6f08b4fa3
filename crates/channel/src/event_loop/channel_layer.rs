//! The contract between a loop and the channel layer above it.
//!
//! ```text
//!   phase 2   events ──► run_deferred               work that calls into channels have deferred
//!   phase 3   begin_task_phase ──► tasks ──► run_deferred
//!   phase 5   close_all, once the shutdown has begun; the loop lives on while `count` is above zero
//!   the end   finish_all, before the driver is dropped
//! ```
//!
//! The loop owns the channels, because it asks them several times per turn, but it knows them only by these traits.
//! The channel layer names their type by implementing [`ChannelLayer`] for [`ChannelLayerMarker`]. If the loop were
//! a crate of its own, it would have a type parameter instead.

use waterwheel_executor::Error;

use crate::event_loop::drain::loop_drain::Drainable;

/// The channels of a loop. Only the loop's thread uses them.
pub(crate) trait HostedChannels: Drainable + Default {
    /// Returns the number of channels.
    fn count(&self) -> usize;

    /// Returns the number of channels with deferred work. The loop sleeps only if the number is zero.
    fn pending_count(&self) -> usize;

    /// Begins a task phase: channels that deferred reads to the next turn continue now.
    fn begin_task_phase(&self);

    /// Runs the work that calls into channels have deferred, unless such a call is on the stack.
    fn run_deferred(&self);

    /// Closes all channels with this cause, because a shutdown has begun: after their flushed writes, or at once if
    /// the loop has died.
    fn close_all(&self, cause: &Error);

    /// Closes all channels at once with this cause, because the loop has ended.
    fn finish_all(&self, cause: &Error);
}

/// Names the type of a loop's set of channels. Implemented once, by the channel layer.
pub(crate) trait ChannelLayer {
    type Channels: HostedChannels;
}

/// The type for which the channel layer implements [`ChannelLayer`].
pub(crate) struct ChannelLayerMarker;

/// The set of a loop's channels: the type that the channel layer supplies.
pub(crate) type HostedChannelSet = <ChannelLayerMarker as ChannelLayer>::Channels;
