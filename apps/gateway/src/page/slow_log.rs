//! The last pieces of work that held a loop for too long, as the watchdog has seen them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use waterwheel::executor::SlowWork;

/// How many are kept: as many as a person reads.
const MAX_ENTRIES: usize = 20;

/// A bounded list of slow work. The watchdog's thread adds, a loop reads; both hold the lock for a copy of a few lines.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: Mutex<VecDeque<SlowEntry>>,
}

/// A piece of work that has held a loop, or still does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// The name of the loop.
    pub executor: Arc<str>,
    /// The name of the task or handler.
    pub what: String,
    /// When it began.
    pub since: SystemTime,
    /// How long it has held the loop.
    pub held_for: Duration,
    /// True if it has ended.
    pub is_over: bool,
}

impl SlowLog {
    /// Notes a report of the watchdog. A later report of the same work replaces the earlier one.
    pub fn note(&self, work: &SlowWork) {
        self.put(SlowEntry {
            executor: work.executor.clone(),
            what: work.activity.to_string(),
            since: work.since,
            held_for: work.held_for,
            is_over: work.is_over,
        });
    }

    fn put(&self, entry: SlowEntry) {
        let mut entries = self.lock();
        let is_same = |known: &SlowEntry| {
            !known.is_over && known.executor == entry.executor && known.since == entry.since
        };
        if let Some(known) = entries.iter_mut().find(|known| is_same(known)) {
            *known = entry;
            return;
        }
        if entries.len() == MAX_ENTRIES {
            entries.pop_back();
        }
        entries.push_front(entry);
    }

    /// Returns the entries, the latest first.
    #[must_use]
    pub fn entries(&self) -> Vec<SlowEntry> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SlowEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u64, held: u64, is_over: bool) -> SlowEntry {
        SlowEntry {
            executor: "loop-1".into(),
            what: format!("the task {n}"),
            since: SystemTime::UNIX_EPOCH + Duration::from_secs(n),
            held_for: Duration::from_millis(held),
            is_over,
        }
    }

    #[test]
    fn g04_work_that_goes_on_has_one_line() {
        let log = SlowLog::default();
        log.put(entry(1, 100, false));
        log.put(entry(1, 200, false));
        log.put(entry(1, 300, true));
        assert_eq!(log.entries(), [entry(1, 300, true)]);
    }

    #[test]
    fn g04_the_latest_slow_work_comes_first_and_the_oldest_is_forgotten() {
        let log = SlowLog::default();
        for n in 0..100 {
            log.put(entry(n, 100, true));
        }
        let entries = log.entries();
        assert_eq!(entries.len(), MAX_ENTRIES);
        assert_eq!(entries[0], entry(99, 100, true));
    }
}
