//! The file that captures are written to, shared by channels of any loops, and the tasks that write it.
//!
//! ```text
//!   any loop ── record ──► queue (bounded, under a lock)          the executor of the capture
//!                            └─ was empty: one task ────────────► takes all of it, writes it, again if there is more
//! ```
//!
//! 1. A loop never waits for the disk. It holds the lock for the copy of one packet; the writer holds it to exchange two
//!    buffers. Without room a packet is dropped: see `record_queue`.
//! 2. Tasks run one at a time on the executor, so batches are written in order. A flush or a close is a task as well,
//!    and covers everything that was recorded before it.
//! 3. The first error of the writer, or its panic, ends the capture: it is reported once, the queue is dropped, later
//!    packets are ignored, and every flush and close fails with that error. Channels do not notice.
//! 4. No lock is held while the writer, which may be user code, runs or is dropped.
//! 5. A task keeps the capture alive: records are written even if every handle was dropped meanwhile.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use waterwheel_executor::engine::{report, run_as};
use waterwheel_executor::{
    Error, ErrorKind, EventExecutor, Fault, Nanos, Origin, PromiseFuture, UserCode,
};

use super::builder::CaptureFileBuilder;
use super::error::CaptureError;
use super::output::CaptureOutput;
use super::packet::Packet;
use super::record_queue::{PushOutcome, RecordQueue};

/// A pcap file that [`Capture`](super::Capture) handlers write to. A handle: clones share the file, and may be used on
/// any thread.
///
/// The file is written by an executor of its own, never by an event loop. [`close`](Self::close) it before the process
/// ends: records that are still queued then are lost.
///
/// See [`Capture`](super::Capture) for an example.
#[derive(Clone)]
pub struct CaptureFile {
    shared: Arc<CaptureShared>,
}

/// The parts that a [`CaptureFile`] is made of.
pub(super) struct CaptureParts {
    pub(super) name: String,
    pub(super) output: CaptureOutput,
    pub(super) queue: RecordQueue,
    pub(super) executor: EventExecutor,
    pub(super) origin: Duration,
}

/// `is_open` is a hint that spares the lock: it is written under the lock of `state`, read without it. `state` is
/// touched by loops and by the executor, for the time of a copy or an exchange. `output` is touched by tasks of the
/// executor alone, one at a time; the lock is there for the compiler, and is not held while the output is used.
struct CaptureShared {
    /// The name of the file, for reports.
    name: String,
    executor: EventExecutor,
    /// The time since 1970 at which the clock of the loops showed zero.
    origin: Duration,
    is_open: AtomicBool,
    /// Streams that were begun, on any loop.
    streams: AtomicU32,
    state: Mutex<CaptureState>,
    output: Mutex<Option<CaptureOutput>>,
}

struct CaptureState {
    queue: RecordQueue,
    phase: CapturePhase,
    error: Option<Error>,
    /// True while a task that will write the queue is submitted or runs.
    is_scheduled: bool,
    /// Bytes of the file that were written.
    written: u64,
}

/// The state of a [`CaptureFile`]. A state is left for a later one of this list only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CapturePhase {
    /// Packets are recorded.
    Open,
    /// The file has reached its limit; no more packets are recorded.
    Full,
    /// The file was closed.
    Closed,
    /// The file could not be written; no more packets are recorded.
    Failed,
}

/// The counters of a [`CaptureFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureStats {
    /// The state.
    pub phase: CapturePhase,
    /// Packets that were recorded, notes about dropped ones included.
    pub packets: u64,
    /// Packets that were dropped because the queue was full.
    pub dropped: u64,
    /// The length of the file with everything that was recorded.
    pub bytes: u64,
}

impl CaptureFile {
    /// Creates a file with the default limits, readable by its owner only: a capture contains everything that peers
    /// send, passwords included. An existing file is emptied, and from then on readable by its owner only too.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Self::builder().create(path)
    }

    /// Returns a builder with the default limits.
    pub fn builder() -> CaptureFileBuilder {
        CaptureFileBuilder::new()
    }

    /// Returns a capture to an output that has the header of the file already.
    pub(super) fn new(parts: CaptureParts) -> Self {
        let CaptureParts { name, output, queue, executor, origin } = parts;
        let state = CaptureState {
            written: queue.counts().2,
            queue,
            phase: CapturePhase::Open,
            error: None,
            is_scheduled: false,
        };
        let shared = CaptureShared {
            name,
            executor,
            origin,
            is_open: AtomicBool::new(true),
            streams: AtomicU32::new(0),
            state: Mutex::new(state),
            output: Mutex::new(Some(output)),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the state and the counters.
    #[must_use]
    pub fn stats(&self) -> CaptureStats {
        self.shared.lock().stats()
    }

    /// Writes everything that was recorded before, and flushes the writer.
    ///
    /// The future fails with the [`CaptureError`] that has ended the capture.
    pub fn flush(&self) -> PromiseFuture<()> {
        self.shared.run_with_result(|shared| {
            shared.write_batch();
            shared.use_output(|output| output.flush());
            shared.result()
        })
    }

    /// Ends the capture: writes everything that was recorded before, flushes the writer and drops it. Packets are not
    /// recorded any more. Returns the counters; a second close returns them again.
    ///
    /// The future fails with the [`CaptureError`] that has ended the capture before.
    pub fn close(&self) -> PromiseFuture<CaptureStats> {
        self.shared.lock().end(&self.shared, CapturePhase::Closed);
        self.shared.run_with_result(|shared| {
            shared.lock().queue.push_last_note();
            shared.write_batch();
            shared.use_output(|output| output.flush());
            let output = shared.output().take();
            let _ = run_as(UserCode::Destructor, writer(), || drop(output));
            shared.result().map(|()| shared.lock().stats())
        })
    }

    /// Records a packet at this time of the loop's clock.
    pub(super) fn record(&self, now: Nanos, packet: &Packet<'_>) {
        if self.is_open() {
            self.shared.record(now, packet);
        }
    }

    /// Returns the initial sequence number of one more stream: 0 for the first, and for each another one. The numbers are
    /// far apart, so that the segments of two streams do not look like parts of one if a SYN was dropped.
    pub(super) fn next_initial_sequence(&self) -> u32 {
        // An odd factor: every count has a number of its own.
        self.shared.streams.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9)
    }

    /// True unless the capture has ended.
    pub(super) fn is_open(&self) -> bool {
        self.shared.is_open.load(Ordering::Relaxed)
    }
}

/// Returns the name of the writer in reports of panics.
fn writer() -> Origin {
    Origin::labelled("the writer of a capture")
}

impl CaptureShared {
    fn lock(&self) -> MutexGuard<'_, CaptureState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn output(&self) -> MutexGuard<'_, Option<CaptureOutput>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(self: &Arc<Self>, now: Nanos, packet: &Packet<'_>) {
        let at = self.origin.saturating_add(Duration::from_nanos(now.0));
        let mut state = self.lock();
        if state.phase != CapturePhase::Open {
            return;
        }
        let outcome = state.queue.push(at, packet);
        if outcome == PushOutcome::FileFull {
            state.end(self, CapturePhase::Full);
        }
        let limits = state.queue.limits();
        let must_schedule = outcome == PushOutcome::Queued && !state.is_scheduled;
        state.is_scheduled |= must_schedule;
        drop(state);
        match outcome {
            PushOutcome::Queued if must_schedule => self.schedule(),
            PushOutcome::Dropped { is_first: true } => self.report(format_args!(
                "{} bytes wait to be written; packets are dropped until there is room, and noted in the file",
                limits.queue_bytes
            )),
            PushOutcome::FileFull => self.report(format_args!(
                "the limit of {} bytes is reached; capture stops",
                limits.file_bytes
            )),
            _ => {}
        }
    }

    /// Submits a task that writes the queue.
    fn schedule(self: &Arc<Self>) {
        let shared = self.clone();
        if let Err(rejected) = self.executor.execute(move || shared.write_and_reschedule()) {
            let source = Error::from(rejected);
            self.fail(CaptureError::Executor { name: self.name.clone(), source });
        }
    }

    fn write_and_reschedule(self: &Arc<Self>) {
        self.write_batch();
        let mut state = self.lock();
        state.is_scheduled = !state.queue.is_empty();
        let is_more = state.is_scheduled;
        drop(state);
        if is_more {
            self.schedule(); // A task of its own, so that a flush has its turn.
        }
    }

    /// Writes everything that is queued now. On the executor.
    fn write_batch(self: &Arc<Self>) {
        let mut state = self.lock();
        let (batch, before) = (state.queue.take_batch(), state.written);
        drop(state);
        if !batch.is_empty() {
            self.use_output(|output| output.write_records(&batch, before));
        }
        let mut state = self.lock();
        if state.error.is_none() {
            state.written += batch.len() as u64;
            state.queue.return_batch(batch);
        }
    }

    /// Calls `f` with the output, unless it is gone. An error or a panic ends the capture.
    fn use_output(self: &Arc<Self>, f: impl FnOnce(&mut CaptureOutput) -> io::Result<()>) {
        let Some(mut output) = self.output().take() else { return };
        let used = run_as(UserCode::Task, writer(), move || (f(&mut output), output));
        match used {
            Ok((Ok(()), output)) => *self.output() = Some(output),
            Ok((Err(source), output)) => {
                let _ = run_as(UserCode::Destructor, writer(), || drop(output));
                self.fail(CaptureError::Write { name: self.name.clone(), source });
            }
            Err(source) => {
                self.fail(CaptureError::WriterPanicked { name: self.name.clone(), source });
            }
        }
    }

    /// Ends the capture with an error, and reports it. Only the first error counts.
    fn fail(self: &Arc<Self>, error: CaptureError) {
        // The text and the destructor of a writer's error may be user code: neither runs under the lock.
        let (text, mut error) = (error.to_string(), Some(Error::new(error)));
        let mut state = self.lock();
        let is_first = state.error.is_none();
        if is_first {
            state.error = error.take();
            state.end(self, CapturePhase::Failed);
            state.queue.clear();
        }
        drop(state);
        if !is_first {
            return;
        }
        self.report(format_args!("{text}; capture stops, channels are not affected"));
    }

    fn report(&self, what: fmt::Arguments<'_>) {
        report(Fault::Degraded(format!("capture to {}: {what}", self.name)));
    }

    fn result(&self) -> Result<(), Error> {
        self.lock().error.clone().map_or(Ok(()), Err)
    }

    /// Runs a task on the executor, and returns a future for its result.
    fn run_with_result<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> PromiseFuture<T> {
        let (promise, future) = self.executor.new_promise();
        let shared = self.clone();
        let task = move || {
            promise.complete(task(&shared));
        };
        match self.executor.execute(task) {
            Ok(()) => future,
            Err(rejected) => {
                let output = self.output().take();
                if output.is_some() {
                    let source = ErrorKind::Rejected(rejected.reason().clone()).into();
                    self.fail(CaptureError::Executor { name: self.name.clone(), source });
                }
                let _ = run_as(UserCode::Destructor, writer(), || drop(output));
                // There is no output any more, so the task only completes the promise.
                rejected.into_task()();
                future
            }
        }
    }
}

impl CaptureState {
    /// Ends the recording. A close overrides a full file, and a failure overrides both.
    fn end(&mut self, shared: &CaptureShared, phase: CapturePhase) {
        self.phase = self.phase.max(phase);
        shared.is_open.store(false, Ordering::Relaxed);
    }

    fn stats(&self) -> CaptureStats {
        let (packets, dropped, bytes) = self.queue.counts();
        CaptureStats { phase: self.phase, packets, dropped, bytes }
    }
}

impl fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        f.debug_struct("CaptureFile")
            .field("name", &self.shared.name)
            .field("stats", &stats)
            .finish()
    }
}
