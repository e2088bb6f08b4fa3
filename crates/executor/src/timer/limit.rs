//! The limit on pending timers of an executor (E13).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the pending timers. Any thread schedules and cancels timers, so any thread updates the count, which
/// publishes no other data.
#[derive(Debug)]
pub(crate) struct TimerLimit {
    bound: usize,
    pending: AtomicUsize,
}

/// The right to one pending timer. A part of the timer's closure, so that it is released when the timer fires
/// for the last time, is cancelled, or is dropped: on any thread, and at once.
#[derive(Debug)]
pub(crate) struct TimerPermit(Arc<TimerLimit>);

impl TimerLimit {
    pub(crate) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound, pending: AtomicUsize::new(0) })
    }

    /// Admits one more timer.
    ///
    /// # Errors
    /// The bound, if that many timers are pending already.
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
