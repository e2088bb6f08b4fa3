//! Errors of the bridge.

use waterwheel_channel::ChannelId;

/// An error of the bridge between channels and futures.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AsyncError {
    /// A local handle was requested on another thread.
    #[error(
        "channel {channel} belongs to another event loop: an AsyncChannel is made on the channel's own loop"
    )]
    NotOnLoop {
        /// The channel.
        channel: ChannelId,
    },
    /// A connection was requested by code that runs on no event loop.
    #[error("no event loop runs on this thread: connect_async is called in a future on a loop")]
    NoLoop,
    /// A handle on another thread was used after the channel's loop had ended.
    #[error(
        "channel {channel} is served no more: its event loop, or the scope of its futures, has ended"
    )]
    LoopEnded {
        /// The channel.
        channel: ChannelId,
    },
    /// The async function of a connection has panicked; the panic itself is reported.
    #[error("the async function of the connection has panicked")]
    ConnectionPanicked,
}
