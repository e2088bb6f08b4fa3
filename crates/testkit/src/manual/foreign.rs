//! A foreign source: whatever a loop watches that is not a channel's.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_channel::driver::{Interest, Readiness};

use super::stream::Watcher;

/// The end that a driver is given.
pub(super) struct ForeignEnd {
    foreign: Arc<Foreign>,
}

/// Makes a foreign source ready. Clones are the same hand.
#[derive(Clone)]
pub struct ForeignSource {
    foreign: Arc<Foreign>,
}

struct Foreign {
    state: Mutex<State>,
}

struct State {
    ready: Readiness,
    failure: Option<io::Error>,
    closed: bool,
    watcher: Option<Watcher>,
}

pub(super) fn foreign() -> (ForeignEnd, ForeignSource) {
    let state = State { ready: Readiness::default(), failure: None, closed: false, watcher: None };
    let foreign = Arc::new(Foreign { state: Mutex::new(state) });
    (ForeignEnd { foreign: foreign.clone() }, ForeignSource { foreign })
}

impl ForeignSource {
    /// It is ready for exactly this from now on, until told otherwise.
    pub fn set_ready(&self, ready: Readiness) {
        self.foreign.change(|state| state.ready = ready);
    }

    /// It is ready for nothing.
    pub fn clear(&self) {
        self.set_ready(Readiness::default());
    }

    /// It cannot be watched any longer: `Failed`.
    pub fn fail(&self, error: impl Into<io::Error>) {
        self.foreign.change(|state| state.failure = Some(error.into()));
    }

    /// Whether the driver's end has been dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.foreign.lock().closed
    }
}

impl fmt::Debug for ForeignSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignSource({:?})", self.foreign.lock().ready)
    }
}

impl ForeignEnd {
    pub(super) fn watch(&self, watcher: Watcher) {
        self.foreign.lock().watcher = Some(watcher);
    }

    /// What somebody with this interest is told: an error or a hang-up in any case.
    pub(super) fn ready(&self, interest: Interest) -> Readiness {
        let ready = self.foreign.lock().ready;
        let mut told = Readiness::default();
        for (bit, wanted) in [
            (Readiness::READABLE, interest.contains(Interest::READABLE)),
            (Readiness::WRITABLE, interest.contains(Interest::WRITABLE)),
            (Readiness::PRIORITY, interest.contains(Interest::PRIORITY)),
            (Readiness::ERROR, true),
            (Readiness::HANG_UP, true),
        ] {
            if wanted && ready.contains(bit) {
                told |= bit;
            }
        }
        told
    }

    pub(super) fn is_failed(&self) -> bool {
        self.foreign.lock().failure.is_some()
    }

    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.foreign.lock().failure.take()
    }
}

impl Drop for ForeignEnd {
    fn drop(&mut self) {
        let mut state = self.foreign.lock();
        state.closed = true;
        state.watcher = None;
    }
}

impl Foreign {
    fn change(&self, how: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        how(&mut state);
        let watcher = state.watcher.clone();
        drop(state);
        if let Some(watcher) = watcher {
            watcher.touch();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
