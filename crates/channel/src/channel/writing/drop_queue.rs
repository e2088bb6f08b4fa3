//! What has left an outbound buffer and is to be dropped (rule 1).
//!
//! The destructor of what was written is the user's: `Bytes` may have an owner, and that may write to the same
//! channel when it is dropped. While the transport writes, the buffer is borrowed. So it puts here what it has
//! written, and the channel drops it when nothing is borrowed any more. Mostly that is one chunk of bytes, which
//! stays where it is until then ([`OutQueue::take_spent`](crate::driver::OutQueue)); the others are here.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::pipeline::Msg;
use crate::queue_capacity::shrink_if_empty;

/// Messages that are to be dropped. The list is made when there is the first, and kept from then on.
#[derive(Default)]
pub(super) struct DropQueue(Option<Box<DropLists>>);

/// Chunks of a stream that were written all at once, and whatever else there is. The chunks are dropped first.
#[derive(Default)]
pub(super) struct DropLists {
    pub(super) chunks: VecDeque<Bytes>,
    pub(super) messages: VecDeque<Msg>,
}

impl DropLists {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.messages.is_empty()
    }

    /// Drops all of them, one by one. A panic leaves those that are left.
    pub(super) fn drop_all(&mut self) {
        while self.chunks.pop_front().is_some() {}
        while self.messages.pop_front().is_some() {}
    }
}

impl DropQueue {
    #[inline]
    pub(super) fn push(&mut self, msg: Msg) {
        self.0.get_or_insert_default().messages.push_back(msg);
    }

    /// The chunks that were written all at once, to add to them.
    pub(super) fn chunks(&mut self) -> &mut VecDeque<Bytes> {
        &mut self.0.get_or_insert_default().chunks
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.is_empty())
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> DropLists {
        self.0.as_mut().map(|list| std::mem::take(&mut **list)).unwrap_or_default()
    }

    /// Takes back the room of those that were taken out and have been dropped.
    pub(super) fn put_back(&mut self, mut room: DropLists) {
        shrink_if_empty(&mut room.chunks);
        shrink_if_empty(&mut room.messages);
        if let Some(list) = &mut self.0
            && list.is_empty()
        {
            **list = room;
        }
    }
}
