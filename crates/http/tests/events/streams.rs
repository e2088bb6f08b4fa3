//! Server-sent events: streams over queues, closures and functions, with heartbeats (H10).

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderValue};
use waterwheel_channel::sleep;
use waterwheel_executor::Error;
use waterwheel_http::{
    BodyChunk, BodySource, EventReaderTooSlow, EventSendError, EventSender, EventSource,
    EventStream, Incoming, IntoResponse, QueuedEvents, Request, ServerEvent, SlowReader,
    ZeroEventCapacity, last_event_id,
};
use waterwheel_testkit::embedded::Embedded;

const SECOND: Duration = Duration::from_secs(1);

/// A waker that counts.
#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A stream on a loop with a virtual clock.
struct Bench<S: EventSource> {
    stream: Option<EventStream<S>>,
    channel: Embedded,
    wakes: Arc<WakeCount>,
}

#[derive(Debug, PartialEq, Eq)]
enum Polled {
    Text(String),
    Failed(String),
    End,
    Pending,
}

fn text(text: &str) -> Polled {
    Polled::Text(text.into())
}

impl<S: EventSource> Bench<S> {
    fn new(stream: EventStream<S>) -> Self {
        let channel = Embedded::new(|_| Ok(())).unwrap();
        Self { stream: Some(stream), channel, wakes: Arc::default() }
    }

    fn poll_raw(&mut self) -> Poll<Option<Result<BodyChunk, Error>>> {
        let waker = Waker::from(self.wakes.clone());
        let stream = self.stream.as_mut().unwrap();
        self.channel.on_loop(|_| stream.poll_chunk(&mut Context::from_waker(&waker)))
    }

    fn poll(&mut self) -> Polled {
        match self.poll_raw() {
            Poll::Pending => Polled::Pending,
            Poll::Ready(None) => Polled::End,
            Poll::Ready(Some(Err(error))) => Polled::Failed(error.to_string()),
            Poll::Ready(Some(Ok(BodyChunk::Bytes(bytes)))) => {
                Polled::Text(String::from_utf8(bytes.to_vec()).unwrap())
            }
            Poll::Ready(Some(Ok(BodyChunk::File(_)))) => panic!("a file"),
        }
    }

    /// Lets time pass; returns how many wakes of the stream that caused.
    fn advance(&mut self, by: Duration) -> usize {
        let before = self.wakes();
        self.channel.advance(by);
        self.wakes() - before
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    fn drop_stream(&mut self) {
        let stream = self.stream.take();
        self.channel.on_loop(|_| drop(stream));
    }
}

impl<S: EventSource> Drop for Bench<S> {
    fn drop(&mut self) {
        self.drop_stream();
    }
}

fn event(data: &str) -> ServerEvent {
    ServerEvent::new(data)
}

fn queue(capacity: usize, slow_reader: SlowReader) -> (EventSender, Bench<QueuedEvents>) {
    let builder = EventSender::builder().capacity(capacity).unwrap().slow_reader(slow_reader);
    let (sender, events) = builder.open();
    (sender, Bench::new(EventStream::new(events)))
}

#[test]
fn h10_a_stream_is_a_response_that_is_not_stored() {
    let (_sender, events) = EventSender::pair();
    let response = EventStream::new(events).into_response();
    assert_eq!(response.status(), 200);
    assert_eq!(response.body().content_type(), Some("text/event-stream"));
    assert_eq!(response.body().exact_len(), None);
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
}

#[test]
fn h10_a_closure_is_a_source_and_its_ready_events_are_one_chunk() {
    let mut left = 3;
    let mut bench = Bench::new(EventStream::new(move |_: &mut Context<'_>| {
        left -= 1;
        Poll::Ready((left >= 0).then(|| Ok(event(&left.to_string()))))
    }));
    assert_eq!(bench.poll(), text("data: 2\n\ndata: 1\n\ndata: 0\n\n"));
    assert_eq!(bench.poll(), Polled::End);
}

#[test]
fn h10_chunks_of_a_source_that_never_waits_are_bounded() {
    let data = "x".repeat(1000);
    let mut bench = Bench::new(EventStream::new(move |_: &mut Context<'_>| {
        Poll::Ready(Some(Ok(event(&data))))
    }));
    let Poll::Ready(Some(Ok(chunk))) = bench.poll_raw() else { panic!("a chunk") };
    assert!((16 * 1024..16 * 1024 + 1010).contains(&chunk.len()), "{}", chunk.len());
}

#[test]
fn h10_an_error_follows_the_events_before_it() {
    let mut calls = 0;
    let mut bench = Bench::new(EventStream::new(move |_: &mut Context<'_>| {
        calls += 1;
        Poll::Ready(Some(if calls == 1 { Ok(event("1")) } else { Err(Error::new("broken")) }))
    }));
    assert_eq!(bench.poll(), text("data: 1\n\n"));
    assert_eq!(bench.poll(), Polled::Failed("broken".into()));
}

#[test]
fn h10_events_from_other_threads_wake_the_stream_and_arrive_in_order() {
    let (sender, mut bench) = queue(256, SlowReader::Disconnect);
    assert_eq!(bench.poll(), Polled::Pending);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.try_send(event("1")).unwrap();
            sender.try_send(event("2")).unwrap();
        });
    });
    assert_eq!(bench.wakes(), 1, "woken once until it is polled again");
    assert_eq!(bench.poll(), text("data: 1\n\ndata: 2\n\n"));
    assert_eq!(bench.poll(), Polled::Pending);
}

#[test]
fn h10_the_stream_ends_when_the_last_sender_is_dropped() {
    let (sender, mut bench) = queue(4, SlowReader::Disconnect);
    let other = sender.clone();
    assert_eq!(bench.poll(), Polled::Pending);
    drop(sender);
    assert_eq!((bench.wakes(), bench.poll()), (0, Polled::Pending));
    other.try_send(event("last")).unwrap();
    drop(other);
    assert_eq!(bench.wakes(), 1);
    assert_eq!(bench.poll(), text("data: last\n\n"));
    assert_eq!(bench.poll(), Polled::End);
}

#[test]
fn h10_a_sender_sees_that_the_client_has_gone() {
    let (sender, mut bench) = queue(4, SlowReader::Disconnect);
    sender.try_send(event("unread")).unwrap();
    assert!(!sender.is_closed());
    bench.drop_stream();
    assert!(sender.is_closed());
    let refused = sender.try_send(event("late")).unwrap_err();
    assert!(matches!(refused, EventSendError::Closed(_)));
    assert!(Error::from(refused.clone()).is_closed());
    assert_eq!(refused.into_event(), event("late").encode());
}

#[test]
fn h10_a_slow_reader_is_disconnected_by_default() {
    let (sender, events) = EventSender::pair();
    let mut bench = Bench::new(EventStream::new(events));
    for _ in 0..EventSender::DEFAULT_CAPACITY {
        sender.try_send(event("")).unwrap();
    }
    let refused = sender.try_send(event("one too many"));
    assert!(matches!(refused, Err(EventSendError::Disconnected(_))));
    assert!(sender.is_closed());
    let Poll::Ready(Some(Err(error))) = bench.poll_raw() else { panic!("an error") };
    assert_eq!(error.find(), Some(&EventReaderTooSlow { capacity: 256 }));
}

#[test]
fn h10_a_slow_reader_is_told_how_many_events_were_dropped() {
    let (sender, mut bench) = queue(2, SlowReader::DropOldest);
    for number in 0..5 {
        sender.try_send(event(&number.to_string())).unwrap();
    }
    assert_eq!(bench.poll(), text("event: dropped\ndata: 3\n\ndata: 3\n\ndata: 4\n\n"));
    sender.try_send(event("5")).unwrap();
    assert_eq!(bench.poll(), text("data: 5\n\n"));
}

#[test]
fn h10_senders_wait_for_a_slow_reader_if_they_choose_to() {
    let (sender, mut bench) = queue(1, SlowReader::Wait);
    let wakes = Arc::new(WakeCount::default());
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    let mut first = pin!(sender.send(event("1")));
    assert_eq!(first.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    let mut second = pin!(sender.send(event("2")));
    assert!(second.as_mut().poll(&mut cx).is_pending());
    assert!(matches!(sender.try_send(event("3")), Err(EventSendError::Full(_))));
    assert_eq!(bench.poll(), text("data: 1\n\n"));
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert_eq!(second.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    let mut third = pin!(sender.send(event("3")));
    assert!(third.as_mut().poll(&mut cx).is_pending());
    bench.drop_stream();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 2, "a waiting sender is woken by the end");
    let Poll::Ready(Err(EventSendError::Closed(_))) = third.as_mut().poll(&mut cx) else {
        panic!("closed")
    };
}

#[test]
fn h10_a_queue_without_room_for_an_event_is_refused() {
    assert_eq!(EventSender::builder().capacity(0).unwrap_err(), ZeroEventCapacity);
}

#[test]
fn h10_an_idle_stream_sends_a_heartbeat_every_15_seconds() {
    let (sender, mut bench) = queue(4, SlowReader::Disconnect);
    assert_eq!(bench.poll(), Polled::Pending);
    assert_eq!(bench.advance(15 * SECOND - Duration::from_millis(1)), 0);
    assert_eq!(bench.poll(), Polled::Pending);
    assert_eq!(bench.advance(Duration::from_millis(1)), 1);
    assert_eq!(bench.poll(), text(":\n\n"));
    assert_eq!(bench.poll(), Polled::Pending);

    // An event moves the next heartbeat.
    bench.advance(10 * SECOND);
    sender.try_send(event("1")).unwrap();
    assert_eq!(bench.poll(), text("data: 1\n\n"));
    assert_eq!(bench.poll(), Polled::Pending);
    bench.advance(14 * SECOND);
    assert_eq!(bench.poll(), Polled::Pending, "24 s after the heartbeat, 14 s after the event");
    bench.advance(SECOND);
    assert_eq!(bench.poll(), text(":\n\n"));
}

#[test]
fn h10_the_time_of_heartbeats_is_an_option() {
    for (heartbeat, polled) in [(Some(2 * SECOND), text(":\n\n")), (None, Polled::Pending)] {
        let (_sender, events) = EventSender::pair();
        let mut bench = Bench::new(EventStream::new(events).heartbeat(heartbeat));
        assert_eq!(bench.poll(), Polled::Pending);
        bench.advance(2 * SECOND);
        assert_eq!(bench.poll(), polled);
    }
}

#[test]
fn h10_a_dropped_stream_leaves_no_timer() {
    let (_sender, mut bench) = queue(4, SlowReader::Disconnect);
    assert_eq!(bench.poll(), Polled::Pending);
    let timers = |bench: &mut Bench<_>| {
        bench.channel.run();
        bench.channel.channel().event_loop().metrics().timers
    };
    assert_eq!(timers(&mut bench), 1);
    bench.drop_stream();
    assert_eq!(timers(&mut bench), 0);
}

#[test]
fn h10_an_async_function_is_a_source() {
    let mut bench = Bench::new(EventStream::from_async(|events| async move {
        for number in 0..2 {
            events.send(event(&number.to_string())).await?;
            sleep(SECOND).await;
        }
        Ok(())
    }));
    assert_eq!(bench.poll(), text("data: 0\n\n"));
    assert_eq!(bench.poll(), Polled::Pending);
    assert_eq!(bench.advance(SECOND), 1);
    assert_eq!(bench.poll(), text("data: 1\n\n"));
    assert_eq!(bench.poll(), Polled::Pending);
    bench.advance(SECOND);
    assert_eq!(bench.poll(), Polled::End);
}

#[test]
fn h10_an_async_source_waits_for_room_and_is_dropped_with_its_stream() {
    let sent = Rc::new(Cell::new(0));
    let count = sent.clone();
    let mut bench = Bench::new(EventStream::from_async(|events| async move {
        loop {
            events.send(event(&"x".repeat(1000))).await?;
            count.set(count.get() + 1);
        }
    }));
    assert!(matches!(bench.poll(), Polled::Text(_)));
    assert_eq!(sent.get(), EventSender::DEFAULT_CAPACITY, "the first batch has not left room");
    for _ in 0..20 {
        assert!(matches!(bench.poll(), Polled::Text(_)));
    }
    assert!(sent.get() > EventSender::DEFAULT_CAPACITY);
    bench.drop_stream();
    assert_eq!(Rc::strong_count(&sent), 1);
}

#[test]
fn h10_the_error_of_an_async_source_follows_its_events() {
    let mut bench = Bench::new(EventStream::from_async(|events| async move {
        events.send(event("1")).await?;
        Err(Error::new("broken"))
    }));
    assert_eq!(bench.poll(), text("data: 1\n\n"));
    assert_eq!(bench.poll(), Polled::Failed("broken".into()));
}

#[test]
fn h10_the_last_event_id_is_read_from_the_request() {
    let request = |values: &[&[u8]]| {
        let mut request = Request::new(Incoming::empty());
        for value in values {
            let value = HeaderValue::from_bytes(value).unwrap();
            request.headers_mut().append("Last-Event-ID", value);
        }
        request
    };
    assert_eq!(last_event_id(&request(&[b"7"])), Some("7"));
    assert_eq!(last_event_id(&request(&["\u{e9}".as_bytes()])), Some("\u{e9}"));
    let bad: [&[&[u8]]; 4] = [&[], &[b""], &[b"\xff"], &[b"7", b"8"]];
    for values in bad {
        assert_eq!(last_event_id(&request(values)), None, "{values:?}");
    }
}

#[test]
fn h10_senders_are_used_from_any_thread() {
    fn is_send<T: Send + Sync + Clone + 'static>() {}
    is_send::<EventSender>();
    fn future_is_send<T: Send>(_: T) {}
    let (sender, _events) = EventSender::pair();
    future_is_send(sender.send(event("")));
}
