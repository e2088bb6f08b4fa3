//! The bytes of all writes in order, and what may become of each.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use waterwheel_channel::{ChannelFuture, Msg};
use waterwheel_executor::Error;
use waterwheel_handlers::{ChunkSource, ChunkedMessage};

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Open,
    Written,
    Failed,
    Cancelled,
}

/// A write in the order in which they were made.
pub(crate) struct ModelWrite {
    /// The message, or the chunks.
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) source: Option<Source>,
    result: WriteResult,
}

enum WriteResult {
    Future(Option<ChannelFuture>, Outcome),
    /// The calls of a completion: how many, and the last result.
    Calls(Rc<Cell<(usize, Outcome)>>),
}

impl ModelWrite {
    pub(crate) fn with_calls(chunk: Bytes, calls: Rc<Cell<(usize, Outcome)>>) -> Self {
        Self { chunks: vec![chunk], source: None, result: WriteResult::Calls(calls) }
    }

    /// A write whose future is still to come.
    pub(crate) fn unmade(chunk: Bytes) -> Self {
        Self { chunks: vec![chunk], source: None, result: WriteResult::Future(None, Outcome::Open) }
    }

    pub(crate) fn unmade_source(chunks: Vec<Bytes>, source: Source) -> Self {
        let result = WriteResult::Future(None, Outcome::Open);
        Self { chunks, source: Some(source), result }
    }

    pub(crate) fn made(&mut self, future: ChannelFuture) {
        self.result = WriteResult::Future(Some(future), Outcome::Open);
    }

    /// Returns the most pending bytes that the write may count for.
    pub(crate) fn most_pending(&mut self) -> usize {
        if self.outcome() == Outcome::Written {
            return 0;
        }
        let bytes: usize = self.chunks.iter().map(|chunk| chunk.len().max(1)).sum();
        bytes + self.source.as_ref().map_or(0, |_| ChunkedMessage::PENDING_BYTES)
    }

    pub(crate) fn cancel(&mut self) {
        if let WriteResult::Future(Some(future), outcome) = &mut self.result
            && future.cancel()
        {
            *outcome = Outcome::Cancelled;
        }
    }

    pub(crate) fn outcome(&mut self) -> Outcome {
        match &mut self.result {
            WriteResult::Future(future, outcome) => {
                if *outcome == Outcome::Open
                    && let Some(result) = future.as_mut().and_then(ChannelFuture::try_take)
                {
                    *outcome = if result.is_ok() { Outcome::Written } else { Outcome::Failed };
                    *future = None;
                }
                *outcome
            }
            WriteResult::Calls(calls) => {
                let (count, outcome) = calls.get();
                assert!(count <= 1, "a completion was called {count} times");
                outcome
            }
        }
    }
}

/// Checks that the sent bytes are those of the writes, in order: a successful write whole, a failed one not at all
/// unless it is chunked or the last.
pub(crate) fn check_sent(
    mut sent: &[u8],
    writes: &mut [ModelWrite],
    is_over: bool,
) -> Result<(), String> {
    for (at, write) in writes.iter_mut().enumerate() {
        let outcome = write.outcome();
        for chunk in &write.chunks {
            if let Some(rest) = sent.strip_prefix(&chunk[..]) {
                sent = rest;
                continue;
            }
            if outcome == Outcome::Written {
                return Err(format!(
                    "write {at} succeeded, and {chunk:?} is missing before {sent:?}"
                ));
            }
            if chunk.starts_with(sent) {
                sent = &[]; // A part was sent; nothing may follow.
            }
            if outcome == Outcome::Open && is_over {
                return Err(format!("write {at} is not completed"));
            }
            break;
        }
    }
    if sent.is_empty() { Ok(()) } else { Err(format!("{sent:?} is nobody's, or out of order")) }
}

/// Checks that no write succeeds before one that was made before it.
pub(crate) fn check_order(writes: &mut [ModelWrite]) -> Result<(), String> {
    let mut open = None;
    for (at, write) in writes.iter_mut().enumerate() {
        // A source without bytes is done when it ends: nothing of it has to be written.
        if write.source.is_some() && write.chunks.iter().all(Bytes::is_empty) {
            continue;
        }
        match (write.outcome(), open) {
            (Outcome::Open, _) => open = open.or(Some(at)),
            (Outcome::Written, Some(before)) => {
                return Err(format!("write {at} succeeded before write {before}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A source whose chunks the test supplies.
#[derive(Clone, Default)]
pub(crate) struct Source(Arc<Mutex<SourceState>>);

#[derive(Default)]
struct SourceState {
    chunks: VecDeque<Bytes>,
    given: usize,
    end: Option<SourceEnd>,
    waker: Option<Waker>,
    is_dropped: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceEnd {
    Finish,
    Fail,
    Panic,
}

impl Source {
    fn lock(&self) -> MutexGuard<'_, SourceState> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn message(&self, chunks: &[Bytes], given: usize) -> ChunkedMessage {
        let mut state = self.lock();
        state.chunks = chunks.iter().cloned().collect();
        state.given = given;
        drop(state);
        ChunkedMessage::new(PolledSource(self.clone()))
    }

    pub(crate) fn give(&self, count: usize) {
        let mut state = self.lock();
        state.given = state.given.saturating_add(count);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ends the source after all its chunks, or at once if that is a failure.
    pub(crate) fn end(&self, end: SourceEnd) {
        self.lock().end.get_or_insert(end);
        self.give(if matches!(end, SourceEnd::Finish) { usize::MAX } else { 0 });
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.lock().is_dropped
    }
}

struct PolledSource(Source);

impl ChunkSource for PolledSource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
        let mut state = self.0.lock();
        match state.end {
            Some(SourceEnd::Fail) => {
                return Poll::Ready(Some(Err(Error::new("the source failed"))));
            }
            Some(SourceEnd::Panic) => {
                drop(state);
                panic!("the source panicked");
            }
            _ => {}
        }
        if state.given > 0
            && let Some(chunk) = state.chunks.pop_front()
        {
            state.given -= 1;
            return Poll::Ready(Some(Ok(chunk.into())));
        }
        if state.end.is_some() && state.chunks.is_empty() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for PolledSource {
    fn drop(&mut self) {
        self.0.lock().is_dropped = true;
    }
}
