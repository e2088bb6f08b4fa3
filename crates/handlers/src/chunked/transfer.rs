//! One chunked write: its result, its progress, and the chunks that are on their way to the transport.

use std::cell::{Cell, RefCell};

use waterwheel_channel::{ChannelError, Completion, FileRegion, Msg};
use waterwheel_executor::engine::run_as;
use waterwheel_executor::{Error, Origin, UserCode};

use super::message::{ProgressCallback, TransferProgress};

/// The state of one chunked write, shared by its queue entry and the completions of its chunks. On the loop only;
/// nothing is borrowed while a completion or a callback runs.
pub(super) struct Transfer {
    /// The completion of the whole write; `None` once it was called.
    done: RefCell<Option<Completion>>,
    /// True if nobody waits for the result.
    pub(super) is_ignored: bool,
    /// True if a failure leaves the channel open.
    pub(super) keeps_open: bool,
    /// The chunks that were passed on.
    passed: Cell<u64>,
    /// The passed chunks that were refused.
    refused: Cell<u64>,
    written: Cell<TransferProgress>,
    on_progress: RefCell<Option<ProgressCallback>>,
    /// True once the source has ended.
    is_ended: Cell<bool>,
}

impl Transfer {
    pub(super) fn new(
        done: Completion,
        total_bytes: Option<u64>,
        on_progress: Option<ProgressCallback>,
        keeps_open: bool,
    ) -> Self {
        Self {
            is_ignored: done.is_none(),
            done: RefCell::new(Some(done)),
            keeps_open,
            passed: Cell::new(0),
            refused: Cell::new(0),
            written: Cell::new(TransferProgress { total_bytes, ..Default::default() }),
            on_progress: RefCell::new(on_progress),
            is_ended: Cell::new(false),
        }
    }

    /// True if the future of the write was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.done.borrow().as_ref().is_some_and(Completion::is_cancelled)
    }

    /// Returns how many chunks were passed on.
    pub(super) fn passed(&self) -> u64 {
        self.passed.get()
    }

    pub(super) fn count_passed(&self) {
        self.passed.set(self.passed.get() + 1);
    }

    pub(super) fn count_refused(&self) {
        self.refused.set(self.refused.get() + 1);
    }

    /// True if chunks were passed on that were not refused.
    pub(super) fn has_unrefused(&self) -> bool {
        self.passed.get() > self.refused.get()
    }

    /// True if the write has completed, or was cancelled: nothing more of it is sent.
    pub(super) fn is_over(&self) -> bool {
        self.done.borrow().as_ref().is_none_or(Completion::is_cancelled)
    }

    /// Records that the source has ended: from now on the write cannot be cancelled. It completes with its last chunk.
    pub(super) fn end(&self) {
        self.is_ended.set(true);
        if let Some(done) = self.done.borrow_mut().as_mut() {
            done.begin();
        }
        self.complete_if_written();
    }

    /// Counts a chunk that the transport has written.
    pub(super) fn on_chunk_written(&self, len: u64) {
        let mut written = self.written.get();
        written.bytes = written.bytes.saturating_add(len);
        written.chunks += 1;
        self.written.set(written);
        self.report_progress();
        self.complete_if_written();
    }

    /// Completes the write with an error. Returns false if it had completed.
    pub(super) fn fail(&self, error: Error) -> bool {
        let (done, callback) = (self.done.take(), self.on_progress.take());
        drop(callback);
        let Some(done) = done else { return false };
        done.fail(error);
        true
    }

    fn complete_if_written(&self) {
        if self.is_ended.get() && self.written.get().chunks == self.passed.get() {
            let (done, callback) = (self.done.take(), self.on_progress.take());
            drop(callback);
            if let Some(done) = done {
                done.succeed();
            }
        }
    }

    fn report_progress(&self) {
        // Taken out while it runs: the callback may cause the next chunk to be written.
        let Some(mut callback) = self.on_progress.take() else { return };
        let mut reported = None;
        while reported != Some(self.written.get()) {
            let progress = self.written.get();
            reported = Some(progress);
            let call = || callback(progress);
            if run_as(UserCode::Listener, Origin::here(), call).is_err() {
                return; // Reported; the callback is dropped.
            }
        }
        if self.done.borrow().is_some() {
            *self.on_progress.borrow_mut() = Some(callback);
        }
    }
}

/// Returns the length of a chunk, for progress and the budget of a turn.
pub(super) fn chunk_len(chunk: &Msg) -> u64 {
    match chunk.get::<FileRegion>() {
        Some(region) => region.len(),
        None => chunk.size_hint() as u64,
    }
}

/// True for a chunk without bytes, which is not passed on.
pub(super) fn is_empty_chunk(chunk: &Msg) -> bool {
    (chunk.is::<bytes::Bytes>() || chunk.is::<FileRegion>()) && chunk.size_hint() == 0
}

/// Returns the error of a write to a channel that is closing.
pub(super) fn closed_error(cause: Option<Error>) -> Error {
    ChannelError::Closed { cause }.into()
}
