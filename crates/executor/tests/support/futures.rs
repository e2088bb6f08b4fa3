//! Waiting for futures with a time limit, and a log for listeners.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_executor::{Error, EventExecutor, PromiseFuture};

/// How long a test waits for something that must happen, on a slow machine too.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> Result<T, Error> {
    future.wait_timeout(LIMIT).expect("completed in time");
    future.join()
}

/// Runs `f` on the executor's thread; a failed assertion in there fails the test.
pub(crate) fn on_loop<R: Send + 'static>(
    executor: &EventExecutor,
    f: impl FnOnce() -> R + Send + 'static,
) -> R {
    get(executor.submit(f).unwrap()).unwrap()
}

/// Numbers noted by listeners, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<u32>>>);

impl Notes {
    pub(crate) fn add(&self, note: u32) {
        self.0.lock().unwrap().push(note);
    }

    /// Returns a listener that adds `note`.
    pub(crate) fn listener<T>(&self, note: u32) -> impl FnOnce(&Result<T, Error>) + Send + use<T> {
        let notes = self.clone();
        move |_| notes.add(note)
    }

    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
