//! A watchdog whose reports can be waited for. The slow code itself waits for its report, which shows that the
//! report came while the code held its loop.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use waterwheel_executor::{SlowWork, Watchdog};

/// The watchdog's limit: short, but long enough that the machine's own pauses are seldom reported.
pub(crate) const LIMIT: Duration = Duration::from_millis(10);

/// How long a test waits for something that must happen: far longer than a busy machine needs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The reports of a watchdog, in order. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct SlowReports(Arc<(Mutex<VecDeque<SlowWork>>, Condvar)>);

impl SlowReports {
    /// Returns a watchdog with limit [`LIMIT`], and its reports.
    pub(crate) fn watchdog() -> (Watchdog, Self) {
        let reports = Self::default();
        let keep = reports.clone();
        let built = Watchdog::builder().limit(LIMIT).on_slow(move |work| keep.add(work.clone()));
        (built.build().unwrap(), reports)
    }

    pub(crate) fn add(&self, work: SlowWork) {
        let (queue, changed) = &*self.0;
        queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
        changed.notify_all();
    }

    /// Waits for the next report that `wanted` accepts and takes it. Other reports come from the machine's own pauses.
    #[track_caller]
    pub(crate) fn next(&self, wanted: impl Fn(&SlowWork) -> bool) -> SlowWork {
        let (queue, changed) = &*self.0;
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = queue.iter().position(&wanted) {
                return queue.remove(at).unwrap();
            }
            let waited =
                changed.wait_timeout(queue, TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            queue = waited.0;
            assert!(!waited.1.timed_out(), "no such report; others: {queue:?}");
        }
    }
}
