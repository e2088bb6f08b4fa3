//! Requests, services and bodies that several tests use.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use waterwheel_channel::LocalLoop;
use waterwheel_executor::Error;
use waterwheel_http::{Body, BodyChunk, BodyError, BodySource, HttpServer, Incoming, Request};

/// Returns a request without a body.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Returns the head of a request with further field lines, each with its line end.
pub(crate) fn post(path: &str, fields: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// Returns the answer of a text.
pub(crate) fn ok(text: &str) -> String {
    let len = text.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len}\r\n\r\n{text}"
    )
}

/// Answers with the path.
pub(crate) async fn echo_path(request: Request) -> String {
    request.uri().path().to_owned()
}

/// Answers with the body, as it comes.
pub(crate) async fn echo_stream(request: Request) -> Body {
    Body::from_source(request.into_body())
}

/// A gate that the test opens once for each that passes, from outside of the loop.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    passes: usize,
    wakers: Vec<Waker>,
}

impl Gate {
    /// Waits for a pass.
    pub(crate) async fn pass(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.passes > 0 {
                state.passes -= 1;
                return Poll::Ready(());
            }
            state.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Lets one pass.
    pub(crate) fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.passes += 1;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// The bytes and errors that readers of bodies have seen.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<(Vec<u8>, Vec<String>)>>);

impl Seen {
    /// Reads a body to its end on a future of its own, which outlives the call: a chunk for each pass of the gate.
    pub(crate) fn read_elsewhere(&self, body: Incoming, gate: Gate) {
        let seen = self.clone();
        drop(LocalLoop::current().unwrap().spawn_local(async move {
            gate.pass().await;
            seen.read(body).await;
        }));
    }

    async fn read(&self, mut body: Incoming) {
        loop {
            match body.chunk().await {
                Some(Ok(chunk)) => self.0.lock().unwrap().0.extend_from_slice(&chunk),
                Some(Err(error)) => return self.note(error),
                None => {
                    let trailers = body.take_trailers().unwrap_or_default();
                    return self.note(format!("end, {} trailers", trailers.len()));
                }
            }
        }
    }

    pub(crate) fn note(&self, what: impl ToString) {
        self.0.lock().unwrap().1.push(what.to_string());
    }

    /// Returns how many bytes were read.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().unwrap().0.len()
    }

    /// Takes the notes.
    pub(crate) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

/// Adds one when it is dropped.
#[derive(Clone, Default)]
pub(crate) struct DropCount(Arc<AtomicUsize>);

impl DropCount {
    pub(crate) fn guard(&self) -> DropGuard {
        DropGuard(self.0.clone())
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct DropGuard(Arc<AtomicUsize>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns a server whose calls wait for a gate, and count when they are dropped.
pub(crate) fn gated(gate: &Gate, drops: &DropCount) -> HttpServer {
    let (gate, drops) = (gate.clone(), drops.clone());
    let service = move |request: Request| {
        let (gate, drops) = (gate.clone(), drops.clone());
        async move {
            let _guard = drops.guard();
            gate.pass().await;
            request.uri().path().to_owned()
        }
    };
    HttpServer::builder(service).build().unwrap()
}

/// Asserts that nothing of a server is left over.
pub(crate) fn assert_over(server: &HttpServer, requests: u64) {
    let metrics = server.metrics();
    let counted = (metrics.requests, metrics.in_flight, metrics.open_connections);
    assert_eq!(counted, (requests, 0, 0));
}

/// A step of a scripted source.
#[derive(Clone)]
pub(crate) enum Step {
    Chunk(&'static str),
    /// Waits for a pass of the gate.
    Wait(Gate),
    Fail(BodyError),
    Panic,
}

/// A source that follows a script.
pub(crate) struct Script {
    steps: VecDeque<Step>,
    len: Option<u64>,
    trailers: RefCell<Option<HeaderMap>>,
}

impl Script {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), len: None, trailers: RefCell::new(None) }
    }

    pub(crate) fn announcing(mut self, len: u64) -> Self {
        self.len = Some(len);
        self
    }

    pub(crate) fn trailer(self, name: &'static str, value: &'static str) -> Self {
        let fields = self.trailers.borrow_mut().take().unwrap_or_default();
        let mut fields: HeaderMap = fields;
        fields.append(name, http::HeaderValue::from_static(value));
        self.trailers.replace(Some(fields));
        self
    }
}

impl BodySource for Script {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<BodyChunk, Error>>> {
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Chunk(text)) => Poll::Ready(Some(Ok(Bytes::from(text).into()))),
            Some(Step::Fail(error)) => Poll::Ready(Some(Err(Error::new(error)))),
            Some(Step::Panic) => panic!("a source panics on purpose"),
            Some(Step::Wait(gate)) => {
                let passed = std::pin::pin!(gate.pass()).poll(cx).is_ready();
                if passed {
                    return self.poll_chunk(cx);
                }
                self.steps.push_front(Step::Wait(gate));
                Poll::Pending
            }
        }
    }

    fn exact_len(&self) -> Option<u64> {
        self.len
    }

    fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }
}
