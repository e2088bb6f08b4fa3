//! Ready-made answers to the question who is meant: for [`ChannelGroup::matching`](crate::ChannelGroup).
//!
//! A matcher is any `Fn(&Channel) -> bool`; these are the ones that are asked for most.
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

/// All but this one.
pub fn all_but(channel: &Channel) -> impl Fn(&Channel) -> bool + use<> {
    let id = channel.id();
    move |channel| channel.id() != id
}

/// Those that accept connections.
pub fn servers() -> impl Fn(&Channel) -> bool {
    Channel::is_server
}

/// Those that do not.
pub fn connections() -> impl Fn(&Channel) -> bool {
    |channel| !channel.is_server()
}

/// Those that take more: see [`Channel::is_writable`]. Who does not read what it is sent misses it, and
/// costs no more memory than its water marks allow.
pub fn writable() -> impl Fn(&Channel) -> bool {
    Channel::is_writable
}
