//! An operation on several channels of one loop, sent there in one command.

use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::handle::request::PendingReservation;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::dispatch::event::{Close, Deregister, Disconnect, Flush};
use crate::pipeline::slots::slot_list::TAIL;
use crate::pipeline::{Completion, Msg};

use super::outcome::OutcomeReporter;

/// One operation for some channels of one loop, in order.
pub(crate) struct GroupCommand {
    operation: GroupOperation,
    items: Vec<GroupCommandItem>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupOperation {
    Write,
    WriteAndFlush,
    Flush,
    Close,
    Disconnect,
    Deregister,
}

/// One channel of the command.
pub(super) struct GroupCommandItem {
    pub(super) channel: Channel,
    /// The message, for a write.
    pub(super) message: Option<ReservedMessage>,
    pub(super) reporter: Option<OutcomeReporter>,
}

pub(super) struct ReservedMessage {
    pub(super) msg: Msg,
    pub(super) submitted: Option<PendingReservation>,
}

impl GroupCommand {
    pub(super) fn new(operation: GroupOperation, items: Vec<GroupCommandItem>) -> Self {
        Self { operation, items }
    }

    /// True if the command is for the calling loop.
    pub(super) fn is_for_this_loop(&self) -> bool {
        self.items.first().is_some_and(|item| item.channel.in_event_loop())
    }

    /// Performs the command if this is its loop; otherwise sends it there. A loop that has ended drops it, and the
    /// dropped reporters record the failure.
    pub(super) fn dispatch(self) {
        let Some(first) = self.items.first() else { return };
        if self.is_for_this_loop() {
            if let Some(here) = LocalLoop::current() {
                self.perform(&here);
            }
            return;
        }
        let (sender, lazily) =
            (first.channel.sender().clone(), self.operation == GroupOperation::Write);
        let command = |command: Box<Self>| LoopCommand::new(|here| command.perform(here));
        let sent = match lazily {
            true => sender.send_lazily_with(Box::new(self), command),
            false => sender.send_with(Box::new(self), command),
        };
        drop(sent);
    }

    /// Performs the command on the loop, for all channels in one turn, however many: otherwise a later operation on a
    /// channel could overtake this one.
    pub(crate) fn perform(self, here: &LocalLoop) {
        for GroupCommandItem { channel, message, reporter } in self.items {
            let Some(core) = here.channels().find(channel.token()) else { continue };
            let done = reporter.map_or_else(Completion::none, OutcomeReporter::into_completion);
            match (self.operation, message) {
                (
                    GroupOperation::Write | GroupOperation::WriteAndFlush,
                    Some(ReservedMessage { msg, submitted }),
                ) => {
                    core.take_write(
                        msg,
                        self.operation == GroupOperation::WriteAndFlush,
                        done,
                        submitted,
                    );
                }
                (GroupOperation::Flush, _) => core.enter_event(TAIL, Flush),
                (GroupOperation::Close, _) => core.enter_event(TAIL, Close(done)),
                (GroupOperation::Disconnect, _) => core.enter_event(TAIL, Disconnect(done)),
                (GroupOperation::Deregister, _) => core.enter_event(TAIL, Deregister(done)),
                (GroupOperation::Write | GroupOperation::WriteAndFlush, None) => {
                    done.fail(ChannelError::CompletionDropped.into());
                }
            }
        }
    }
}
