//! One direction of a local connection: a bounded queue between two loops.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::read_rounds::LocalReadOutcome;
use crate::base::queue_capacity::shrink_if_empty;
use crate::channel::transport::TransportWaker;
use crate::pipeline::Msg;

/// Bytes that may wait between two ends, by the size hints of the messages, before the writer has to wait; the
/// message that exceeds it still passes. 64 KiB is the default high water mark of a channel: the writer and the
/// queue together hold about twice that.
pub const QUEUED_BYTES: usize = 64 * 1024;

/// Messages that may wait between two ends, whatever their size: 64 rounds of 16 reads. At five words each the
/// queue itself takes 1024 × 40 bytes, less than the 64 KiB of messages that it may hold.
pub const QUEUED_MESSAGES: usize = 1024;

/// One direction of a connection.
///
/// Used by the loops of the writing and of the reading end, under the lock; by the rules of the
/// [module](super), no user code runs meanwhile. Only the writing end pushes, so room that it has seen is still
/// there later; only the reading end takes. `writer` and `reader` belong to their ends, except `is_waiting`,
/// which the other end clears.
#[derive(Default)]
pub(super) struct MessageQueue(Mutex<MessageQueueState>);

#[derive(Default)]
struct MessageQueueState {
    queue: VecDeque<QueuedMessage>,
    fill: QueueFill,
    writer: QueueSide,
    reader: QueueSide,
    /// True if the writer wakes the reader when it has finished, although the reader takes no messages.
    wakes_reader_at_end: bool,
}

/// A message and its size.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    msg: Msg,
    size: usize,
}

impl QueuedMessage {
    pub(super) fn new(msg: Msg, size: usize) -> Self {
        Self { msg, size: size.min(QUEUED_BYTES) }
    }
}

/// The number of messages and bytes in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueFill {
    messages: usize,
    bytes: usize,
}

impl QueueFill {
    pub(super) fn add(&mut self, queued: &QueuedMessage) {
        self.messages += 1;
        self.bytes += queued.size;
    }

    fn remove(&mut self, queued: &QueuedMessage) {
        self.messages -= 1;
        self.bytes -= queued.size;
    }

    pub(super) fn is_full(self) -> bool {
        self.messages >= QUEUED_MESSAGES || self.bytes >= QUEUED_BYTES
    }

    fn is_half_empty(self) -> bool {
        self.messages <= QUEUED_MESSAGES / 2 && self.bytes <= QUEUED_BYTES / 2
    }
}

/// One end of a queue, as the other end sees it.
#[derive(Default)]
pub(super) struct QueueSide {
    pub(super) is_closed: bool,
    /// True if this end found nothing to do and waits to be woken.
    pub(super) is_waiting: bool,
    /// The waker of this end's transport. Absent while the transport is not registered.
    pub(super) waker: Option<TransportWaker>,
}

impl QueueSide {
    /// Returns the waker if this end waits, and clears the wait. The caller wakes after the lock is released.
    #[must_use]
    pub(super) fn take_waker(&mut self) -> Option<TransportWaker> {
        if mem::take(&mut self.is_waiting) { self.waker.clone() } else { None }
    }
}

pub(super) fn wake(waker: Option<TransportWaker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// How much room a queue has for the next write.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueRoom {
    /// The reader is gone.
    Closed,
    /// The queue is full; the writer will be woken.
    Full,
    /// The queue has room, and holds this much already.
    Available(QueueFill),
}

impl MessageQueue {
    fn lock(&self) -> MutexGuard<'_, MessageQueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // The writing end.

    /// Returns the room for a write.
    pub(super) fn room(&self) -> QueueRoom {
        self.room_if(|fill| !fill.is_full())
    }

    /// Returns the room for a blocked write, which resumes when the queue is half empty.
    pub(super) fn room_to_resume(&self) -> QueueRoom {
        self.room_if(QueueFill::is_half_empty)
    }

    fn room_if(&self, enough: impl FnOnce(QueueFill) -> bool) -> QueueRoom {
        let mut state = self.lock();
        if state.reader.is_closed {
            QueueRoom::Closed
        } else if enough(state.fill) {
            QueueRoom::Available(state.fill)
        } else {
            state.writer.is_waiting = true;
            QueueRoom::Full
        }
    }

    /// Appends messages for which there was room. Returns false, and leaves them in `batch`, if the reader is
    /// gone.
    pub(super) fn push(&self, batch: &mut VecDeque<QueuedMessage>) -> bool {
        let reader = {
            let mut state = self.lock();
            if state.reader.is_closed {
                return false;
            }
            for queued in batch.iter() {
                state.fill.add(queued);
            }
            state.queue.append(batch);
            state.reader.take_waker()
        };
        wake(reader);
        true
    }

    /// Finishes the stream: nothing more will be written.
    pub(super) fn finish(&self) {
        let (own, reader) = {
            let mut state = self.lock();
            state.writer.is_closed = true;
            let notices = mem::take(&mut state.wakes_reader_at_end);
            state.reader.is_waiting |= notices;
            (state.writer.waker.take(), state.reader.take_waker())
        };
        drop(own);
        wake(reader);
    }

    pub(super) fn set_writer(&self, waker: Option<TransportWaker>) {
        let before = mem::replace(&mut self.lock().writer.waker, waker);
        drop(before);
    }

    // The reading end.

    /// Takes the next message.
    pub(super) fn take(&self) -> LocalReadOutcome {
        let (msg, writer) = {
            let mut state = self.lock();
            let Some(queued) = state.queue.pop_front() else {
                shrink_if_empty(&mut state.queue);
                state.reader.is_waiting = !state.writer.is_closed;
                return if state.writer.is_closed {
                    LocalReadOutcome::End
                } else {
                    LocalReadOutcome::Empty
                };
            };
            state.fill.remove(&queued);
            let enough = state.fill.is_half_empty();
            (queued.msg, if enough { state.writer.take_waker() } else { None })
        };
        wake(writer);
        LocalReadOutcome::Message(msg)
    }

    /// Returns true if the writer has finished; otherwise the reader is woken when it does.
    pub(super) fn is_finished(&self) -> bool {
        let mut state = self.lock();
        state.wakes_reader_at_end = !state.writer.is_closed;
        state.writer.is_closed
    }

    /// True if there is a message to take.
    pub(super) fn has_messages(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    /// Stops reading. Returns the unread messages for the caller to drop.
    #[must_use]
    pub(super) fn stop_reading(&self) -> VecDeque<QueuedMessage> {
        let (own, unread, writer) = {
            let mut state = self.lock();
            state.reader.is_closed = true;
            state.fill = QueueFill::default();
            (state.reader.waker.take(), mem::take(&mut state.queue), state.writer.take_waker())
        };
        drop(own);
        wake(writer);
        unread
    }

    pub(super) fn set_reader(&self, waker: Option<TransportWaker>) {
        let before = mem::replace(&mut self.lock().reader.waker, waker);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Message;
    use std::sync::Arc;
    use std::thread;

    /// A message that shows if it is lost or dropped twice.
    #[derive(Debug)]
    struct Number {
        n: usize,
        _alive: Arc<()>,
    }

    impl Message for Number {}

    /// Writes `count` messages, a few at a time, as there is room.
    fn write(queue: &MessageQueue, count: usize, alive: &Arc<()>) {
        let mut next = 0;
        while next < count {
            let QueueRoom::Available(mut fill) = queue.room() else {
                thread::yield_now();
                continue;
            };
            let mut batch = VecDeque::new();
            while next < count && batch.len() < 3 && !fill.is_full() {
                let queued = QueuedMessage::new(
                    Msg::new(Number { n: next, _alive: alive.clone() }),
                    QUEUED_BYTES / 4,
                );
                fill.add(&queued);
                batch.push_back(queued);
                next += 1;
            }
            assert!(queue.push(&mut batch), "the reader is there");
        }
    }

    #[test]
    fn r01_messages_cross_between_two_threads_once_and_in_order() {
        const COUNT: usize = if cfg!(miri) { 20 } else { 2_000 };
        let (queue, alive) = (Arc::new(MessageQueue::default()), Arc::new(()));
        let (other_end, held) = (queue.clone(), alive.clone());
        let writer = thread::spawn(move || {
            write(&other_end, COUNT, &held);
            other_end.finish();
        });
        let mut next = 0;
        loop {
            match queue.take() {
                LocalReadOutcome::Message(msg) => {
                    assert_eq!(msg.take::<Number>().unwrap().n, next);
                    next += 1;
                }
                LocalReadOutcome::Empty => thread::yield_now(),
                LocalReadOutcome::End => break,
            }
        }
        writer.join().unwrap();
        assert_eq!((next, Arc::strong_count(&alive)), (COUNT, 1), "each was dropped");
    }

    #[test]
    fn r01_unread_messages_are_dropped_once_in_any_order() {
        let (queue, alive) = (Arc::new(MessageQueue::default()), Arc::new(()));
        let (other_end, held) = (queue.clone(), alive.clone());
        let writer = thread::spawn(move || {
            let mut batch =
                VecDeque::from([QueuedMessage::new(Msg::new(Number { n: 0, _alive: held }), 1)]);
            other_end.push(&mut batch) || batch.len() == 1
        });
        drop(queue.stop_reading());
        assert!(writer.join().unwrap(), "queued, or left with the writer");
        assert_eq!(Arc::strong_count(&alive), 1);
        assert!(matches!(queue.room(), QueueRoom::Closed));
    }
}
