//! Ready-made matchers for [`ChannelGroup::matching`](crate::ChannelGroup).
//!
//! A matcher is any `Fn(&Channel) -> bool`; these are the common ones.
//!
//! ```
//! use waterwheel_channel::{ChannelGroup, matchers};
//!
//! let group = ChannelGroup::new("all");
//! group.matching(matchers::servers()).close();
//! // Two at once.
//! let (ready, connections) = (matchers::writable(), matchers::connections());
//! group.matching(|channel| ready(channel) && connections(channel)).send("still here?");
//! ```

use crate::channel::handle::Channel;

/// Matches all channels but this one.
pub fn all_but(channel: &Channel) -> impl Fn(&Channel) -> bool + use<> {
    let id = channel.id();
    move |channel| channel.id() != id
}

/// Matches channels that accept connections.
pub fn servers() -> impl Fn(&Channel) -> bool {
    Channel::is_server
}

/// Matches channels that do not accept connections.
pub fn connections() -> impl Fn(&Channel) -> bool {
    |channel| !channel.is_server()
}

/// Matches writable channels: see [`Channel::is_writable`]. A peer that does not read misses the message, and
/// costs no more memory than its water marks allow.
pub fn writable() -> impl Fn(&Channel) -> bool {
    Channel::is_writable
}
