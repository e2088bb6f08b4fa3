//! Many channels under one name (C14): messages to all of them, and an end for all of them.
//!
//! ```text
//!   group.send(line)          on the calling thread: who is here, who matches, a message for each
//!     │ one command per loop; none for the calling loop
//!     ▼
//!   GroupCommand ──► channel, channel, …       on each loop, one after the other
//!     │ OutcomeReporter
//!     ▼
//!   GroupOutcome              when the last of them has been told
//! ```
//!
//! # Rules
//!
//! 1. Whoever is here when something is asked for is asked: those who come later are not, those who go
//!    meanwhile fail as a channel that is closed does.
//! 2. Nothing is locked while something of the user's runs: a matcher, a clone, a handler, a listener.
//! 3. Whatever may panic does so before the first command is sent: all of them are asked, or none.
//! 4. What one thread asks for reaches each channel in order, also among what it asks of the channel itself.
//! 5. A channel leaves its groups in the step that tells its close, before anybody is told. Group first, then
//!    membership, is the order of the locks.

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
