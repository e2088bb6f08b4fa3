//! Written messages that wait to be dropped (rule 1).
//!
//! The destructor of a message is user code: `Bytes` may have an owner, which may write to the same channel
//! when it is dropped. The outbound buffer is borrowed while the transport writes. So the buffer moves written
//! messages here, and the channel drops them when nothing is borrowed. Usually only one chunk was written, which
//! stays in its queue until then ([`OutQueue::take_written_chunk`](crate::driver::OutQueue)); all others are here.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::base::queue_capacity::shrink_if_empty;
use crate::pipeline::Msg;

/// Messages to drop. The lists are allocated with the first message and then kept.
#[derive(Default)]
pub(super) struct DropQueue(Option<Box<DropLists>>);

/// Chunks of a stream that were written in one call, and all other messages. The chunks are dropped first.
#[derive(Default)]
pub(super) struct DropLists {
    pub(super) chunks: VecDeque<Bytes>,
    pub(super) messages: VecDeque<Msg>,
}

impl DropLists {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.messages.is_empty()
    }

    /// Drops the messages one by one. After a panic the rest stays in the lists.
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

    /// Returns the list of chunks, to append to.
    pub(super) fn chunks(&mut self) -> &mut VecDeque<Bytes> {
        &mut self.0.get_or_insert_default().chunks
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.is_empty())
    }

    /// Takes all messages out.
    pub(super) fn take(&mut self) -> DropLists {
        self.0.as_mut().map(|list| std::mem::take(&mut **list)).unwrap_or_default()
    }

    /// Returns the allocation of dropped lists for reuse.
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
