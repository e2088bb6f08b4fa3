//! How many timers of the user's may be pending at an executor (E13).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts timers between their scheduling and their end. Any thread schedules and cancels, so any thread
/// counts; nothing else is published by it.
#[derive(Debug)]
pub(crate) struct TimerLimit {
    bound: usize,
    pending: AtomicUsize,
}

/// The place of one pending timer. A part of its closure, so that it goes when the timer fires for the last
/// time, is cancelled, or is dropped: on whichever thread, and at once.
#[derive(Debug)]
pub(crate) struct TimerPermit(Arc<TimerLimit>);

impl TimerLimit {
    pub(crate) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound, pending: AtomicUsize::new(0) })
    }

    /// Makes room for one more timer.
    ///
    /// # Errors
    /// The bound, if there are as many.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<TimerPermit, usize> {
        let one_more = |pending| (pending < self.bound).then_some(pending + 1);
        match self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(TimerPermit(self.clone())),
            Err(_) => Err(self.bound),
        }
    }
}

impl Drop for TimerPermit {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::Relaxed);
    }
}
