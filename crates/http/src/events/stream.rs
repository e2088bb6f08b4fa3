//! `EventStream`: a response that stays and sends events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use waterwheel_channel::{LocalLoop, Sleep, sleep, sleep_until};
use waterwheel_executor::{Error, Nanos};

use super::event::{EncodedEvent, ServerEvent};
use super::queue::SlowReader;
use super::sender::{EventSender, QueuedEvents};
use crate::body::outgoing::Body;
use crate::body::source::{BodyChunk, BodySource};
use crate::service::into_response::IntoResponse;
use crate::service::request::Request;
use crate::service::service::Response;

/// The bytes of several events that are sent as one chunk, at most: where events come faster than they are sent, they are
/// copied together. The last event may exceed it.
const MAX_BATCH: usize = 16 * 1024;

/// A source of events. Polled and dropped on the channel's loop; need not be `Send`. Implemented by [`QueuedEvents`] and by
/// closures that are polled: the form of streams of other crates.
pub trait EventSource: 'static {
    /// Returns the next event; `None` at the end. Not called again after the end or an error.
    ///
    /// # Errors
    /// The source cannot go on: the connection is closed.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<EncodedEvent, Error>>>;
}

impl EventSource for QueuedEvents {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<EncodedEvent, Error>>> {
        self.poll_queue(cx)
    }
}

impl<F> EventSource for F
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<ServerEvent, Error>>> + 'static,
{
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<EncodedEvent, Error>>> {
        self(cx).map_ok(EncodedEvent::from)
    }
}

/// A response with server-sent events, as long as its source has some. While nothing is sent for the time of a heartbeat,
/// the stream sends a comment: proxies do not take it for idle, and a client that has gone is noticed.
///
/// The response has the type `text/event-stream`, and is not to be stored by caches.
///
/// ```
/// use std::time::Duration;
/// use waterwheel_channel::sleep;
/// use waterwheel_http::{EventSource, EventStream, Request, ServerEvent};
///
/// async fn count(_: Request) -> EventStream<impl EventSource> {
///     EventStream::from_async(|events| async move {
///         for number in 0..10 {
///             events.send(ServerEvent::new(number.to_string())).await?;
///             sleep(Duration::from_secs(1)).await;
///         }
///         Ok(())
///     })
/// }
/// # fn check(_: impl waterwheel_http::Service) {}
/// # check(count);
/// ```
pub struct EventStream<S> {
    source: S,
    heartbeat: Option<Duration>,
    sleep: Option<Sleep>,
    /// The time of the last chunk; of the first poll before that.
    last_sent: Option<Nanos>,
    /// The end of the source, which follows the chunk that was returned.
    end: Option<Option<Error>>,
}

/// The default time between heartbeats of an idle stream, as the HTML standard advises.
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(15);

impl<S: EventSource> EventStream<S> {
    /// Creates a stream of the events of a source.
    #[must_use]
    pub fn new(source: S) -> Self {
        let heartbeat = Some(DEFAULT_HEARTBEAT);
        Self { source, heartbeat, sleep: None, last_sent: None, end: None }
    }

    /// Sets the time after which an idle stream sends a heartbeat; `None` for no heartbeats.
    #[must_use]
    pub fn heartbeat(mut self, time: Option<Duration>) -> Self {
        self.heartbeat = time;
        self
    }

    /// Returns the next events as one chunk.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let first = match ready!(self.source.poll_event(cx)) {
            Some(Ok(event)) => event.into_bytes(),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        };
        let mut batch = BytesMut::new();
        while first.len().max(batch.len()) < MAX_BATCH {
            match self.source.poll_event(cx) {
                Poll::Ready(Some(Ok(event))) => {
                    if batch.is_empty() {
                        batch.extend_from_slice(&first);
                    }
                    batch.extend_from_slice(event.bytes());
                }
                Poll::Ready(end) => {
                    self.end = Some(end.and_then(Result::err));
                    break;
                }
                Poll::Pending => break,
            }
        }
        Poll::Ready(Some(Ok(if batch.is_empty() { first } else { batch.freeze() })))
    }

    /// Waits until nothing was sent for the time of a heartbeat. The timer is not moved with each event: when it fires, it
    /// is set to the rest of the time.
    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (Some(period), Some(here)) = (self.heartbeat, LocalLoop::current()) else {
            return Poll::Pending;
        };
        let due = self.last_sent.get_or_insert(here.now()).plus(period);
        loop {
            let sleep = self.sleep.get_or_insert_with(|| sleep(period));
            ready!(Pin::new(sleep).poll(cx));
            if here.now() >= due {
                self.sleep = None;
                return Poll::Ready(());
            }
            self.sleep = Some(sleep_until(due));
        }
    }
}

impl EventStream<AsyncEvents> {
    /// Creates a stream of the events that an asynchronous function sends. Its future is polled by the stream, on the
    /// channel's loop, and dropped with it. Sending waits while
    /// [`DEFAULT_CAPACITY`](EventSender::DEFAULT_CAPACITY) events wait. The stream ends when the function has returned and
    /// all clones of the sender are dropped; if it returns an error, the connection is closed.
    #[must_use]
    pub fn from_async<F, Fut>(function: F) -> Self
    where
        F: FnOnce(EventSender) -> Fut,
        Fut: Future<Output = Result<(), Error>> + 'static,
    {
        let (sender, queue) = EventSender::builder().slow_reader(SlowReader::Wait).open();
        Self::new(AsyncEvents { future: Some(Box::pin(function(sender))), queue, error: None })
    }
}

/// The events that an asynchronous function sends: see [`EventStream::from_async`].
pub struct AsyncEvents {
    /// The function; `None` once it has returned.
    future: Option<EventFuture>,
    queue: QueuedEvents,
    error: Option<Error>,
}

/// A function that sends events and returns when there are no more.
type EventFuture = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

impl EventSource for AsyncEvents {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<EncodedEvent, Error>>> {
        if let event @ Poll::Ready(Some(_)) = self.queue.poll_queue(cx) {
            return event;
        }
        if let Some(future) = &mut self.future
            && let Poll::Ready(returned) = future.as_mut().poll(cx)
        {
            self.future = None;
            self.error = returned.err();
        }
        match self.queue.poll_queue(cx) {
            event @ Poll::Ready(Some(_)) => event,
            end => self.error.take().map_or(end, |error| Poll::Ready(Some(Err(error)))),
        }
    }
}

impl<S: EventSource> BodySource for EventStream<S> {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        if let Some(end) = self.end.take() {
            return Poll::Ready(end.map(Err));
        }
        let batch = match self.poll_batch(cx) {
            Poll::Pending => {
                ready!(self.poll_heartbeat(cx));
                Some(Ok(EncodedEvent::HEARTBEAT.into_bytes()))
            }
            Poll::Ready(batch) => batch,
        };
        if self.heartbeat.is_some() {
            self.last_sent = LocalLoop::current().map(|here| here.now());
        }
        Poll::Ready(batch.map(|batch| batch.map(BodyChunk::Bytes)))
    }
}

impl<S: EventSource> IntoResponse for EventStream<S> {
    fn into_response(self) -> Response {
        let body = Body::from_source(self).with_content_type("text/event-stream");
        let mut response = Response::new(body);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl<S> fmt::Debug for EventStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("heartbeat", &self.heartbeat).finish_non_exhaustive()
    }
}

impl fmt::Debug for AsyncEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncEvents").field("queue", &self.queue).finish_non_exhaustive()
    }
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the id of the last event that a client has seen, which it names when it connects again (`Last-Event-ID`). `None`
/// if there is none, or it is not an id: empty, repeated or not UTF-8.
#[must_use]
pub fn last_event_id(request: &Request) -> Option<&str> {
    let mut values = request.headers().get_all(LAST_EVENT_ID).iter();
    let id = std::str::from_utf8(values.next()?.as_bytes()).ok()?;
    (values.next().is_none() && !id.is_empty()).then_some(id)
}
