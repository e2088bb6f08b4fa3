//! `EventSender` and `QueuedEvents`: the two ends of a queue of events.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use waterwheel_executor::Error;

use super::event::{EncodedEvent, ServerEvent};
use super::queue::{EventQueueState, EventSendError, SlowReader, TakenEvent};

/// Sends events to one stream, from any thread: `Send`, and cheap to clone. The stream ends when its last sender is
/// dropped.
///
/// ```
/// use waterwheel_http::{EventSender, EventStream, IntoResponse, Request, ServerEvent};
///
/// async fn news(_: Request) -> EventStream<impl waterwheel_http::EventSource> {
///     let (sender, events) = EventSender::pair();
///     std::thread::spawn(move || sender.try_send(ServerEvent::new("from another thread")));
///     EventStream::new(events)
/// }
/// # fn check(_: impl waterwheel_http::Service) {}
/// # check(news);
/// ```
pub struct EventSender {
    queue: Arc<SharedEvents>,
}

/// The end of a queue of events that belongs to an [`EventStream`](crate::EventStream). Dropping it closes the queue.
pub struct QueuedEvents {
    queue: Arc<SharedEvents>,
}

/// The state of a queue. Senders on any thread push, the stream on its loop takes, and either removes itself, all with the
/// lock. Wakers are cloned, woken and dropped without it, events are dropped without it: no foreign code runs under the
/// lock. A push and a take are a few instructions each, so that neither side waits for long.
struct SharedEvents {
    state: Mutex<EventQueueState>,
}

/// Builds a queue of events.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct EventQueueBuilder {
    capacity: usize,
    slow_reader: SlowReader,
}

/// The reason why a queue of events cannot be built.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a queue of events must hold at least one event")]
pub struct ZeroEventCapacity;

/// The error of a stream whose client reads too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the client reads events too slowly: {capacity} waited, the limit, and the stream was ended"
)]
pub struct EventReaderTooSlow {
    /// The capacity of the queue.
    pub capacity: usize,
}

/// The name of the event that tells the client how many events were dropped.
const DROPPED_EVENT: &str = "dropped";

impl EventSender {
    /// The default capacity of a queue, in events.
    pub const DEFAULT_CAPACITY: usize = 256;

    /// Creates a queue with the default capacity, whose stream ends when the client is too slow.
    #[must_use]
    pub fn pair() -> (EventSender, QueuedEvents) {
        Self::builder().open()
    }

    /// Returns a builder of a queue.
    pub fn builder() -> EventQueueBuilder {
        EventQueueBuilder { capacity: Self::DEFAULT_CAPACITY, slow_reader: SlowReader::default() }
    }

    /// Sends an event without waiting.
    ///
    /// # Errors
    /// The stream has ended, or the queue is full and its policy for slow readers does not drop the oldest event. The
    /// error has the event.
    pub fn try_send(&self, event: impl Into<EncodedEvent>) -> Result<(), EventSendError> {
        let event = event.into();
        let (sent, reader, unread) = self.queue.lock().push(event);
        drop(unread);
        if let Some(reader) = reader {
            reader.wake();
        }
        sent
    }

    /// Sends an event. Waits for room if the policy is [`SlowReader::Wait`].
    ///
    /// Cancel safe: an event is in the queue only once the future is ready.
    ///
    /// # Errors
    /// The stream has ended, or the queue is full and the policy is [`SlowReader::Disconnect`]. The error has the event.
    pub async fn send(&self, event: impl Into<EncodedEvent>) -> Result<(), EventSendError> {
        let mut next = Some(event.into());
        poll_fn(move |cx| {
            for is_last in [false, true] {
                let event = next.take().expect("a future that is ready is not polled again");
                match self.try_send(event) {
                    Err(EventSendError::Full(event)) => next = Some(event),
                    sent => return Poll::Ready(sent),
                }
                if !is_last {
                    // Tried again afterwards: the stream may have made room before this waker was there.
                    let waker = cx.waker().clone();
                    let known = self.queue.lock().add_waiting(waker);
                    drop(known);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// True if nothing can be sent any more: the client has gone, or was too slow.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.lock().end.is_some()
    }
}

impl Clone for EventSender {
    fn clone(&self) -> Self {
        self.queue.lock().senders += 1;
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl Drop for EventSender {
    fn drop(&mut self) {
        let reader = self.queue.lock().remove_sender();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl EventQueueBuilder {
    /// Sets the number of events that wait at most.
    ///
    /// # Errors
    /// The number is zero.
    pub fn capacity(mut self, capacity: usize) -> Result<Self, ZeroEventCapacity> {
        self.capacity = capacity;
        if capacity == 0 { Err(ZeroEventCapacity) } else { Ok(self) }
    }

    /// Sets the consequence for a client that reads too slowly.
    pub fn slow_reader(mut self, slow_reader: SlowReader) -> Self {
        self.slow_reader = slow_reader;
        self
    }

    /// Creates the queue.
    #[must_use]
    pub fn open(self) -> (EventSender, QueuedEvents) {
        let state = Mutex::new(EventQueueState::new(self.capacity, self.slow_reader));
        let queue = Arc::new(SharedEvents { state });
        (EventSender { queue: Arc::clone(&queue) }, QueuedEvents { queue })
    }
}

impl QueuedEvents {
    /// Returns the next event; `None` once all senders are gone.
    pub(super) fn poll_queue(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<EncodedEvent, Error>>> {
        let mut taken = self.take();
        if taken == TakenEvent::Empty {
            let waker = cx.waker().clone();
            let previous = self.queue.lock().set_reader(waker);
            drop(previous);
            // Taken again: a sender may have come before the waker was there.
            taken = self.take();
        }
        match taken {
            TakenEvent::Event(event) => Poll::Ready(Some(Ok(event))),
            TakenEvent::Dropped(count) => Poll::Ready(Some(Ok(dropped_event(count)))),
            TakenEvent::End => Poll::Ready(None),
            TakenEvent::Overflown => {
                let capacity = self.queue.lock().capacity;
                Poll::Ready(Some(Err(Error::new(EventReaderTooSlow { capacity }))))
            }
            TakenEvent::Empty => Poll::Pending,
        }
    }

    fn take(&self) -> TakenEvent {
        let (taken, senders) = self.queue.lock().take();
        for sender in senders {
            sender.wake();
        }
        taken
    }
}

impl Drop for QueuedEvents {
    fn drop(&mut self) {
        let (events, senders, reader) = self.queue.lock().close();
        drop((events, reader));
        for sender in senders {
            sender.wake();
        }
    }
}

impl SharedEvents {
    fn lock(&self) -> MutexGuard<'_, EventQueueState> {
        // Nothing under the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dropped_event(count: u64) -> EncodedEvent {
    let event = ServerEvent::new(count.to_string());
    event.name(DROPPED_EVENT).expect("the name has no line end").encode()
}

impl From<EventSendError> for Error {
    fn from(error: EventSendError) -> Self {
        match error {
            EventSendError::Full(_) => Error::new(error),
            EventSendError::Disconnected(_) | EventSendError::Closed(_) => Error::closed(error),
        }
    }
}

impl fmt::Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt_as("EventSender", f)
    }
}

impl fmt::Debug for QueuedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt_as("QueuedEvents", f)
    }
}

impl SharedEvents {
    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let (waiting, capacity, end) = (state.events.len(), state.capacity, state.end);
        drop(state);
        f.debug_struct(name)
            .field("waiting", &waiting)
            .field("capacity", &capacity)
            .field("end", &end)
            .finish()
    }
}
