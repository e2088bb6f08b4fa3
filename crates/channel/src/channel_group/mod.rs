//! Groups of channels (C14): one operation for many channels.
//!
//! ```text
//!   group.write(line)         on the calling thread: the members, the matching ones, a message for each
//!     │ one command per loop; none for the calling loop
//!     ▼
//!   GroupCommand ──► channel, channel, …  on each loop, one after the other
//!     │ OutcomeReporter
//!     ▼
//!   GroupOutcome              when the last channel is done
//!
//!   group.send(line)          the same without outcomes: one message for all channels of a loop (SharedSend)
//! ```
//!
//! # Rules
//!
//! 1. An operation applies to the channels that are members when it is called. Channels that are added later
//!    are not included; channels that close meanwhile fail as a closed channel does.
//! 2. Nothing is locked while user code runs: a matcher, a clone, a handler, a listener.
//! 3. User code that may panic runs before the first command is sent: the operation reaches all channels, or
//!    none. The clones of `send` for channels without a shared form are made on the loop; one that panics closes its
//!    channel, like a handler.
//! 4. The operations of one thread reach each channel in order, also among its operations on the channel
//!    itself.
//! 5. A channel leaves its groups when its close is notified, before anybody else is notified. Lock order:
//!    group first, then memberships.

mod group;
mod group_command;
mod leave_on_close;
pub mod matchers;
mod member_table;
mod outcome;
mod selected;
mod shared_send;

pub use self::group::ChannelGroup;
pub use self::outcome::{ChannelGroupFuture, GroupError, GroupOutcome};
pub use self::selected::Selected;
