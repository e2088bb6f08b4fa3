//! What has left an outbound buffer and is to be dropped (rule 1).
//!
//! The destructor of what was written is the user's: `Bytes` may have an owner, and that may write to the same
//! channel when it is dropped. While the transport writes, the buffer is borrowed. So it puts here what it has
//! written, and the channel drops it when nothing is borrowed any more. Mostly that is one chunk of bytes, which
//! stays where it is until then ([`OutQueue::take_spent`](crate::driver::OutQueue)); the others are here.

use std::collections::VecDeque;

use crate::pipeline::Msg;
use crate::room::release_room;

/// Messages that are to be dropped. The list is made when there is the first, and kept from then on.
#[derive(Default)]
pub(super) struct Spent(Option<Box<List>>);

#[derive(Default)]
struct List {
    messages: VecDeque<Msg>,
}

impl Spent {
    #[inline]
    pub(super) fn push(&mut self, msg: Msg) {
        self.0.get_or_insert_default().messages.push_back(msg);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.messages.is_empty())
    }

    /// Takes all of them out, in order.
    pub(super) fn take(&mut self) -> VecDeque<Msg> {
        self.0.as_mut().map(|list| std::mem::take(&mut list.messages)).unwrap_or_default()
    }

    /// Takes back the room of those that were taken out and have been dropped.
    pub(super) fn put_back(&mut self, mut room: VecDeque<Msg>) {
        release_room(&mut room);
        if let Some(list) = &mut self.0
            && list.messages.is_empty()
        {
            list.messages = room;
        }
    }
}
