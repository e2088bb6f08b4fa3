//! The queue between threads that send events and the loop that streams them, as a value: the caller holds the lock.

use std::collections::VecDeque;
use std::task::Waker;

use super::event::EncodedEvent;

/// The consequence for a client that reads more slowly than events are sent, once the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowReader {
    /// The stream ends, and what waited is dropped: the client connects again, and names the last event that it has
    /// seen. The connection closes when it has room to send, or by the server's limit for slow readers.
    #[default]
    Disconnect,
    /// The oldest event in the queue is dropped. The client gets an event `dropped` in its place, with the number of
    /// dropped events as data.
    DropOldest,
    /// [`EventSender::try_send`](crate::EventSender::try_send) fails; [`EventSender::send`](crate::EventSender::send) waits
    /// until there is room.
    Wait,
}

/// The reason why an event was not sent, with the event.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EventSendError {
    /// The queue is full, and the policy is [`SlowReader::Wait`].
    #[error("the queue of events is full")]
    Full(EncodedEvent),
    /// The queue was full, and the policy is [`SlowReader::Disconnect`]: the stream ends.
    #[error("the client reads events too slowly, and its stream ends")]
    Disconnected(EncodedEvent),
    /// The stream has ended, in most cases because the client has gone.
    #[error("the stream of events has ended")]
    Closed(EncodedEvent),
}

impl EventSendError {
    /// Returns the event.
    #[must_use]
    pub fn into_event(self) -> EncodedEvent {
        let (Self::Full(event) | Self::Disconnected(event) | Self::Closed(event)) = self;
        event
    }
}

/// The state of the queue. Methods that return wakers leave it to the caller to wake them without the lock.
pub(super) struct EventQueueState {
    pub(super) capacity: usize,
    pub(super) slow_reader: SlowReader,
    pub(super) senders: usize,
    pub(super) events: VecDeque<EncodedEvent>,
    /// The events dropped since the last one that was taken.
    pub(super) dropped: u64,
    pub(super) end: Option<EventQueueEnd>,
    reader: Option<Waker>,
    /// The senders that wait for room.
    waiting: Vec<Waker>,
}

/// The reason why nothing is sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventQueueEnd {
    /// The stream was dropped.
    Closed,
    /// The queue was full.
    Overflown,
}

/// The answer to a stream that takes an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TakenEvent {
    Event(EncodedEvent),
    /// The number of events that were dropped before the next one.
    Dropped(u64),
    /// All senders are gone.
    End,
    Overflown,
    Empty,
}

impl EventQueueState {
    pub(super) fn new(capacity: usize, slow_reader: SlowReader) -> Self {
        Self {
            capacity,
            slow_reader,
            senders: 1,
            events: VecDeque::new(),
            dropped: 0,
            end: None,
            reader: None,
            waiting: Vec::new(),
        }
    }

    /// Adds an event. Returns the waker of the stream, and the events that no one will read: to be dropped without the
    /// lock.
    pub(super) fn push(
        &mut self,
        event: EncodedEvent,
    ) -> (Result<(), EventSendError>, Option<Waker>, VecDeque<EncodedEvent>) {
        let mut unread = VecDeque::new();
        if self.end.is_some() {
            return (Err(EventSendError::Closed(event)), None, unread);
        }
        if self.events.len() >= self.capacity {
            match self.slow_reader {
                SlowReader::Wait => return (Err(EventSendError::Full(event)), None, unread),
                SlowReader::Disconnect => {
                    self.end = Some(EventQueueEnd::Overflown);
                    unread = std::mem::take(&mut self.events);
                    let error = EventSendError::Disconnected(event);
                    return (Err(error), self.reader.take(), unread);
                }
                SlowReader::DropOldest => {
                    unread.extend(self.events.pop_front());
                    self.dropped += 1;
                }
            }
        }
        self.events.push_back(event);
        (Ok(()), self.reader.take(), unread)
    }

    /// Takes the next event. Returns the wakers of senders, for which there is room.
    pub(super) fn take(&mut self) -> (TakenEvent, Vec<Waker>) {
        if self.end == Some(EventQueueEnd::Overflown) {
            return (TakenEvent::Overflown, Vec::new());
        }
        if self.dropped > 0 {
            return (TakenEvent::Dropped(std::mem::take(&mut self.dropped)), Vec::new());
        }
        match self.events.pop_front() {
            Some(event) => (TakenEvent::Event(event), std::mem::take(&mut self.waiting)),
            None if self.senders == 0 => (TakenEvent::End, Vec::new()),
            None => (TakenEvent::Empty, Vec::new()),
        }
    }

    /// Sets the waker of the stream. Returns the previous one, to be dropped without the lock.
    pub(super) fn set_reader(&mut self, waker: Waker) -> Option<Waker> {
        self.reader.replace(waker)
    }

    /// Adds the waker of a sender that waits for room. Returns it if it waits already.
    pub(super) fn add_waiting(&mut self, waker: Waker) -> Option<Waker> {
        if self.waiting.iter().any(|other| other.will_wake(&waker)) {
            return Some(waker);
        }
        self.waiting.push(waker);
        None
    }

    /// Removes a sender. Returns the waker of the stream if it was the last one.
    pub(super) fn remove_sender(&mut self) -> Option<Waker> {
        self.senders -= 1;
        if self.senders == 0 { self.reader.take() } else { None }
    }

    /// Ends the queue because the stream was dropped. Returns what is left, to be dropped or woken without the lock.
    pub(super) fn close(&mut self) -> (VecDeque<EncodedEvent>, Vec<Waker>, Option<Waker>) {
        self.end = Some(EventQueueEnd::Closed);
        let waiting = std::mem::take(&mut self.waiting);
        (std::mem::take(&mut self.events), waiting, self.reader.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::event::ServerEvent;

    fn event(data: &str) -> EncodedEvent {
        ServerEvent::new(data).encode()
    }

    /// Returns a full queue with the events 1 and 2.
    fn full(slow_reader: SlowReader) -> EventQueueState {
        let mut state = EventQueueState::new(2, slow_reader);
        assert_eq!(state.push(event("1")).0, Ok(()));
        assert_eq!(state.push(event("2")).0, Ok(()));
        state
    }

    #[test]
    fn h10_a_full_queue_disconnects_and_drops_what_waits() {
        let mut state = full(SlowReader::Disconnect);
        let (sent, _, unread) = state.push(event("3"));
        assert_eq!(sent, Err(EventSendError::Disconnected(event("3"))));
        assert_eq!((unread.len(), state.events.len()), (2, 0));
        assert_eq!(state.push(event("4")).0, Err(EventSendError::Closed(event("4"))));
        assert_eq!(state.take().0, TakenEvent::Overflown);
        assert_eq!(state.remove_sender().map(drop), None);
        assert_eq!(state.take().0, TakenEvent::Overflown, "an overflow is not the end");
    }

    #[test]
    fn h10_a_full_queue_drops_the_oldest_and_counts() {
        let mut state = full(SlowReader::DropOldest);
        assert_eq!(state.push(event("3")).0, Ok(()));
        assert_eq!(state.push(event("4")).0, Ok(()));
        assert_eq!(state.take().0, TakenEvent::Dropped(2));
        assert_eq!(state.take().0, TakenEvent::Event(event("3")));
        assert_eq!(state.push(event("5")).0, Ok(()));
        assert_eq!(state.take().0, TakenEvent::Event(event("4")));
        assert_eq!(state.take().0, TakenEvent::Event(event("5")));
        assert_eq!(state.take().0, TakenEvent::Empty);
    }

    #[test]
    fn h10_a_full_queue_hands_the_event_back_and_wakes_senders_when_there_is_room() {
        let mut state = full(SlowReader::Wait);
        assert_eq!(state.push(event("3")).0, Err(EventSendError::Full(event("3"))));
        assert!(state.add_waiting(Waker::noop().clone()).is_none());
        assert!(state.add_waiting(Waker::noop().clone()).is_some(), "one entry for a waker");
        let (taken, wakers) = state.take();
        assert_eq!((taken, wakers.len()), (TakenEvent::Event(event("1")), 1));
        assert_eq!(state.push(event("3")).0, Ok(()));
    }

    #[test]
    fn h10_queued_events_are_taken_after_the_last_sender_is_gone() {
        let mut state = full(SlowReader::Disconnect);
        state.remove_sender();
        assert_eq!(state.take().0, TakenEvent::Event(event("1")));
        assert_eq!(state.take().0, TakenEvent::Event(event("2")));
        assert_eq!(state.take().0, TakenEvent::End);
    }
}
