//! What the layer above keeps on each loop, and what the loop asks of it.
//!
//! ```text
//!   phase 2   events ──► settle                    what calls have left behind and could not do themselves
//!   phase 3   begin_turn ──► tasks ──► settle
//!   phase 5   close_all, once the shutdown has begun; count: as long as there is any, the loop lives on
//!   the end   end_all, before the driver goes
//! ```
//!
//! The loop owns the residents, because it asks several times a turn, and knows them by these traits alone: their type
//! is named by the layer above, where it implements [`ChannelLayer`] for [`ChannelLayerMarker`]. A crate of its own for the loop would
//! have a type parameter there instead.

use waterwheel_executor::Error;

use crate::event_loop::drain::loop_drain::Drainable;

/// What lives on a loop besides registrations. Touched on the loop only.
pub(crate) trait HostedChannels: Drainable + Default {
    /// Returns how many there are.
    fn count(&self) -> usize;

    /// Returns how many have something left to do: unless there are none the loop does not sleep.
    fn left(&self) -> usize;

    /// A task phase begins: those who waited for the next turn have theirs.
    fn begin_turn(&self);

    /// Does what calls have left behind, unless a call is under way.
    fn settle(&self);

    /// The shutdown has begun, for this reason: all of them go, in their own time.
    fn close_all(&self, cause: &Error);

    /// The loop is over, for this reason: all of them go at once.
    fn end_all(&self, cause: &Error);
}

/// Says of which type the residents are. Implemented once, by the layer above.
pub(crate) trait ChannelLayer {
    type Channels: HostedChannels;
}

/// The layer above the event loop.
pub(crate) struct ChannelLayerMarker;

/// The residents of a loop.
pub(crate) type HostedChannelSet = <ChannelLayerMarker as ChannelLayer>::Channels;
