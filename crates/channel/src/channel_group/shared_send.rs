//! One message for the channels of a group: each loop gets it once.
//!
//! A channel that can make its bytes from the message by reference ([`Handler::encode_shared`](crate::Handler)) gets
//! those; any other one gets a clone.

use std::sync::Arc;

use crate::channel::handle::Channel;
use crate::channel::handle::request::PendingReservation;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::{Completion, Message, Msg};

/// A message on its way to channels of another loop.
struct SharedSend<M> {
    message: M,
    receivers: Vec<(Channel, PendingReservation)>,
}

/// Sends a message to channels, which are given by loop.
pub(super) fn send_to_loops<M: Message + Clone>(by_loop: Vec<Arc<[Channel]>>, message: M) {
    let is_here = |channels: &Arc<[Channel]>| channels.first().is_some_and(Channel::in_event_loop);
    let (here, elsewhere): (Vec<_>, Vec<_>) = by_loop.into_iter().partition(is_here);
    // All clones before the first command: one may panic.
    let commands: Vec<_> = elsewhere.iter().map(|_| message.clone()).collect();
    // To other loops first: the channels of this loop may take a while.
    for (channels, message) in elsewhere.iter().zip(commands) {
        SharedSend::new(channels, message).dispatch();
    }
    let Some(this_loop) = LocalLoop::current() else { return };
    for channel in here.iter().flat_map(|channels| channels.iter()) {
        send_to_channel(&this_loop, channel, &message, None);
    }
}

impl<M: Message + Clone> SharedSend<M> {
    /// Prepares a message for channels of one loop. Its bytes count as pending from now on.
    fn new(channels: &[Channel], message: M) -> Self {
        let size = message.size_hint();
        let reserved = channels.iter().filter_map(|channel| {
            let reserved = channel.reserve_pending(size);
            let reserved = reserved.map_err(|error| channel.report_refused_write(&error));
            Some((channel.clone(), reserved.ok()?))
        });
        Self { receivers: reserved.collect(), message }
    }

    /// Sends the message to the loop. A loop that has ended drops it.
    fn dispatch(self) {
        let Some((first, _)) = self.receivers.first() else { return };
        let sender = first.sender().clone();
        let command = |send: Box<Self>| LoopCommand::new(|here| send.perform(here));
        drop(sender.send_with(Box::new(self), command));
    }

    /// Sends the message to all channels in one turn, however many: otherwise a later operation on a channel could overtake
    /// this one.
    fn perform(self, here: &LocalLoop) {
        for (channel, reserved) in self.receivers {
            send_to_channel(here, &channel, &self.message, Some(reserved));
        }
    }
}

/// Sends a message to a channel of this loop.
#[inline]
fn send_to_channel<M: Message + Clone>(
    here: &LocalLoop,
    channel: &Channel,
    message: &M,
    reserved: Option<PendingReservation>,
) {
    let Some(core) = here.channels().find(channel.token()) else { return };
    let is_from_elsewhere = reserved.is_some();
    drop(reserved);
    if !core.send_shared(message) {
        // A clone that panics closes its channel.
        let mut copy = None;
        core.enter(|_| copy = Some(Msg::new(message.clone())));
        if let Some(copy) = copy {
            core.take_write(copy, true, Completion::none(), None);
        }
    }
    if is_from_elsewhere {
        // The bytes no longer count as submitted.
        core.check_low_mark();
        core.notify_watchers();
    }
}
