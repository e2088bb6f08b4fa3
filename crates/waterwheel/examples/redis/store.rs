//! Keys with their values, and the times at which they expire.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use waterwheel::bytes::Bytes;
use waterwheel::executor::Clock;

/// Milliseconds on the loop's clock.
pub(crate) type Millis = i64;

#[derive(Clone)]
pub(crate) enum Value {
    Text(Bytes),
    /// A text that `INCR` has written.
    Number(i64),
    /// Never empty: a list is removed with its last element.
    List(VecDeque<Bytes>),
}

struct Entry {
    value: Value,
    deadline: Option<Millis>,
}

/// Keys and values are copies of arguments: an argument is a slice of the whole read buffer and would keep it alive. The
/// map's hasher is the standard one, because clients choose the keys: a faster one must resist chosen collisions too.
#[derive(Default)]
pub(crate) struct Store {
    entries: HashMap<Bytes, Entry>,
    /// The deadlines of all entries that have one, each with its key.
    deadlines: BTreeSet<(Millis, Bytes)>,
    clock: Clock,
}

impl Store {
    pub(crate) fn now(&self) -> Millis {
        (self.clock.now().0 / 1_000_000) as Millis
    }

    /// Returns the number of keys, including expired ones that are not removed yet.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn clear(&mut self) {
        self.entries = HashMap::default();
        self.deadlines.clear();
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<&mut Value> {
        self.entry(key).map(|entry| &mut entry.value)
    }

    /// Sets the value of a key. An existing key keeps its deadline.
    pub(crate) fn set(&mut self, key: &[u8], value: Value) {
        match self.entry(key) {
            Some(entry) => entry.value = value,
            None => {
                let entry = Entry { value, deadline: None };
                self.entries.insert(Bytes::copy_from_slice(key), entry);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Value> {
        self.expire(key);
        let (key, entry) = self.entries.remove_entry(key)?;
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, key));
        }
        Some(entry.value)
    }

    pub(crate) fn deadline(&mut self, key: &[u8]) -> Option<Millis> {
        if self.deadlines.is_empty() { None } else { self.entry(key)?.deadline }
    }

    /// Sets or removes the deadline of an existing key.
    pub(crate) fn set_deadline(&mut self, key: &[u8], deadline: Option<Millis>) {
        if deadline.is_none() && self.deadlines.is_empty() {
            return;
        }
        let Some((key, _)) = self.entries.get_key_value(key) else { return };
        let key = key.clone();
        let Some(entry) = self.entries.get_mut(&key) else { return };
        if let Some(old) = std::mem::replace(&mut entry.deadline, deadline) {
            self.deadlines.remove(&(old, key.clone()));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, key)));
    }

    /// Removes at most `limit` expired keys, and returns how many it has removed.
    pub(crate) fn remove_expired(&mut self, limit: usize) -> usize {
        let now = self.now();
        for removed in 0..limit {
            match self.deadlines.first() {
                Some((deadline, _)) if *deadline <= now => {}
                _ => return removed,
            }
            if let Some((_, key)) = self.deadlines.pop_first() {
                self.entries.remove(&key);
            }
        }
        limit
    }

    fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.expire(key);
        self.entries.get_mut(key)
    }

    /// Removes the key if it has expired. Reads the clock only for a key with a deadline.
    fn expire(&mut self, key: &[u8]) {
        if self.deadlines.is_empty() {
            return;
        }
        let deadline = self.entries.get(key).and_then(|entry| entry.deadline);
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= self.now())
            && let Some((key, _)) = self.entries.remove_entry(key)
        {
            self.deadlines.remove(&(deadline, key));
        }
    }
}

/// Returns the time since 1970: `EXAT` and the like name a time of day, which the loop's clock does not know.
#[allow(clippy::disallowed_methods, reason = "a time of day, not a duration")]
pub(crate) fn unix_time() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
