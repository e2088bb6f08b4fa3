//! What is asked of several channels of one loop: carried there in one command.

use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::request::Submitted;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::event::{Close, Deregister, Disconnect, Flush};
use crate::pipeline::slots::TAIL;
use crate::pipeline::{Completion, Msg};

use super::outcome::Ticket;

/// The same for some channels of one loop, in order.
pub(crate) struct Errand {
    what: What,
    items: Vec<Item>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Write,
    WriteAndFlush,
    Flush,
    Close,
    Disconnect,
    Deregister,
}

/// One channel's part of it.
pub(super) struct Item {
    pub(super) channel: Channel,
    /// If something is to be written.
    pub(super) load: Option<Load>,
    pub(super) ticket: Option<Ticket>,
}

pub(super) struct Load {
    pub(super) msg: Msg,
    pub(super) submitted: Option<Submitted>,
}

impl Errand {
    pub(super) fn new(what: What, items: Vec<Item>) -> Self {
        Self { what, items }
    }

    /// Whether it is for the calling loop.
    pub(super) fn is_here(&self) -> bool {
        self.items.first().is_some_and(|item| item.channel.in_event_loop())
    }

    /// Does it if this is the loop, or sends it there. A loop that is over drops it, and the tickets know
    /// what that means.
    pub(super) fn go(self) {
        let Some(first) = self.items.first() else { return };
        if self.is_here() {
            if let Some(here) = LocalLoop::current() {
                self.perform(&here);
            }
            return;
        }
        let (sender, lazily) = (first.channel.sender().clone(), self.what == What::Write);
        let command = |errand: Box<Self>| LoopCommand::new(|here| errand.perform(here));
        let sent = match lazily {
            true => sender.send_lazily_with(Box::new(self), command),
            false => sender.send_with(Box::new(self), command),
        };
        drop(sent);
    }

    /// Does it, on the loop. All at once, however many: otherwise what is asked of a channel afterwards
    /// could come before.
    pub(crate) fn perform(self, here: &LocalLoop) {
        for Item { channel, load, ticket } in self.items {
            let Some(core) = here.channels().find(channel.token()) else { continue };
            let done = ticket.map_or_else(Completion::none, Ticket::into_completion);
            match (self.what, load) {
                (What::Write | What::WriteAndFlush, Some(Load { msg, submitted })) => {
                    core.take_write(msg, self.what == What::WriteAndFlush, done, submitted);
                }
                (What::Flush, _) => core.accept(TAIL, Flush),
                (What::Close, _) => core.accept(TAIL, Close(done)),
                (What::Disconnect, _) => core.accept(TAIL, Disconnect(done)),
                (What::Deregister, _) => core.accept(TAIL, Deregister(done)),
                (What::Write | What::WriteAndFlush, None) => {
                    done.fail(ChannelError::CompletionDropped.into());
                }
            }
        }
    }
}
