//! An embedded channel with a chunked writer, and a source whose chunks the test supplies.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use waterwheel_channel::{ChannelFuture, ChannelOptions, FileRegion, Msg, WaterMarks};
use waterwheel_executor::{Error, Report, Reporter};
use waterwheel_handlers::{ChunkSource, ChunkedMessage, ChunkedWriter, ChunkedWriterBuilder};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

/// A stream channel whose only handler is a chunked writer.
pub(crate) struct Bench {
    channel: Embedded,
    pub(crate) reports: Reports,
}

pub(crate) fn bench() -> Bench {
    bench_with(Embedded::builder().stream(), ChunkedWriter::builder())
}

/// A bench with the water marks 50 and 100.
pub(crate) fn small_bench() -> Bench {
    bench_with(Embedded::builder().stream().options(marks(50, 100)), ChunkedWriter::builder())
}

pub(crate) fn bench_with(builder: EmbeddedBuilder, writer: ChunkedWriterBuilder) -> Bench {
    let reports = Reports::default();
    let channel = builder.reporter(Arc::new(reports.clone())).build(|edit| {
        edit.add_last("chunks", writer.build()?)?;
        Ok(())
    });
    Bench { channel: channel.unwrap(), reports }
}

pub(crate) fn marks(low: usize, high: usize) -> ChannelOptions {
    ChannelOptions { water_marks: WaterMarks::new(low, high).unwrap(), ..Default::default() }
}

impl Bench {
    /// Writes and flushes a text.
    pub(crate) fn send(&mut self, text: &'static str) -> ChannelFuture {
        self.channel.write_outbound(Bytes::from_static(text.as_bytes()))
    }

    /// Writes and flushes a source, which stays under the control of the test.
    pub(crate) fn send_source(&mut self) -> (SourceControl, ChannelFuture) {
        let control = SourceControl::default();
        let future = self.channel.write_outbound(control.message());
        (control, future)
    }

    /// Takes everything that has arrived at the other end.
    pub(crate) fn sent(&mut self) -> String {
        let mut sent = Vec::new();
        while let Some(msg) = self.channel.read_outbound_any() {
            match msg.take::<FileRegion>() {
                Ok(file) => sent.extend_from_slice(&file.read(usize::MAX).unwrap()),
                Err(msg) => sent.extend_from_slice(&msg.into_bytes().unwrap()),
            }
        }
        String::from_utf8(sent).unwrap()
    }
}

impl Deref for Bench {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.channel
    }
}

impl DerefMut for Bench {
    fn deref_mut(&mut self) -> &mut Embedded {
        &mut self.channel
    }
}

/// Returns the error of a future that has failed.
#[track_caller]
pub(crate) fn failure(future: ChannelFuture) -> String {
    assert!(future.is_done(), "the write is still waiting");
    future.join().unwrap_err().to_string()
}

/// True if the future has completed successfully.
#[track_caller]
pub(crate) fn is_written(future: &mut ChannelFuture) -> bool {
    future.try_take().is_some_and(|result| {
        result.unwrap();
        true
    })
}

/// The test's end of a source.
#[derive(Clone, Default)]
pub(crate) struct SourceControl(Arc<Mutex<SourceState>>);

#[derive(Default)]
struct SourceState {
    chunks: VecDeque<Result<Msg, Error>>,
    is_finished: bool,
    waker: Option<Waker>,
    polls: usize,
    is_dropped: bool,
}

impl SourceControl {
    fn lock(&self) -> MutexGuard<'_, SourceState> {
        self.0.lock().unwrap()
    }

    pub(crate) fn message(&self) -> ChunkedMessage {
        ChunkedMessage::new(ControlledSource(self.clone()))
    }

    /// Adds a chunk and wakes the channel.
    pub(crate) fn give(&self, chunk: impl Into<Msg>) {
        self.lock().chunks.push_back(Ok(chunk.into()));
        self.wake();
    }

    /// Adds chunks of bytes and wakes the channel.
    pub(crate) fn give_all(&self, chunks: &[&'static str]) {
        chunks.iter().for_each(|chunk| {
            self.lock().chunks.push_back(Ok(Bytes::from_static(chunk.as_bytes()).into()));
        });
        self.wake();
    }

    pub(crate) fn fail(&self, error: &'static str) {
        self.lock().chunks.push_back(Err(Error::new(error)));
        self.wake();
    }

    pub(crate) fn finish(&self) {
        self.lock().is_finished = true;
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn polls(&self) -> usize {
        self.lock().polls
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.lock().is_dropped
    }
}

struct ControlledSource(SourceControl);

impl ChunkSource for ControlledSource {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
        let mut state = self.0.lock();
        state.polls += 1;
        match state.chunks.pop_front() {
            Some(chunk) => Poll::Ready(Some(chunk)),
            None if state.is_finished => Poll::Ready(None),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for ControlledSource {
    fn drop(&mut self) {
        self.0.lock().is_dropped = true;
    }
}

/// Collects the reported faults.
#[derive(Clone, Default)]
pub(crate) struct Reports(Arc<Mutex<Vec<String>>>);

impl Reports {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap().push(report.fault.to_string());
    }
}
