//! A foreign source in memory: something that a loop watches and that is not a channel's socket.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_channel::driver::{Interest, Readiness};

use super::stream::DriverNotifier;

/// The driver's end of a foreign source.
pub(super) struct ForeignEnd {
    foreign: Arc<ManualForeign>,
}

/// The test's control of a foreign source. Clones control the same source.
#[derive(Clone)]
pub struct ManualForeignSource {
    foreign: Arc<ManualForeign>,
}

struct ManualForeign {
    state: Mutex<ManualForeignState>,
}

struct ManualForeignState {
    ready: Readiness,
    failure: Option<io::Error>,
    closed: bool,
    notifier: Option<DriverNotifier>,
}

pub(super) fn foreign_source() -> (ForeignEnd, ManualForeignSource) {
    let state = ManualForeignState {
        ready: Readiness::default(),
        failure: None,
        closed: false,
        notifier: None,
    };
    let foreign = Arc::new(ManualForeign { state: Mutex::new(state) });
    (ForeignEnd { foreign: foreign.clone() }, ManualForeignSource { foreign })
}

impl ManualForeignSource {
    /// Sets the readiness of the source until the next call.
    pub fn set_ready(&self, ready: Readiness) {
        self.foreign.change_for_driver(|state| state.ready = ready);
    }

    /// Makes the source not ready.
    pub fn clear(&self) {
        self.set_ready(Readiness::default());
    }

    /// Fails the source: its registration gets `Failed`.
    pub fn fail(&self, error: impl Into<io::Error>) {
        self.foreign.change_for_driver(|state| state.failure = Some(error.into()));
    }

    /// True if the driver's end has been dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.foreign.lock().closed
    }
}

impl fmt::Debug for ManualForeignSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualForeignSource({:?})", self.foreign.lock().ready)
    }
}

impl ForeignEnd {
    pub(super) fn set_notifier(&self, notifier: DriverNotifier) {
        self.foreign.lock().notifier = Some(notifier);
    }

    /// Returns the readiness reported for this interest: an error or a hang-up is always included.
    pub(super) fn ready(&self, interest: Interest) -> Readiness {
        let ready = self.foreign.lock().ready;
        let mut reported = Readiness::default();
        for (bit, wanted) in [
            (Readiness::READABLE, interest.contains(Interest::READABLE)),
            (Readiness::WRITABLE, interest.contains(Interest::WRITABLE)),
            (Readiness::PRIORITY, interest.contains(Interest::PRIORITY)),
            (Readiness::ERROR, true),
            (Readiness::HANG_UP, true),
        ] {
            if wanted && ready.contains(bit) {
                reported |= bit;
            }
        }
        reported
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
        state.notifier = None;
    }
}

impl ManualForeign {
    /// Changes the source and notifies the driver.
    fn change_for_driver(&self, change: impl FnOnce(&mut ManualForeignState)) {
        let mut state = self.lock();
        change(&mut state);
        let notifier = state.notifier.clone();
        drop(state);
        if let Some(notifier) = notifier {
            notifier.notify();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ManualForeignState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
