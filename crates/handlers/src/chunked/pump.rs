//! The pump of a chunked writer: a future on the loop that passes queued messages and chunks on while the channel has
//! room.
//!
//! One poll is one turn. A turn ends when the channel has no room, too many messages are in flight, the source has to
//! wait, or the budget of a turn is spent; the pump is woken by `on_writability_changed`, by a written message, by the
//! source, and by itself, in this order.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{ChannelError, Completion, Ctx};
use waterwheel_executor::Error;

use super::error::ChunkedWriteError;
use super::queue::{BrokenTransfer, ChunkQueue, QueueState, QueuedItem};
use super::source::ChunkSource;
use super::transfer::{Transfer, chunk_len, is_empty_chunk};

/// The largest number of messages and chunks of one turn, empty chunks included: a source that returns nothing but
/// empty chunks takes 64 calls of each turn and no more.
const CHUNKS_PER_TURN: u32 = 64;

/// The largest number of messages that were passed on and are not written. The water marks count bytes: this bounds the
/// memory of chunks of a few bytes, or of messages without a size, at about 40 KiB of bookkeeping.
const MAX_IN_FLIGHT: usize = 256;

/// Runs the queue, turn by turn, until the handler is gone.
pub(super) struct Pump {
    queue: Rc<ChunkQueue>,
}

impl Pump {
    pub(super) fn new(queue: Rc<ChunkQueue>) -> Self {
        Self { queue }
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let queue = self.queue.clone();
        if queue.is_stopped.get() {
            return Poll::Ready(());
        }
        queue.pump_waker.set_waker(cx.waker());
        let waker = cx.waker().clone();
        // The call counts as one of the handler: it is taken out meanwhile, and a panic closes the channel.
        let run = self.queue.local.run(move |ctx| {
            queue.run_turn(ctx, &mut Context::from_waker(&waker));
        });
        if run.is_ok() { Poll::Pending } else { Poll::Ready(()) }
    }
}

/// The outcome of a step of a turn.
enum Step {
    Next,
    /// Nothing can be done until the pump is woken.
    Wait,
    /// The budget is spent.
    Yield,
}

/// The budget of a turn.
struct TurnBudget {
    bytes_left: u64,
    chunks_left: u32,
    has_passed: bool,
}

impl TurnBudget {
    fn is_spent(&self) -> bool {
        self.bytes_left == 0 || self.chunks_left == 0
    }

    fn count(&mut self, bytes: u64) {
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.chunks_left = self.chunks_left.saturating_sub(1);
    }
}

impl ChunkQueue {
    fn run_turn(self: &Rc<Self>, ctx: &Ctx<'_>, cx: &mut Context<'_>) {
        if self.pump_waker.take_cancelled() {
            self.drop_cancelled();
        }
        self.check_broken(ctx);
        let mut turn = TurnBudget {
            bytes_left: self.options.bytes_per_turn.get(),
            chunks_left: CHUNKS_PER_TURN,
            has_passed: false,
        };
        // A handler that was removed in the middle of the turn hands its queue over when the call returns.
        while !ctx.is_removed() {
            match self.step(ctx, cx, &mut turn) {
                Step::Next => {}
                Step::Wait => break,
                Step::Yield => {
                    cx.waker().wake_by_ref();
                    break;
                }
            }
        }
        if turn.has_passed {
            ctx.flush();
        }
        self.release_if_empty();
    }

    fn step(self: &Rc<Self>, ctx: &Ctx<'_>, cx: &mut Context<'_>, turn: &mut TurnBudget) -> Step {
        enum Front {
            Message,
            Transfer(Rc<Transfer>),
            Operation,
        }
        let front = self.with_front(|entry| match entry {
            QueuedItem::Message(..) => Front::Message,
            QueuedItem::Transfer(transfer, _) => Front::Transfer(transfer.clone()),
            QueuedItem::ShutdownOutput(_) | QueuedItem::Close(_) => Front::Operation,
        });
        match front {
            None => Step::Wait,
            Some(Front::Operation) => self.pass_operation(ctx, turn),
            // A chunk has failed, or the write was cancelled.
            Some(Front::Transfer(transfer)) if transfer.is_over() => {
                drop(self.pop_front());
                Step::Next
            }
            Some(_) if turn.is_spent() => Step::Yield,
            Some(_) if !self.has_room(ctx) => Step::Wait,
            Some(Front::Message) => self.pass_message(ctx, turn),
            Some(Front::Transfer(transfer)) => self.pass_chunk(&transfer, ctx, cx, turn),
        }
    }

    fn has_room(&self, ctx: &Ctx<'_>) -> bool {
        let in_flight = self.in_flight.get();
        if in_flight >= MAX_IN_FLIGHT {
            self.wake_at.set(Some(MAX_IN_FLIGHT / 2));
            return false;
        }
        if ctx.is_writable() {
            return true;
        }
        // The entries of this queue count as pending too, and must not stop the pump that they wait for: without
        // them, would the pending bytes be below the low-water mark? If a handler has declared the channel unwritable,
        // no bytes are missing, and its declaration ends with an announcement.
        let missing = ctx.bytes_before_writable();
        if self.held_bytes() == 0 || missing == 0 {
            return false;
        }
        if missing <= self.held_bytes() || in_flight == 0 {
            return true;
        }
        self.wake_at.set(Some(in_flight - 1));
        false
    }

    fn pass_message(self: &Rc<Self>, ctx: &Ctx<'_>, turn: &mut TurnBudget) -> Step {
        let Some(QueuedItem::Message(msg, mut done)) = self.pop_front() else { return Step::Next };
        // A flushed write cannot be cancelled any more.
        if !done.begin() {
            return Step::Next;
        }
        turn.count(msg.size_hint() as u64);
        turn.has_passed = true;
        self.count_passed();
        let queue = self.clone();
        let done = Completion::local(move |result| {
            queue.on_written();
            queue.complete_message(done, result);
        });
        ctx.write_with(msg, done);
        Step::Next
    }

    fn pass_chunk(
        self: &Rc<Self>,
        transfer: &Rc<Transfer>,
        ctx: &Ctx<'_>,
        cx: &mut Context<'_>,
        turn: &mut TurnBudget,
    ) -> Step {
        let Some(mut source) = self.take_source() else {
            drop(self.pop_front());
            return Step::Next;
        };
        let chunk = match source.poll_chunk(cx) {
            Poll::Pending => {
                self.restore_source(source);
                return Step::Wait;
            }
            Poll::Ready(Some(Ok(chunk))) => chunk,
            Poll::Ready(end) => {
                drop(self.pop_front());
                drop(source);
                match end {
                    Some(Err(cause)) => {
                        let chunks = transfer.passed();
                        let error = ChunkedWriteError::Source { chunks, cause };
                        self.fail_transfer(transfer, error.into(), ctx);
                    }
                    _ => transfer.end(),
                }
                return Step::Next;
            }
        };
        self.restore_source(source);
        // Now, not when its completion is called: other chunks would follow it in this turn.
        if let Some(error @ ChannelError::BufferFull { .. }) =
            ctx.held_write_error(chunk.size_hint())
        {
            drop(self.pop_front());
            self.fail_transfer(transfer, error.into(), ctx);
            return Step::Next;
        }
        let len = chunk_len(&chunk);
        turn.count(len);
        if is_empty_chunk(&chunk) {
            return Step::Next;
        }
        turn.has_passed = true;
        transfer.count_passed();
        self.count_passed();
        // The one allocation of a chunk: without it a refused chunk would leave a gap that nobody notices.
        let (queue, transfer) = (self.clone(), transfer.clone());
        ctx.write_then(chunk, move |result| {
            queue.on_written();
            queue.on_chunk_written(&transfer, len, result);
        });
        Step::Next
    }

    fn restore_source(&self, source: Box<dyn ChunkSource>) {
        let mut source = Some(source);
        self.with_front(|entry| {
            if let QueuedItem::Transfer(_, place) = entry {
                *place = source.take();
            }
        });
    }

    fn pass_operation(&self, ctx: &Ctx<'_>, turn: &mut TurnBudget) -> Step {
        let is_close = self.with_front(|entry| matches!(entry, QueuedItem::Close(_)));
        if is_close == Some(true) && self.in_flight.get() > 0 {
            // The channel's own close does not wait for room: this one does.
            self.wake_at.set(Some(0));
            return Step::Wait;
        }
        if std::mem::take(&mut turn.has_passed) {
            ctx.flush();
        }
        match self.pop_front() {
            Some(QueuedItem::Close(done)) => ctx.close_with(done),
            Some(QueuedItem::ShutdownOutput(done)) => {
                // From here on the channel itself refuses writes, unless its transport has no half-closure.
                if self.state.get() == QueueState::ShuttingDown {
                    self.state.set(QueueState::Open);
                }
                ctx.shutdown_output_with(done);
            }
            _ => {}
        }
        Step::Next
    }

    // Results.

    fn count_passed(&self) {
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Counts a message as written, or failed.
    fn on_written(&self) {
        let in_flight = self.in_flight.get() - 1;
        self.in_flight.set(in_flight);
        if self.wake_at.get().is_some_and(|at| in_flight <= at) {
            self.wake_at.set(None);
            self.wake();
        }
    }

    fn complete_message(&self, done: Completion, result: Result<(), Error>) {
        match result {
            // The channel reports a failed write that nobody waits for, but this one waited here.
            Err(error) if done.is_none() && !error.is_closed() => {
                let _gone = self.local.run(move |ctx| ctx.fire_error(error));
            }
            result => done.complete(result),
        }
    }

    fn on_chunk_written(&self, transfer: &Rc<Transfer>, len: u64, result: Result<(), Error>) {
        let Err(error) = result else { return transfer.on_chunk_written(len) };
        transfer.count_refused();
        let is_first_failure = transfer.fail(error.clone());
        if is_first_failure && !error.is_closed() {
            let transfer = transfer.clone();
            *self.broken.borrow_mut() = Some(BrokenTransfer { error, transfer });
        }
        self.wake();
    }

    fn check_broken(&self, ctx: &Ctx<'_>) {
        let Some(BrokenTransfer { error, transfer }) = self.broken.take() else { return };
        if transfer.is_ignored {
            ctx.fire_error(error.clone());
        }
        // If every chunk was refused, the peer has seen nothing of the message.
        if transfer.has_unrefused() && !transfer.keeps_open {
            self.close_broken(&error, ctx);
        }
    }

    /// Fails a write whose next chunk is missing.
    fn fail_transfer(&self, transfer: &Transfer, error: Error, ctx: &Ctx<'_>) {
        if transfer.fail(error.clone()) && transfer.is_ignored {
            ctx.fire_error(error.clone());
        }
        if transfer.passed() > 0 && !transfer.keeps_open {
            self.close_broken(&error, ctx);
        }
    }
}
