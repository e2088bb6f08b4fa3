//! The queue of a chunked writer: chunked messages, and everything that was requested behind them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_channel::{Channel, ChannelError, Completion, Ctx, HeldBytes, Hold, LocalCtx, Msg};
use waterwheel_executor::{Error, Nanos};

use super::message::ChunkedMessage;
use super::pump::Pump;
use super::pump_waker::PumpWaker;
use super::source::ChunkSource;
use super::transfer::{Transfer, closed_error};
use super::writer::ChunkedOptions;

/// An empty queue keeps at most this many places for entries.
const MAX_KEPT_CAPACITY: usize = 32;

/// The queue, shared by the handler, its [`Pump`] and the completions of passed messages: all on the loop. No borrow is
/// held while code of the user's runs: sources, completions, destructors.
pub(super) struct ChunkQueue {
    entries: RefCell<VecDeque<Entry>>,
    /// The number of entries, from the front, that a flush covers.
    flushed: Cell<usize>,
    pub(super) state: Cell<QueueState>,
    /// The number of messages passed on from this queue that the transport has not written yet.
    pub(super) in_flight: Cell<usize>,
    /// The pump waits until no more than this many are in flight.
    pub(super) wake_at: Cell<Option<usize>>,
    /// When the first close was requested.
    pub(super) closing_since: Cell<Nanos>,
    /// A chunked write of which a chunk was refused, since the last turn.
    pub(super) broken: RefCell<Option<BrokenTransfer>>,
    /// The pending bytes of entries that wait: see [`Entry`].
    held: RefCell<HeldBytes>,
    /// Makes a drain of the loop wait while the queue is not empty.
    hold: RefCell<Option<Hold>>,
    pub(super) pump_waker: Arc<PumpWaker>,
    pub(super) local: LocalCtx,
    pub(super) channel: Channel,
    pub(super) options: ChunkedOptions,
    /// True once the handler is gone: the pump ends.
    pub(super) is_stopped: Cell<bool>,
}

/// A place in the queue.
pub(super) struct Entry {
    pub(super) item: QueuedItem,
    /// The pending bytes that the entry counts for. A chunked write counts only until its first chunk is requested:
    /// from then on its chunks count, wherever they are.
    held: usize,
}

pub(super) enum QueuedItem {
    Message(Msg, Completion),
    /// The source is `None` while it is polled.
    Transfer(Rc<Transfer>, Option<Box<dyn ChunkSource>>),
    ShutdownOutput(Completion),
    Close(Completion),
}

/// The state of a queue, which decides about new messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueState {
    /// New messages are queued.
    Open,
    /// New messages are refused: a shutdown of the output is queued.
    ShuttingDown,
    /// New messages are refused: the output was shut down.
    ShutDown,
    /// New messages are refused: a close is queued, or was passed on.
    Closing,
    /// New messages are refused: the channel is closed.
    Closed,
}

/// A chunked write that failed because a chunk was refused.
pub(super) struct BrokenTransfer {
    pub(super) error: Error,
    pub(super) transfer: Rc<Transfer>,
}

impl ChunkQueue {
    /// Creates the queue and starts its pump, a future on the loop.
    pub(super) fn start(ctx: &Ctx<'_>, options: ChunkedOptions) -> Rc<Self> {
        let queue = Rc::new(Self {
            entries: RefCell::default(),
            flushed: Cell::new(0),
            state: Cell::new(QueueState::Open),
            in_flight: Cell::new(0),
            wake_at: Cell::new(None),
            closing_since: Cell::default(),
            broken: RefCell::new(None),
            held: RefCell::new(ctx.count_held_bytes(0)),
            hold: RefCell::new(None),
            pump_waker: Arc::default(),
            local: ctx.to_local(),
            channel: ctx.channel(),
            options,
            is_stopped: Cell::new(false),
        });
        drop(ctx.event_loop().spawn_local(Pump::new(queue.clone())));
        queue
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// True if something is queued, or was passed on and is not written yet.
    pub(super) fn has_work(&self) -> bool {
        !self.is_empty() || self.in_flight.get() > 0
    }

    pub(super) fn wake(&self) {
        self.pump_waker.wake();
    }

    // Requests.

    pub(super) fn push_chunked(
        &self,
        message: ChunkedMessage,
        mut done: Completion,
        ctx: &Ctx<'_>,
    ) {
        if let Some(error) = self.refusal(ChunkedMessage::PENDING_BYTES, ctx) {
            return done.fail(error);
        }
        let pump_waker = self.pump_waker.clone();
        done.on_cancel(move || pump_waker.on_cancelled());
        let ChunkedMessage { source, total, on_progress, keeps_open } = message;
        let transfer = Transfer::new(done, total, on_progress, keeps_open);
        let item = QueuedItem::Transfer(Rc::new(transfer), Some(source));
        self.push(item, ChunkedMessage::PENDING_BYTES);
        self.hold.borrow_mut().get_or_insert_with(|| ctx.hold());
    }

    pub(super) fn push_message(&self, msg: Msg, done: Completion, ctx: &Ctx<'_>) {
        // At least one byte: many messages without a size make the channel unwritable too.
        let size = msg.size_hint().max(1);
        match self.refusal(size, ctx) {
            Some(error) => {
                drop(msg);
                done.fail(error);
            }
            None => self.push(QueuedItem::Message(msg, done), size),
        }
    }

    fn push(&self, item: QueuedItem, held: usize) {
        self.entries.borrow_mut().push_back(Entry { item, held });
        let mut counted = self.held.borrow_mut();
        let sum = counted.get().saturating_add(held);
        counted.set(sum);
        drop(counted);
        // The bytes may have made the channel unwritable: the pump must look whether it is alone with them.
        self.wake();
    }

    pub(super) fn flush_all(&self) {
        self.flushed.set(self.entries.borrow().len());
        self.wake();
    }

    /// Queues a shutdown of the output behind everything flushed.
    pub(super) fn push_shutdown_output(&self, done: Completion, ctx: &Ctx<'_>) {
        self.fail_unflushed();
        if self.is_empty() {
            return ctx.shutdown_output_with(done);
        }
        if self.state.get() == QueueState::Open {
            self.state.set(QueueState::ShuttingDown);
        }
        self.push(QueuedItem::ShutdownOutput(done), 0);
        self.flush_all();
    }

    /// Queues a close behind everything flushed. It is passed on when all of that is written, or stalls.
    pub(super) fn push_close(&self, done: Completion, ctx: &Ctx<'_>) {
        let is_first = self.state.replace(QueueState::Closing) != QueueState::Closing;
        self.fail_unflushed();
        let limit = self.options.close_stall_limit;
        if limit.is_zero() {
            self.fail_entries(&|| closed_error(self.channel.close_cause()), Some(ctx));
        }
        if limit.is_zero() || !self.has_work() {
            return ctx.close_with(done);
        }
        self.push(QueuedItem::Close(done), 0);
        self.hold.borrow_mut().get_or_insert_with(|| ctx.hold());
        self.flush_all();
        if is_first {
            self.closing_since.set(ctx.now());
            let _ = ctx.last_write(); // Makes the channel record write times from now on.
            ctx.schedule(limit, 0);
        }
    }

    /// Returns the error for a new message; `None` if it may be queued.
    fn refusal(&self, size: usize, ctx: &Ctx<'_>) -> Option<Error> {
        self.end_error().or_else(|| ctx.held_write_error(size).map(Error::from))
    }

    /// Returns the error of messages after the end of the queue; `None` before it.
    pub(super) fn end_error(&self) -> Option<Error> {
        match self.state.get() {
            QueueState::Open => None,
            QueueState::ShuttingDown | QueueState::ShutDown => {
                Some(ChannelError::OutputShutDown.into())
            }
            QueueState::Closing | QueueState::Closed => {
                Some(closed_error(self.channel.close_cause()))
            }
        }
    }

    // The front, for the pump.

    /// Calls `f` with the first entry that a flush covers.
    pub(super) fn with_front<R>(&self, f: impl FnOnce(&mut QueuedItem) -> R) -> Option<R> {
        if self.flushed.get() == 0 {
            return None;
        }
        self.entries.borrow_mut().front_mut().map(|entry| f(&mut entry.item))
    }

    pub(super) fn pop_front(&self) -> Option<QueuedItem> {
        let entry = self.entries.borrow_mut().pop_front()?;
        self.flushed.set(self.flushed.get().saturating_sub(1));
        self.release_held(entry.held);
        Some(entry.item)
    }

    /// Takes the source of the first entry, to poll it.
    pub(super) fn take_source(&self) -> Option<Box<dyn ChunkSource>> {
        let mut entries = self.entries.borrow_mut();
        let Entry { item: QueuedItem::Transfer(_, source), held } = entries.front_mut()? else {
            return None;
        };
        let (source, held) = (source.take(), std::mem::take(held));
        drop(entries);
        self.release_held(held);
        source
    }

    /// Returns the pending bytes of the entries.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.borrow().get()
    }

    fn release_held(&self, bytes: usize) {
        if bytes > 0 {
            let mut held = self.held.borrow_mut();
            let left = held.get().saturating_sub(bytes);
            held.set(left);
        }
    }

    /// Releases the hold, and the memory of a burst, if the queue is empty.
    pub(super) fn release_if_empty(&self) {
        let mut entries = self.entries.borrow_mut();
        if entries.is_empty() {
            entries.shrink_to(MAX_KEPT_CAPACITY);
            drop(entries);
            let hold = self.hold.take();
            drop(hold);
        }
    }

    /// Drops the chunked writes that were cancelled, and their sources.
    pub(super) fn drop_cancelled(&self) {
        let mut cancelled = Vec::new();
        let mut entries = self.entries.borrow_mut();
        let mut at = 0;
        while at < entries.len() {
            let is_cancelled =
                matches!(&entries[at].item, QueuedItem::Transfer(it, _) if it.is_cancelled());
            if !is_cancelled {
                at += 1;
            } else if let Some(entry) = entries.remove(at) {
                self.release_held(entry.held);
                cancelled.push(entry.item);
                if at < self.flushed.get() {
                    self.flushed.set(self.flushed.get() - 1);
                }
            }
        }
        drop(entries);
        drop(cancelled);
    }

    /// Takes out the entries that no flush covers.
    pub(super) fn take_unflushed(&self) -> impl Iterator<Item = QueuedItem> {
        let unflushed = self.entries.borrow_mut().split_off(self.flushed.get());
        self.release_held(unflushed.iter().fold(0, |sum, entry| sum.saturating_add(entry.held)));
        unflushed.into_iter().map(|entry| entry.item)
    }

    /// Takes out all entries; also returns how many of them, from the front, a flush covers.
    pub(super) fn take_all(&self) -> (usize, impl Iterator<Item = QueuedItem>) {
        let (flushed, entries) = (self.flushed.take(), self.entries.take());
        self.held.borrow_mut().set(0);
        (flushed, entries.into_iter().map(|entry| entry.item))
    }
}
