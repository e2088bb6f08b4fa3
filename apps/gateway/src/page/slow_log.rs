//! The work that held a loop for too long, by name, as the watchdog has seen it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use waterwheel::executor::SlowWork;

/// How many names are kept: as many as a person reads. The one that was not seen for the longest time is forgotten.
const MAX_NAMES: usize = 20;

/// A bounded list of slow tasks and handlers. The watchdog's thread adds, a loop reads; both hold the lock for a copy of a
/// few lines.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: Mutex<VecDeque<SlowEntry>>,
}

/// The slow work of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// The name of the task or handler.
    pub what: String,
    /// The loop that it held the last time.
    pub executor: Arc<str>,
    /// When it began the last time.
    pub since: SystemTime,
    /// How often it has held a loop.
    pub times: u64,
    /// The longest time that it has held a loop.
    pub longest: Duration,
    /// True if it has ended; false while it holds the loop.
    pub is_over: bool,
}

impl SlowLog {
    /// Notes a report of the watchdog. Later reports of work that goes on do not count as another time.
    pub fn note(&self, work: &SlowWork) {
        let what = work.activity.to_string();
        self.put(SlowEntry {
            what: what.strip_prefix("the ").unwrap_or(&what).to_owned(),
            executor: work.executor.clone(),
            since: work.since,
            times: 1,
            longest: work.held_for,
            is_over: work.is_over,
        });
    }

    fn put(&self, mut entry: SlowEntry) {
        let mut entries = self.lock();
        if let Some(at) = entries.iter().position(|known| known.what == entry.what)
            && let Some(known) = entries.remove(at)
        {
            let goes_on = known.executor == entry.executor && known.since == entry.since;
            entry.times = known.times + u64::from(!goes_on);
            entry.longest = entry.longest.max(known.longest);
        }
        entries.truncate(MAX_NAMES - 1);
        entries.push_front(entry);
    }

    /// Returns the entries, the one that was seen last first.
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

    fn entry(what: &str, since: u64, held: u64, is_over: bool) -> SlowEntry {
        SlowEntry {
            what: what.to_owned(),
            executor: "loop-1".into(),
            since: SystemTime::UNIX_EPOCH + Duration::from_secs(since),
            times: 1,
            longest: Duration::from_millis(held),
            is_over,
        }
    }

    #[test]
    fn g04_work_that_goes_on_is_counted_once() {
        let log = SlowLog::default();
        log.put(entry("report", 1, 100, false));
        log.put(entry("report", 1, 200, false));
        log.put(entry("report", 1, 300, true));
        assert_eq!(log.entries(), [entry("report", 1, 300, true)]);
    }

    #[test]
    fn g04_slow_work_has_one_line_per_name_with_its_count_and_its_longest_time() {
        let log = SlowLog::default();
        log.put(entry("report", 1, 300, true));
        log.put(entry("handler", 2, 150, true));
        log.put(entry("report", 3, 100, false));
        let entries = log.entries();
        let report = SlowEntry { times: 2, ..entry("report", 3, 300, false) };
        assert_eq!(entries, [report, entry("handler", 2, 150, true)]);
    }

    #[test]
    fn g04_the_name_that_was_not_seen_for_the_longest_time_is_forgotten() {
        let log = SlowLog::default();
        for n in 0..100 {
            log.put(entry(&format!("the task {n}"), n, 100, true));
        }
        let entries = log.entries();
        assert_eq!(entries.len(), MAX_NAMES);
        assert_eq!(entries[0], entry("the task 99", 99, 100, true));
        assert_eq!(entries[MAX_NAMES - 1], entry("the task 80", 80, 100, true));
    }
}
