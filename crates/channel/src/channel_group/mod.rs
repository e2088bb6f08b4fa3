//! Groups of channels (C14): one operation for many channels.
//!
//! ```text
//!   group.send(line)          on the calling thread: the members, the matching ones, a message for each
//!     │ one command per loop; none for the calling loop
//!     ▼
//!   GroupCommand ──► channel, channel, …  on each loop, one after the other
//!     │ OutcomeReporter
//!     ▼
//!   GroupOutcome              when the last channel is done
//! ```
//!
//! # Rules
//!
//! 1. An operation applies to the channels that are members when it is called. Channels that are added later
//!    are not included; channels that close meanwhile fail as a closed channel does.
//! 2. Nothing is locked while user code runs: a matcher, a clone, a handler, a listener.
//! 3. User code that may panic runs before the first command is sent: the operation reaches all channels, or
//!    none.
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

pub use self::group::ChannelGroup;
pub use self::outcome::{ChannelGroupFuture, GroupError, GroupOutcome};
pub use self::selected::Selected;
