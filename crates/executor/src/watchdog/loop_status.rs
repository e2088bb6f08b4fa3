//! The status of a loop, for observers that must not keep the loop alive: its activity, its thread, its slow
//! work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{Mutex, lock};
use crate::thread::ThreadProperties;
use crate::watchdog::activity_cell::ActivityCell;

/// State shared by the loop and its observers. The loop alone writes the activity; the thread is written at the begin
/// of a turn; the watchdog writes the rest.
#[derive(Debug)]
pub(crate) struct LoopStatus {
    /// The loop writes this with every task: on a cache line of its own.
    pub(crate) activity: CachePadded<ActivityCell>,
    thread: Mutex<Option<ThreadProperties>>,
    slow: AtomicU64,
    longest: AtomicU64,
}

impl LoopStatus {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            activity: CachePadded::new(ActivityCell::new()),
            thread: Mutex::new(None),
            slow: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        })
    }

    /// Records that the loop turns on the calling thread from now on.
    pub(crate) fn set_thread(&self) {
        *lock(&self.thread) = Some(ThreadProperties::of_this_thread());
    }

    /// Records that the loop has ended.
    pub(crate) fn mark_ended(&self) {
        if let Some(record) = lock(&self.thread).as_mut() {
            record.is_alive = false;
        }
        self.activity.mark_ended();
    }

    pub(crate) fn thread(&self) -> Option<ThreadProperties> {
        lock(&self.thread).clone()
    }

    /// Records that a piece of work has held the loop this long, beyond the limit.
    pub(crate) fn record_hold(&self, time: Duration, is_new: bool) {
        self.slow.fetch_add(u64::from(is_new), Ordering::Relaxed);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Returns how many pieces of work were slow, and the longest time.
    pub(crate) fn slow_work(&self) -> (u64, Duration) {
        let longest = Duration::from_nanos(self.longest.load(Ordering::Relaxed));
        (self.slow.load(Ordering::Relaxed), longest)
    }
}
