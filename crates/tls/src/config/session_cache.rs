//! The sessions that a server remembers, so that clients can resume them.
//!
//! One cache per configuration, used by handshakes on all loops: a short lock, every operation in constant time. The
//! cache of rustls searches all sessions whenever one is taken, and keeps them for as long as there is room.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::server::StoresServerSessions;

/// The time after which a session is not resumed: rustls tells it to clients of TLS 1.3.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest session. One without a certificate of the client has some 200 bytes.
const MAX_SESSION_BYTES: usize = 16 * 1024;

pub(super) struct SessionCache {
    max_sessions: usize,
    now: fn() -> UnixTime,
    /// Only memory is moved while it is locked; no code of the program runs.
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    sessions: HashMap<Vec<u8>, StoredSession>,
    /// Keys with the numbers of their sessions, oldest first. Those of sessions that are gone stay until they are first,
    /// or until they are the larger part.
    order: VecDeque<(u64, Vec<u8>)>,
    next_number: u64,
}

struct StoredSession {
    number: u64,
    expires: Duration,
    value: Vec<u8>,
}

impl SessionCache {
    pub(super) fn new(max_sessions: usize) -> Self {
        Self { max_sessions, now: UnixTime::now, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_alive(&self, session: &StoredSession) -> bool {
        since_epoch((self.now)()) < session.expires
    }
}

fn since_epoch(time: UnixTime) -> Duration {
    Duration::from_secs(time.as_secs())
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        if value.len() > MAX_SESSION_BYTES || self.max_sessions == 0 {
            return false;
        }
        let expires = since_epoch((self.now)()) + LIFETIME;
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.order.push_back((number, key.clone()));
        state.sessions.insert(key, StoredSession { number, expires, value });
        state.evict(self.max_sessions);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let state = self.state();
        let session = state.sessions.get(key).filter(|session| self.is_alive(session))?;
        Some(session.value.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let session = self.state().sessions.remove(key)?;
        self.is_alive(&session).then_some(session.value)
    }

    fn can_cache(&self) -> bool {
        self.max_sessions > 0
    }
}

impl CacheState {
    fn evict(&mut self, max_sessions: usize) {
        let is_current = |sessions: &HashMap<Vec<u8>, StoredSession>, number, key: &[u8]| {
            sessions.get(key).is_some_and(|session| session.number == number)
        };
        while self.sessions.len() > max_sessions {
            let Some((number, key)) = self.order.pop_front() else { return };
            if is_current(&self.sessions, number, &key) {
                self.sessions.remove(&key);
            }
        }
        // Once in as many calls as there is room for.
        if self.order.len() > 2 * max_sessions {
            self.order.retain(|(number, key)| is_current(&self.sessions, *number, key));
        }
    }
}

impl fmt::Debug for SessionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCache")
            .field("max_sessions", &self.max_sessions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    fn manual_cache(max_sessions: usize) -> SessionCache {
        let now = || UnixTime::since_unix_epoch(Duration::from_secs(NOW.get()));
        SessionCache { now, ..SessionCache::new(max_sessions) }
    }

    /// A call of the cache, or a pause.
    #[derive(Clone, Debug)]
    enum Step {
        Put(u8),
        Get(u8),
        Take(u8),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..12).prop_map(Step::Put),
            2 => (0u8..12).prop_map(Step::Get),
            2 => (0u8..12).prop_map(Step::Take),
            1 => (0u64..10 * 60 * 60).prop_map(Step::Wait),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn t07_the_cache_keeps_the_last_sessions_like_a_list(
            max in 1usize..6,
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            NOW.set(0);
            let cache = manual_cache(max);
            // The slow reference: key, value and time, oldest first.
            let mut list: Vec<(u8, u8, u64)> = Vec::new();
            for (at, step) in steps.iter().enumerate() {
                let find = |list: &[(u8, u8, u64)], key| {
                    list.iter().position(|it| it.0 == key)
                };
                let is_alive = |time: u64| NOW.get() < time + LIFETIME.as_secs();
                match *step {
                    Step::Put(key) => {
                        let value = at as u8;
                        prop_assert!(cache.put(vec![key], vec![value]));
                        list.retain(|it| it.0 != key);
                        list.push((key, value, NOW.get()));
                        if list.len() > max {
                            list.remove(0);
                        }
                    }
                    Step::Get(key) => {
                        let found = find(&list, key).map(|at| list[at]).filter(|it| is_alive(it.2));
                        prop_assert_eq!(cache.get(&[key]), found.map(|it| vec![it.1]));
                    }
                    Step::Take(key) => {
                        let found = find(&list, key).map(|at| list.remove(at));
                        let found = found.filter(|it| is_alive(it.2));
                        prop_assert_eq!(cache.take(&[key]), found.map(|it| vec![it.1]));
                    }
                    Step::Wait(seconds) => NOW.set(NOW.get() + seconds),
                }
                let state = cache.state();
                prop_assert!(state.sessions.len() <= max && state.order.len() <= 2 * max);
            }
        }
    }

    #[test]
    fn t07_a_session_is_not_resumed_after_24_hours() {
        NOW.set(1_000_000);
        let cache = manual_cache(4);
        cache.put(vec![1], vec![2]);
        cache.put(vec![2], vec![3]);
        NOW.set(NOW.get() + LIFETIME.as_secs() - 1);
        assert_eq!(cache.get(&[1]), Some(vec![2]));
        NOW.set(NOW.get() + 1);
        assert_eq!((cache.get(&[1]), cache.take(&[2])), (None, None));
    }

    #[test]
    fn t07_a_session_that_is_too_large_is_not_kept() {
        let cache = SessionCache::new(4);
        assert!(cache.can_cache() && cache.put(vec![1], vec![0; MAX_SESSION_BYTES]));
        assert!(!cache.put(vec![2], vec![0; MAX_SESSION_BYTES + 1]));
        assert_eq!(cache.get(&[2]), None);
        let none = SessionCache::new(0);
        assert!(!none.can_cache() && !none.put(vec![1], vec![2]));
    }
}
