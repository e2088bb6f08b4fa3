//! How a queue ends: failures, a close that stalls, the removal of the handler.

use waterwheel_channel::Ctx;
use waterwheel_executor::Error;

use super::error::ChunkedWriteError;
use super::queue::{ChunkQueue, QueueState, QueuedItem};
use super::transfer::closed_error;

impl ChunkQueue {
    /// Fails what no flush covers.
    pub(super) fn fail_unflushed(&self) {
        for item in self.take_unflushed() {
            fail_item(item, &|| ChunkedWriteError::NotFlushed.into(), None);
        }
        self.release_if_empty();
    }

    /// Takes all entries out and fails them. A queued close is passed on if there is a context.
    pub(super) fn fail_entries(&self, error: &dyn Fn() -> Error, ctx: Option<&Ctx<'_>>) {
        for item in self.take_all().1 {
            fail_item(item, error, ctx);
        }
        self.release_if_empty();
    }

    /// Fails everything that is queued, because nothing can be written any more.
    pub(super) fn end_output(&self, state: QueueState, ctx: &Ctx<'_>) {
        if self.state.get() != QueueState::Closed {
            self.state.set(state);
        }
        if self.has_work() {
            let error = self.end_error();
            self.fail_entries(&|| error.clone().unwrap_or_else(|| closed_error(None)), Some(ctx));
        }
    }

    /// Closes the channel after a chunked write that failed in the middle: nothing may follow on the wire.
    pub(super) fn close_broken(&self, cause: &Error, ctx: &Ctx<'_>) {
        self.state.set(QueueState::Closing);
        ctx.flush(); // For the chunks of this turn.
        // Before the closes that are queued: the failure is the cause.
        ctx.close_because(cause.clone());
        self.fail_entries(&|| closed_error(Some(cause.clone())), Some(ctx));
    }

    /// Ends a close that waits, if nothing was written to the transport for the limit.
    pub(super) fn check_stalled_close(&self, ctx: &Ctx<'_>) {
        if self.state.get() != QueueState::Closing || self.is_empty() {
            return;
        }
        let limit = self.options.close_stall_limit;
        let since = self.closing_since.get();
        // A part of a chunk counts: a large one may take a slow peer longer than the limit.
        let last = ctx.last_write().map_or(since, |written| written.max(since));
        let left = last.plus(limit).since(ctx.now());
        if left.is_zero() {
            self.fail_entries(&|| ChunkedWriteError::Stalled { limit }.into(), Some(ctx));
        } else {
            ctx.schedule(left, 0);
        }
    }

    /// Passes on what the handler holds when it is removed: messages and operations, in order. A chunked write that has
    /// not ended fails, and if a part of it was passed on, the channel is closed.
    pub(super) fn hand_over(&self, ctx: &Ctx<'_>) {
        if self.channel.is_open() {
            self.pass_all(ctx);
        } else {
            self.end_output(QueueState::Closed, ctx);
        }
        self.stop();
    }

    fn pass_all(&self, ctx: &Ctx<'_>) {
        let error = Error::from(ChunkedWriteError::Removed);
        // Failed at the end: what completions write must not overtake the messages that are still here.
        let mut failed = Vec::new();
        let (flushed, items) = self.take_all();
        for (at, item) in items.enumerate() {
            match item {
                QueuedItem::Transfer(transfer, source) => {
                    if transfer.passed() > 0 && !transfer.keeps_open {
                        ctx.close_because(error.clone());
                    }
                    failed.push((transfer, source));
                }
                QueuedItem::Message(msg, done) => ctx.write_with(msg, done),
                QueuedItem::ShutdownOutput(done) => ctx.shutdown_output_with(done),
                QueuedItem::Close(done) => ctx.close_with(done),
            }
            if at + 1 == flushed {
                ctx.flush();
            }
        }
        for (transfer, source) in failed {
            drop(source);
            if transfer.fail(error.clone()) && transfer.is_ignored {
                ctx.fire_error(error.clone());
            }
        }
    }

    /// Fails what is queued after a panic in the handler's call; the channel is closed with the panic.
    pub(super) fn fail_after_panic(&self) {
        self.state.set(QueueState::Closed);
        self.fail_entries(&|| closed_error(self.channel.close_cause()), None);
        self.stop();
    }

    fn stop(&self) {
        self.release_if_empty();
        self.is_stopped.set(true);
        self.wake();
    }
}

fn fail_item(item: QueuedItem, error: &dyn Fn() -> Error, ctx: Option<&Ctx<'_>>) {
    match item {
        QueuedItem::Message(msg, done) => {
            drop(msg);
            done.fail(error());
        }
        QueuedItem::Transfer(transfer, source) => {
            drop(source);
            transfer.fail(error());
        }
        QueuedItem::ShutdownOutput(done) => done.fail(error()),
        QueuedItem::Close(done) => match ctx {
            Some(ctx) => ctx.close_with(done),
            None => done.succeed(),
        },
    }
}
