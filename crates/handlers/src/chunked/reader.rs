//! Chunks of a blocking reader, read on an executor that may block.
//!
//! ```text
//!   the loop                                   the executor
//!   poll: Idle ──► Reading ─── ReadTask ─────► reader.read()
//!         │                                        │
//!         ◄── Ready(chunk) ◄── wake ───────────────┘
//!         └─► Reading again, one chunk ahead, while the channel writes this one
//! ```
//!
//! 1. The reader is in one place at a time: in the state while nothing is read, in the task while the executor reads.
//!    So neither side waits for the other, and the lock is held only to move values.
//! 2. At most one chunk is read ahead. The next read begins when the chunk before is taken.
//! 3. A task that ends without a result, because the reader panicked or the executor has ended, leaves an error.
//! 4. When the source is dropped, the reader is dropped on its executor: closing it may block as well. An executor that
//!    has ended drops it where it is.

use std::fmt;
use std::io::{self, Read};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use waterwheel_channel::{FileRegion, Msg};
use waterwheel_executor::{Error, EventExecutor, EventExecutorGroup};

use super::error::InvalidChunkOption;
use super::source::ChunkSource;

/// Chunks of a blocking [`Read`], read on an executor of a group: the loop never blocks. One chunk is read ahead while
/// the channel writes the one before.
///
/// A chunk has what one `read` returns, at most the chunk size: a slow pipe is passed on as it comes. An error of the
/// reader, except `Interrupted`, fails the write.
///
/// ```
/// use std::io;
/// use waterwheel_executor::EventExecutorGroup;
/// use waterwheel_handlers::{ChunkedMessage, ReaderChunks};
///
/// let group = EventExecutorGroup::builder().threads(4).name("disk").build()?;
/// let message = ChunkedMessage::new(ReaderChunks::new(&group, io::repeat(7)).chunk_size(16 * 1024)?);
/// # drop(message);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReaderChunks {
    shared: Arc<SharedRead>,
    total: Option<u64>,
}

impl ReaderChunks {
    /// The default size of a chunk: 64 KiB, the default high-water mark of a channel.
    pub const DEFAULT_CHUNK_SIZE: usize = 64 * 1024;

    /// Returns the chunks of a reader. All reads are made on one executor of the group.
    #[must_use]
    pub fn new(group: &EventExecutorGroup, reader: impl Read + Send + 'static) -> Self {
        Self::on(&group.next(), reader)
    }

    /// Returns the chunks of a reader, read on this executor.
    #[must_use]
    pub fn on(executor: &EventExecutor, reader: impl Read + Send + 'static) -> Self {
        Self::with(executor, Box::new(BufferedReader { reader, buffer: BytesMut::new() }), None)
    }

    /// Returns the chunks of a part of a file, copied into memory: for pipelines whose handlers need the bytes.
    /// [`FileChunks`](super::FileChunks) let the kernel send the file instead.
    #[must_use]
    pub fn of_file(group: &EventExecutorGroup, region: FileRegion) -> Self {
        let total = Some(region.len());
        Self::with(&group.next(), Box::new(region), total)
    }

    fn with(executor: &EventExecutor, reader: Box<dyn BlockingChunks>, total: Option<u64>) -> Self {
        let state = ReaderState::Idle(reader);
        let shared = SharedRead {
            state: Mutex::new(state),
            executor: executor.clone(),
            chunk_size: const { NonZeroUsize::new(Self::DEFAULT_CHUNK_SIZE).unwrap() },
        };
        Self { shared: Arc::new(shared), total }
    }

    /// Sets the largest size of a chunk.
    ///
    /// # Errors
    /// The size is zero.
    pub fn chunk_size(mut self, size: usize) -> Result<Self, InvalidChunkOption> {
        let size = NonZeroUsize::new(size).ok_or(InvalidChunkOption { option: "chunk_size" })?;
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.chunk_size = size; // Nothing is read yet: no task shares the state.
        }
        Ok(self)
    }
}

impl ChunkSource for ReaderChunks {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Msg, Error>>> {
        loop {
            let mut state = self.shared.lock();
            match mem::replace(&mut *state, ReaderState::Over) {
                ReaderState::Idle(reader) => {
                    *state = ReaderState::Reading(None);
                    drop(state);
                    ReadTask::submit(&self.shared, reader);
                }
                ReaderState::Reading(before) => {
                    *state = ReaderState::Reading(Some(cx.waker().clone()));
                    drop(state);
                    drop(before);
                    return Poll::Pending;
                }
                ReaderState::Ready(reader, chunk) => {
                    *state = ReaderState::Reading(None);
                    drop(state);
                    ReadTask::submit(&self.shared, reader);
                    return Poll::Ready(Some(Ok(chunk.into())));
                }
                ReaderState::Failed(error) => return Poll::Ready(Some(Err(error))),
                ReaderState::Over => return Poll::Ready(None),
            }
        }
    }

    fn total_bytes(&self) -> Option<u64> {
        self.total
    }
}

impl Drop for ReaderChunks {
    fn drop(&mut self) {
        let before = mem::replace(&mut *self.shared.lock(), ReaderState::Over);
        if let ReaderState::Idle(reader) | ReaderState::Ready(reader, _) = before {
            // Rejected by an executor that has ended, the closure is dropped here, with the reader.
            let _ = self.shared.executor.execute(move || drop(reader));
        }
    }
}

impl fmt::Debug for ReaderChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderChunks")
            .field("chunk_size", &self.shared.chunk_size)
            .field("executor", &self.shared.executor.name())
            .finish_non_exhaustive()
    }
}

/// Shared by the source on the loop and the task on the executor. Each locks the state to move a value in or out;
/// nothing of the user's is called or dropped under the lock.
struct SharedRead {
    state: Mutex<ReaderState>,
    executor: EventExecutor,
    chunk_size: NonZeroUsize,
}

enum ReaderState {
    /// Nothing is read, and nothing was read ahead.
    Idle(Box<dyn BlockingChunks>),
    /// The executor reads. Holds the waker of the loop, if it waits.
    Reading(Option<Waker>),
    /// A chunk was read ahead.
    Ready(Box<dyn BlockingChunks>, Bytes),
    Failed(Error),
    /// The reader has ended, the error was returned, or the source was dropped.
    Over,
}

impl SharedRead {
    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a read. If the source was dropped meanwhile, `next` is dropped here, with the reader in it.
    fn finish_read(&self, next: ReaderState) {
        let mut state = self.lock();
        let (waker, unused) = match &mut *state {
            ReaderState::Reading(waker) => {
                let waker = waker.take();
                (waker, mem::replace(&mut *state, next))
            }
            _ => (None, next),
        };
        drop(state);
        drop(unused);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One read on the executor.
struct ReadTask {
    shared: Arc<SharedRead>,
    /// `None` once the read is over.
    reader: Option<Box<dyn BlockingChunks>>,
}

impl ReadTask {
    /// Submits a read. If the executor rejects it, the state has the error.
    fn submit(shared: &Arc<SharedRead>, reader: Box<dyn BlockingChunks>) {
        let task = Self { shared: shared.clone(), reader: Some(reader) };
        if let Err(rejected) = shared.executor.execute(move || task.run()) {
            // Dropping the rejected task fails the read; the reason of the rejection says more.
            let error = Error::from(rejected);
            let before = mem::replace(&mut *shared.lock(), ReaderState::Failed(error));
            drop(before);
        }
    }

    fn run(mut self) {
        let Some(reader) = &mut self.reader else { return };
        let read = reader.next_chunk(self.shared.chunk_size.get());
        let reader = self.reader.take();
        let next = match (read, reader) {
            (Ok(Some(chunk)), Some(reader)) => ReaderState::Ready(reader, chunk),
            (Ok(_), reader) => {
                drop(reader);
                ReaderState::Over
            }
            (Err(error), reader) => {
                drop(reader);
                ReaderState::Failed(Error::from(error))
            }
        };
        self.shared.finish_read(next);
    }
}

impl Drop for ReadTask {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.shared.finish_read(ReaderState::Failed(Error::new(ReadTaskLost)));
            drop(reader);
        }
    }
}

/// The error of a read whose task gave no result.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the reader panicked, or the executor that it is read on has ended")]
struct ReadTaskLost;

/// Returns chunks and may block meanwhile. Called on an executor.
trait BlockingChunks: Send {
    /// Returns the next chunk, of at most `size` bytes; `None` at the end.
    fn next_chunk(&mut self, size: usize) -> io::Result<Option<Bytes>>;
}

struct BufferedReader<R> {
    reader: R,
    /// Zeroed bytes to read into. A reader that returns little at a time shares one block among several chunks.
    buffer: BytesMut,
}

impl<R: Read + Send> BlockingChunks for BufferedReader<R> {
    fn next_chunk(&mut self, size: usize) -> io::Result<Option<Bytes>> {
        if self.buffer.len() < size.div_ceil(4) {
            self.buffer = BytesMut::zeroed(size);
        }
        loop {
            return match self.reader.read(&mut self.buffer) {
                Ok(0) => Ok(None),
                Ok(n) => Ok(Some(self.buffer.split_to(n).freeze())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }
}

impl BlockingChunks for FileRegion {
    fn next_chunk(&mut self, size: usize) -> io::Result<Option<Bytes>> {
        if self.is_empty() {
            return Ok(None);
        }
        let chunk = self.read(size)?;
        self.advance(chunk.len());
        Ok(Some(chunk))
    }
}
