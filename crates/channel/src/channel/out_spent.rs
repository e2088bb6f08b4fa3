//! What has left an outbound buffer and is to be dropped (rule 1).
//!
//! The destructor of what was written is the user's: `Bytes` may have an owner, and that may write to the same
//! channel when it is dropped. While the transport writes, the buffer is borrowed. So it puts here what it has
//! written, and the channel drops it when nothing is borrowed any more. Mostly that is one chunk of bytes, which
//! stays where it is until then ([`OutQueue::take_spent`](crate::driver::OutQueue)); the others are here.

use std::collections::VecDeque;

use crate::pipeline::Msg;
use crate::room::release_room;

/// Messages that are to be dropped.
#[derive(Default)]
pub(super) struct Spent(Option<Box<List>>);

/// Made when there is the first, and kept from then on.
#[derive(Default)]
struct List {
    messages: VecDeque<Msg>,
}

impl Spent {
    #[cold]
    pub(super) fn push(&mut self, msg: Msg) {
        self.0.get_or_insert_default().messages.push_back(msg);
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.messages.len())
    }

    pub(super) fn pop(&mut self) -> Option<Msg> {
        let messages = &mut self.0.as_mut()?.messages;
        let next = messages.pop_front();
        release_room(messages);
        next
    }

    /// All of them, in order.
    pub(super) fn into_messages(self) -> impl Iterator<Item = Msg> {
        self.0.into_iter().flat_map(|list| list.messages)
    }
}
