//! Guards that keep a loop from ending its drain while work is in progress elsewhere (L11).

use std::fmt;

use crate::channel::handle::Channel;
use crate::channel::handle::shared_state::ChannelShared;
use crate::event_loop::command::LoopCommand;

/// Keeps the loop of a channel from ending its drain, because another thread is working for the channel and
/// will write to it. Created by [`Channel::hold`]; released when it is dropped, on any thread.
///
/// The drain also waits for everything that was submitted to any channel of the group before the drop. A hold
/// keeps neither the channel open nor the loop running: a close by the peer, the deadline of the drain and a
/// shutdown ignore it.
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{DrainOptions, Drained, EventLoopGroup, local};
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let (ours, theirs) = local::pair();
/// let channel = group.register(ours).join()?;
/// # let _theirs = theirs;
/// let hold = channel.hold();
/// let drained = group.drain(DrainOptions::default().shutdown(Duration::ZERO, Duration::from_secs(5))?);
/// let business = thread::spawn(move || {
///     let answer = hold.channel().write_and_flush(String::from("the answer"));
///     drop(hold);
///     answer.join()
/// });
/// assert!(business.join().unwrap().is_ok(), "the loop waited for it");
/// assert_eq!(drained.join()?, Drained::Complete);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the hold is released when it is dropped"]
pub struct Hold {
    channel: Channel,
}

impl Channel {
    /// Marks that work is in progress for this channel: see [`Hold`].
    pub fn hold(&self) -> Hold {
        Hold::new(self.clone())
    }
}

impl Hold {
    pub(in crate::channel) fn new(channel: Channel) -> Self {
        channel.shared().holds.add();
        Self { channel }
    }

    /// Returns the channel.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let shared = self.channel.shared();
        if shared.holds.release() {
            shared.wake_for_drain_check();
        }
    }
}

impl ChannelShared {
    /// Wakes the loop after the last hold was released while it drains: every turn checks whether the drain is
    /// over.
    #[cold]
    fn wake_for_drain_check(&self) {
        // A loop that has ended rejects the command: no drain is waiting.
        let _ = self.send(LoopCommand::new(|_| ()));
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hold").field(&self.channel).finish()
    }
}
