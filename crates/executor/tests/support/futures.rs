//! Waiting for futures, with a limit, and noting what listeners say.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel_executor::{Error, EventExecutor, PromiseFuture};

/// How long a test waits for something that must happen.
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

/// What listeners noted, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<u32>>>);

impl Notes {
    pub(crate) fn add(&self, note: u32) {
        self.0.lock().unwrap().push(note);
    }

    /// A listener that leaves this note.
    pub(crate) fn noting<T>(&self, note: u32) -> impl FnOnce(&Result<T, Error>) + Send + use<T> {
        let notes = self.clone();
        move |_| notes.add(note)
    }

    pub(crate) fn taken(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}
