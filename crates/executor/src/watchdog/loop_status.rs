//! What may be seen of a loop by those who must not hold it: what it does, and on which thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::{Mutex, lock};
use crate::thread::ThreadProperties;
use crate::watchdog::activity_cell::Pulse;

/// Shared by the loop and whoever watches it. The pulse is written by the loop alone, the thread by
/// whoever begins a turn, the rest by the watchdog.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// The loop writes it with every task: away from what others write.
    pub(crate) pulse: CachePadded<Pulse>,
    thread: Mutex<Option<ThreadProperties>>,
    slow: AtomicU64,
    longest: AtomicU64,
}

impl Vitals {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            pulse: CachePadded::new(Pulse::new()),
            thread: Mutex::new(None),
            slow: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        })
    }

    /// The loop turns on the calling thread from now on.
    pub(crate) fn on_this_thread(&self) {
        *lock(&self.thread) = Some(ThreadProperties::of_this_thread());
    }

    /// The loop has ended.
    pub(crate) fn stop(&self) {
        if let Some(record) = lock(&self.thread).as_mut() {
            record.is_alive = false;
        }
        self.pulse.stop();
    }

    pub(crate) fn thread(&self) -> Option<ThreadProperties> {
        lock(&self.thread).clone()
    }

    /// A piece of work has held the loop this long, and beyond the limit.
    pub(crate) fn held(&self, time: Duration, is_new: bool) {
        self.slow.fetch_add(u64::from(is_new), Ordering::Relaxed);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
    }

    /// How many pieces of work have, and the longest time.
    pub(crate) fn slow(&self) -> (u64, Duration) {
        let longest = Duration::from_nanos(self.longest.load(Ordering::Relaxed));
        (self.slow.load(Ordering::Relaxed), longest)
    }
}
