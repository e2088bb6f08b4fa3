//! Services that are written against tower's traits alone.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use ::http_body::{Body as HttpBody, Frame, SizeHint};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use super::*;
use crate::body::error::BodyError;
use crate::body::incoming::Incoming;
use crate::body::outgoing::BodyRepr;
use crate::body::pipe::BodyPipe;
use crate::body::source::BodyChunk;

type BoxError = Box<dyn StdError + Send + Sync>;
type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A tower service of a function, which is ready at the second poll of each clone. Its futures are `Send`, as with axum.
struct TowerFn<F> {
    function: F,
    polls: usize,
}

impl<F: Clone> Clone for TowerFn<F> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), polls: 0 }
    }
}

impl<F, B, E> tower_service::Service<http::Request<SendBody>> for TowerFn<F>
where
    F: Fn(http::Request<SendBody>) -> BoxFuture<Result<http::Response<B>, E>>,
{
    type Response = http::Response<B>;
    type Error = E;
    type Future = BoxFuture<Result<http::Response<B>, E>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), E>> {
        self.polls += 1;
        cx.waker().wake_by_ref();
        if self.polls > 1 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, request: http::Request<SendBody>) -> Self::Future {
        assert!(self.polls > 1, "called before it was ready");
        (self.function)(request)
    }
}

fn tower_fn<F, B, E>(function: F) -> impl Service
where
    F: Fn(http::Request<SendBody>) -> BoxFuture<Result<http::Response<B>, E>> + Clone + 'static,
    B: HttpBody + 'static,
    B::Error: Into<BoxError>,
    E: Into<BoxError> + 'static,
{
    TowerService::new(TowerFn { function, polls: 0 })
}

/// A body of frames that are all there.
struct Frames<E>(VecDeque<Result<Frame<Bytes>, E>>);

impl<E: Unpin> HttpBody for Frames<E> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        Poll::Ready(self.0.pop_front())
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let has_data = |frame: &Result<Frame<Bytes>, E>| frame.as_ref().is_ok_and(Frame::is_data);
        match &self.0 {
            frames if frames.iter().all(has_data) => {
                let lens = frames.iter().flatten().filter_map(Frame::data_ref).map(Bytes::len);
                SizeHint::with_exact(lens.sum::<usize>() as u64)
            }
            _ => SizeHint::default(),
        }
    }
}

/// Wakes a thread that waits in [`block_on`].
struct ThreadWaker(Mutex<Sender<()>>);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        // The thread may have its result already.
        let _ = self.0.lock().unwrap().send(());
    }
}

/// Polls a future when it is woken, and at no other time.
fn block_on<F: Future>(future: F) -> F::Output {
    let (sender, wakes) = channel();
    let waker = Waker::from(Arc::new(ThreadWaker(Mutex::new(sender))));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        wakes.recv().unwrap();
    }
}

/// Reads a body to its end: the data, and the trailers.
async fn read<B: HttpBody<Data = Bytes>>(body: B) -> Result<(Vec<u8>, HeaderMap), B::Error> {
    let mut body = pin!(body);
    let (mut data, mut trailers) = (Vec::new(), HeaderMap::new());
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(bytes) => data.extend_from_slice(&bytes),
            Err(frame) => trailers.extend(frame.into_trailers().unwrap_or_default()),
        }
    }
    Ok((data, trailers))
}

/// Reads our own body to its end.
fn read_source(body: Body) -> Result<(Vec<u8>, Option<HeaderMap>), Error> {
    let mut source = match body.into_repr() {
        BodyRepr::Empty => return Ok((Vec::new(), None)),
        BodyRepr::Bytes(bytes) => return Ok((bytes.to_vec(), None)),
        BodyRepr::Source(source) => source,
        BodyRepr::File(_) | BodyRepr::Upgrade(_) => panic!("not made here"),
    };
    block_on(async {
        let mut data = Vec::new();
        while let Some(chunk) = poll_fn(|cx| source.poll_chunk(cx)).await {
            let BodyChunk::Bytes(bytes) = chunk? else { panic!("a file") };
            data.extend_from_slice(&bytes);
        }
        Ok((data, source.take_trailers()))
    })
}

fn request(body: impl Into<Incoming>) -> Request {
    Request::new(body.into())
}

fn bytes(text: &'static str) -> Incoming {
    Incoming::from(Bytes::from_static(text.as_bytes()))
}

/// Returns a body that is still to come, and the connection's end of it.
fn pending_body() -> (Incoming, Rc<BodyPipe>) {
    let pipe = Rc::new(BodyPipe::new(None, true));
    (Incoming::new(Some(pipe.clone()), None), pipe)
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("1"))])
}

fn frames<E>(frames: impl IntoIterator<Item = Result<Frame<Bytes>, E>>) -> Frames<E> {
    Frames(frames.into_iter().collect())
}

fn data<E>(text: &'static str) -> Result<Frame<Bytes>, E> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

#[test]
fn h07_a_tower_service_answers_once_it_is_ready() {
    let service = tower_fn(|request| {
        Box::pin(async move {
            let (body, _) = read(request.into_body()).await?;
            let body = frames::<Infallible>([Ok(Frame::data(Bytes::from(body)))]);
            Ok::<_, BoxError>(http::Response::builder().status(201).body(body)?)
        })
    });
    for text in ["", "hello"] {
        let response = block_on(service.call(request(bytes(text))));
        assert_eq!(response.status(), 201);
        assert_eq!(response.body().exact_len(), Some(text.len() as u64));
        assert_eq!(read_source(response.into_body()).unwrap(), (text.into(), None));
    }
}

#[test]
fn h07_a_tower_service_may_read_the_body_on_another_thread() {
    let service = tower_fn(|request| {
        let mut body = Some(request.into_body());
        let (sender, receiver) = channel();
        let received = poll_fn(move |cx| {
            if let Some(body) = body.take() {
                let (sender, waker) = (sender.clone(), cx.waker().clone());
                std::thread::spawn(move || {
                    sender.send(block_on(read(body))).unwrap();
                    waker.wake();
                });
            }
            receiver.try_recv().map_or(Poll::Pending, Poll::Ready)
        });
        Box::pin(async move {
            let (body, _) = received.await?;
            Ok::<_, BodyError>(http::Response::new(frames::<Infallible>([Ok(Frame::data(
                body.into(),
            ))])))
        })
    });
    let response = block_on(service.call(request(bytes("over there"))));
    assert_eq!(read_source(response.into_body()).unwrap().0, b"over there");
}

#[test]
fn h07_the_response_of_a_tower_service_may_be_the_body_of_the_request() {
    let service = tower_fn(|request| {
        let body = request.into_body();
        Box::pin(async { Ok::<_, Infallible>(http::Response::new(body)) })
    });
    let response = block_on(service.call(request(bytes("echo"))));
    assert_eq!(response.body().exact_len(), Some(4));
    assert_eq!(read_source(response.into_body()).unwrap(), (b"echo".into(), None));

    let (body, pipe) = pending_body();
    let response = block_on(service.call(request(body)));
    assert_eq!(response.body().exact_len(), None);
    pipe.finish(Some(Box::new(trailers())));
    assert_eq!(read_source(response.into_body()).unwrap(), (vec![], Some(trailers())));
}

#[test]
fn h07_the_body_of_a_request_is_asked_for_when_it_is_read() {
    let (body, pipe) = pending_body();
    let (mut body, pump) = SendBody::new(body);
    let mut pump = pump.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(!pump.poll_handover(&mut cx));
    assert!(!pipe.take_continue(), "nothing has read the body");
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    assert!(!pump.poll_handover(&mut cx));
    assert!(pipe.take_continue());
    pipe.fail(BodyError::TooSlow { rate: 7 });
    assert!(pump.poll_handover(&mut cx));
    let frame = Pin::new(&mut body).poll_frame(&mut cx);
    assert!(matches!(frame, Poll::Ready(Some(Err(BodyError::TooSlow { rate: 7 })))));
}

#[test]
fn h07_a_body_that_outlives_its_call_is_aborted() {
    let (sender, bodies) = channel();
    let service = tower_fn(move |request| {
        sender.send(request.into_body()).unwrap();
        Box::pin(async { Ok::<_, Infallible>(http::Response::new(frames::<Infallible>([]))) })
    });
    drop(block_on(service.call(request(bytes("unread")))));
    let body = bodies.recv().unwrap();
    assert_eq!(block_on(read(body)), Err(BodyError::Aborted));

    let mut dropped = Box::pin(service.call(request(bytes("unread"))));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(dropped.as_mut().poll(&mut cx).is_pending(), "the service is not ready");
    drop(dropped);
    assert!(bodies.try_recv().is_err());
}

#[test]
fn h07_a_body_that_is_dropped_is_not_received() {
    let (body, pipe) = pending_body();
    let (body, pump) = SendBody::new(body);
    let mut pump = pump.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(!pump.poll_handover(&mut cx));
    drop(body);
    assert!(!pipe.is_abandoned());
    assert!(!pump.poll_handover(&mut cx));
    assert!(pipe.is_abandoned());
}

#[test]
fn h07_a_body_without_bytes_has_no_pump_and_keeps_its_trailers() {
    let (body, pipe) = pending_body();
    pipe.finish(Some(Box::new(trailers())));
    let (body, pump) = SendBody::new(body);
    assert!(pump.is_none() && !body.is_end_stream());
    assert_eq!(block_on(read(body)), Ok((vec![], trailers())));
    assert!(SendBody::new(Incoming::empty()).0.is_end_stream());
}

#[test]
fn h07_an_error_of_a_tower_service_is_500_and_reported() {
    let service =
        tower_fn(|_| Box::pin(async { Err::<http::Response<SendBody>, _>(std::fmt::Error) }));
    let response = block_on(service.call(request(Incoming::empty())));
    assert_eq!(response.status(), 500);
    let error = response.extensions().get::<Error>().unwrap();
    assert!(error.find::<std::fmt::Error>().is_some());
}

#[test]
fn h07_bodies_of_other_crates_are_sent_with_trailers_and_errors() {
    type Never = Infallible;
    let table = [
        (Body::from_http_body(frames::<Never>([])), Some(0), "", None),
        (Body::from_http_body(frames::<Never>([data("all")])), Some(3), "all", None),
        (Body::from_http_body(frames::<Never>([data("a"), data("bc")])), Some(3), "abc", None),
        (
            Body::from_http_body(frames::<Never>([data("a"), Ok(Frame::trailers(trailers()))])),
            None,
            "a",
            Some(trailers()),
        ),
    ];
    for (body, length, text, trailers) in table {
        assert_eq!(body.exact_len(), length, "{text}");
        assert_eq!(read_source(body).unwrap(), (text.into(), trailers));
    }
    let one_chunk = Body::from_http_body(frames::<Never>([data("all")]));
    assert!(matches!(one_chunk.into_repr(), BodyRepr::Bytes(_)), "not boxed");

    let broken = frames([data("a"), Err(std::fmt::Error)]);
    let error = read_source(Body::from_http_body(broken)).unwrap_err();
    assert!(error.find::<std::fmt::Error>().is_some());
}

#[test]
fn h07_the_body_of_a_request_is_a_body_of_the_ecosystem() {
    assert_eq!(block_on(read(bytes("hello"))), Ok((b"hello".into(), HeaderMap::new())));
    assert_eq!(bytes("hello").size_hint().exact(), Some(5));
    let (body, pipe) = pending_body();
    pipe.finish(Some(Box::new(trailers())));
    assert_eq!(block_on(read(body)), Ok((vec![], trailers())));
    let (body, pipe) = pending_body();
    assert_eq!(body.size_hint().exact(), None);
    pipe.fail(BodyError::Aborted);
    assert_eq!(block_on(read(body)), Err(BodyError::Aborted));

    /// The bounds of axum's routers.
    fn is_body_for_axum<B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static>() {}
    is_body_for_axum::<SendBody>();
}
