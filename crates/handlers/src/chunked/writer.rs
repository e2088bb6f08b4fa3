//! `ChunkedWriter`: the handler of chunked writes.

use std::fmt;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{
    Completion, Ctx, Events, HalfClosed, Handler, HandlerResult, Msg, Signature, TypeTag,
};

use super::error::InvalidChunkOption;
use super::message::ChunkedMessage;
use super::queue::{ChunkQueue, QueueState};

/// Writes [`ChunkedMessage`]s chunk by chunk while the channel has room, in order with all other messages.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_channel::{Ctx, Handler, HandlerResult};
/// use waterwheel_handlers::{ChunkedMessage, ChunkedWriter};
/// use waterwheel_testkit::embedded::Embedded;
///
/// /// Sends a gigabyte that is never in memory, then closes the channel.
/// struct Zeros;
///
/// impl Handler for Zeros {
///     fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
///         let chunks = (0..16 * 1024).map(|_| Bytes::from_static(&[0; 64 * 1024]));
///         ctx.write(Bytes::from_static(b"zeros follow\n"));
///         ctx.write_and_flush(ChunkedMessage::from_chunks(chunks));
///         ctx.close(); // When all of it is written.
///         Ok(())
///     }
/// }
///
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("chunks", ChunkedWriter::new())?;
///     edit.add_last("zeros", Zeros)?;
///     Ok(())
/// })?;
/// channel.set_room(1000); // The peer does not read on.
/// channel.run();
/// assert!(channel.channel().pending_bytes() <= 128 * 1024);
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
///
/// # Rules
///
/// 1. *Order.* Messages, chunks, `shutdown_output` and `close` leave the handler in the order in which they came.
///    While nothing is queued, messages pass at once.
/// 2. *Memory.* The next chunk is requested only while the channel is writable and fewer than 256 messages of the queue
///    are in flight: a source of any length needs about the high-water mark and one chunk. Messages that wait behind a
///    source count as pending bytes, and waiting sources as [`PENDING_BYTES`](ChunkedMessage::PENDING_BYTES) each;
///    beyond the channel's hard cap they are refused.
/// 3. *Flush.* What is queued is sent once a flush covers it, as with any message. The pump flushes its chunks itself.
/// 4. *Turns.* In one turn of the loop a channel passes on at most 64 chunks and
///    [`bytes_per_turn`](ChunkedWriterBuilder::bytes_per_turn), even if it stays writable.
/// 5. *Waiting.* A source that returns `Pending` is polled again after its waker was called, on any thread.
/// 6. *Result.* The write completes when the transport has written the last chunk. It fails if the source fails
///    ([`ChunkedWriteError::Source`](super::ChunkedWriteError::Source)) or a chunk is refused. Then the channel is
///    closed if a part was passed on before, because the peer cannot know that the rest is missing;
///    [`keep_open_on_failure`](ChunkedMessage::keep_open_on_failure) keeps it open. The error is the cause of the
///    close, and messages behind it fail with it. Without a completion the error goes to `on_error`. Chunks that were
///    passed on in the same turn as a refused one may be sent before the close.
/// 7. *Cancel.* Cancelling the future of the write drops its source in the next turn. Chunks that were passed on are
///    still sent, and messages behind it follow. After the end of the source the write cannot be cancelled.
/// 8. *Close.* A `close` that passes this handler waits until everything flushed before it is written. If nothing is
///    written for [`close_stall_limit`](ChunkedWriterBuilder::close_stall_limit) the rest fails and the channel is
///    closed; new writes fail meanwhile. `disconnect`, `ctx.abort`, and a `close` of a handler nearer to the transport
///    close at once. `shutdown_output` waits however long the peer takes, as without this handler. What was not
///    flushed before the request fails with [`ChunkedWriteError::NotFlushed`](super::ChunkedWriteError::NotFlushed).
/// 9. *The end.* When the channel is closed by the peer, a failure or a panic, everything queued fails with
///    [`ChannelError::Closed`](waterwheel_channel::ChannelError::Closed) and its cause, and sources are dropped. A panic
///    in a source closes its channel.
/// 10. *Drain.* A [drain](waterwheel_channel::EventLoop::drain) of the loop waits while something is queued.
/// 11. *Removal.* A removed handler passes its queued messages and operations on. A source cannot be finished without
///     the handler: its write fails with [`ChunkedWriteError::Removed`](super::ChunkedWriteError::Removed), and the
///     channel is closed if a part of it was passed on, as in rule 6.
///
/// Handlers that change bytes, count them or limit them stand before it, nearer to the transport: they see chunks. A
/// [`WriteTimeout`](crate::WriteTimeout) there limits the time of a chunk; after it, that of the whole message.
///
/// A chunk allocates its completion, which counts it as written: as much as a write with a closure.
///
/// A handler belongs to one channel and does not leave its loop. To share options, build one when the program starts,
/// so that an invalid option fails there, and clone the builder into the initialiser.
pub struct ChunkedWriter {
    options: ChunkedOptions,
    /// Created by the first chunked message: a channel that never writes one pays for nothing else.
    queue: Option<Rc<ChunkQueue>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkedOptions {
    pub(super) bytes_per_turn: NonZeroU64,
    pub(super) close_stall_limit: Duration,
}

impl Default for ChunkedOptions {
    fn default() -> Self {
        Self {
            bytes_per_turn: const {
                NonZeroU64::new(ChunkedWriterBuilder::DEFAULT_BYTES_PER_TURN).unwrap()
            },
            close_stall_limit: ChunkedWriterBuilder::DEFAULT_CLOSE_STALL_LIMIT,
        }
    }
}

impl ChunkedWriter {
    /// Returns a handler with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(ChunkedOptions::default())
    }

    /// Returns a builder with the default options.
    pub fn builder() -> ChunkedWriterBuilder {
        ChunkedWriterBuilder::default()
    }

    fn with_options(options: ChunkedOptions) -> Self {
        Self { options, queue: None }
    }

    /// Returns the queue if something waits in it.
    fn busy_queue(&self) -> Option<&Rc<ChunkQueue>> {
        self.queue.as_ref().filter(|queue| !queue.is_empty())
    }
}

impl Handler for ChunkedWriter {
    fn interest(&self) -> Events {
        Events::WRITE
            | Events::FLUSH
            | Events::CLOSE
            | Events::SHUTDOWN_OUTPUT
            | Events::WRITABILITY_CHANGED
            | Events::USER_EVENT
            | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        Signature::transparent().writes(TypeTag::list::<ChunkedMessage>())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.take::<ChunkedMessage>() {
            Ok(message) => {
                let options = self.options;
                let queue = self.queue.get_or_insert_with(|| ChunkQueue::start(ctx, options));
                queue.push_chunked(message, done.take(), ctx);
            }
            Err(msg) => match self.busy_queue() {
                Some(queue) => queue.push_message(msg, done.take(), ctx),
                None => ctx.write_with(msg, done.take()),
            },
        }
        Ok(())
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(queue) = self.busy_queue() {
            queue.flush_all();
        }
        ctx.flush(); // For messages that passed before the queue.
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        match self.queue.as_ref().filter(|queue| queue.has_work()) {
            Some(queue) => queue.push_close(done.take(), ctx),
            None => ctx.close_with(done.take()),
        }
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        match self.busy_queue() {
            Some(queue) => queue.push_shutdown_output(done.take(), ctx),
            None => ctx.shutdown_output_with(done.take()),
        }
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(queue) = self.busy_queue()
            && ctx.is_writable()
        {
            queue.wake();
        }
        ctx.fire_writability_changed();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(HalfClosed::Output) = event.get::<HalfClosed>()
            && let Some(queue) = &self.queue
        {
            queue.end_output(QueueState::ShutDown, ctx);
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if let Some(queue) = &self.queue {
            queue.end_output(QueueState::Closed, ctx);
        }
        ctx.fire_inactive();
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        if let Some(queue) = &self.queue {
            queue.check_stalled_close(ctx);
        }
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if let Some(queue) = self.queue.take() {
            queue.hand_over(ctx);
        }
    }
}

impl Drop for ChunkedWriter {
    /// A handler that a panic unwound through is dropped without `on_removed`.
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.fail_after_panic();
        }
    }
}

impl Default for ChunkedWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ChunkedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkedWriter").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Builds a [`ChunkedWriter`].
#[must_use]
#[derive(Clone, Debug, Default)]
pub struct ChunkedWriterBuilder {
    options: ChunkedOptions,
    bytes_per_turn: Option<u64>,
}

impl ChunkedWriterBuilder {
    /// The default of [`bytes_per_turn`](Self::bytes_per_turn): 256 KiB, four times the default high-water mark, so
    /// that a fast peer costs a system call for each turn and not more.
    pub const DEFAULT_BYTES_PER_TURN: u64 = 256 * 1024;

    /// The default of [`close_stall_limit`](Self::close_stall_limit): 30 seconds.
    pub const DEFAULT_CLOSE_STALL_LIMIT: Duration = Duration::from_secs(30);

    /// Sets how many bytes of chunks one channel passes on in a turn of its loop, even if it stays writable: then
    /// other channels have their turn. At least one chunk is passed on.
    pub fn bytes_per_turn(mut self, bytes: u64) -> Self {
        self.bytes_per_turn = Some(bytes);
        self
    }

    /// Sets how long a close that waits for chunked writes goes on waiting while nothing is written. After that the
    /// rest fails with [`ChunkedWriteError::Stalled`](super::ChunkedWriteError::Stalled) and the channel is closed.
    /// Zero: a close does not wait, and what is queued fails.
    pub fn close_stall_limit(mut self, limit: Duration) -> Self {
        self.options.close_stall_limit = limit;
        self
    }

    /// Builds the handler.
    ///
    /// # Errors
    /// `bytes_per_turn` is zero.
    pub fn build(self) -> Result<ChunkedWriter, InvalidChunkOption> {
        let mut options = self.options;
        if let Some(bytes) = self.bytes_per_turn {
            let invalid = InvalidChunkOption { option: "bytes_per_turn" };
            options.bytes_per_turn = NonZeroU64::new(bytes).ok_or(invalid)?;
        }
        Ok(ChunkedWriter::with_options(options))
    }
}
