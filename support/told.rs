//! A watchdog whose reports can be waited for, by the very code that is slow: then it was told of while
//! it held its loop.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use waterwheel_executor::{SlowWork, Watchdog};

/// As short as goes without the machine's own pauses being told of all the time.
pub(crate) const LIMIT: Duration = Duration::from_millis(10);

/// By when anything that must happen has happened: far beyond a busy machine's worst day.
const SOON: Duration = Duration::from_secs(20);

/// What a watchdog has told.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<(Mutex<VecDeque<SlowWork>>, Condvar)>);

impl Told {
    /// A watchdog, and what it tells.
    pub(crate) fn watchdog() -> (Watchdog, Self) {
        let told = Self::default();
        let keep = told.clone();
        let built = Watchdog::builder().limit(LIMIT).on_slow(move |work| keep.add(work.clone()));
        (built.build().unwrap(), told)
    }

    pub(crate) fn add(&self, work: SlowWork) {
        let (queue, changed) = &*self.0;
        queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
        changed.notify_all();
    }

    /// Waits for the next that `wanted` says is one: what the machine's own pauses have made slow is not.
    #[track_caller]
    pub(crate) fn next(&self, wanted: impl Fn(&SlowWork) -> bool) -> SlowWork {
        let (queue, changed) = &*self.0;
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = queue.iter().position(&wanted) {
                return queue.remove(at).unwrap();
            }
            let waited = changed.wait_timeout(queue, SOON).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
            assert!(!waited.1.timed_out(), "not told of; others: {queue:?}");
        }
    }
}
